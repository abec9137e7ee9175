"""Tests of the images' locks: one base image by digest, and the packages of the pinned sets by hash."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT

IMAGES = ("cpu", "gpu", "tpu")
SETS = ("cpu", "gpu", "gpu13", "tpu", "tpu-tensorflow", "jax", "torch", "mpi", "dev")
UNUSED = {"libclang", "duckdb"}
"""Pinned packages that are not in the images, because measuring does not load them."""
IMAGE_PYTHON = {"python_version": "3.11", "python_full_version": "3.11.2"}
"""Environment markers of the images' interpreter."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pins(name: str) -> dict[str, str]:
    """Return the version of each package of a pinned set, on the images' Python."""
    lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    found = map(Requirement, lines[1:])
    return {
        canonicalize_name(one.name): str(one.specifier).removeprefix("==")
        for one in found
        if one.marker is None or one.marker.evaluate(IMAGE_PYTHON)
    }


def locked(name: str) -> dict[str, tuple[str, int]]:
    """Return the version and the number of file hashes of each package in a lock."""
    text = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
    entries = re.findall(r"^(\S+)==(\S+) \\((?:\n +--hash=sha256:[0-9a-f]{64}(?: \\)?)+)$", text, re.MULTILINE)
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) == sum(1 + hashes.count("--hash") for _, _, hashes in entries), "a line of another kind"
    return {canonicalize_name(package): (version, hashes.count("--hash")) for package, version, hashes in entries}


def declared(extra: str) -> list[str]:
    """Return the requirements of `accelbench[EXTRA]`, with those of the extras that it contains."""
    lines = PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"][extra]
    contained = [one for one in map(Requirement, lines) if one.name == PROJECT["project"]["name"]]
    others = [line for line in lines if Requirement(line) not in contained]
    return others + [line for one in contained for inner in one.extras for line in declared(inner)]


def missing(required: list[str], versions: dict[str, str]) -> list[str]:
    found = [one for one in map(Requirement, required) if one.marker is None or one.marker.evaluate(IMAGE_PYTHON)]
    return [
        str(one)
        for one in found
        if canonicalize_name(one.name) not in versions or versions[canonicalize_name(one.name)] not in one.specifier
    ]


@pytest.mark.parametrize("name", IMAGES)
def test_a_lock_has_each_package_of_its_set_in_the_same_version(name: str) -> None:
    assert {package: version for package, (version, _) in locked(name).items()} == {
        package: version for package, version in pins(name).items() if package not in UNUSED
    }


@pytest.mark.parametrize("name", IMAGES)
def test_a_lock_satisfies_the_projects_requirements(name: str) -> None:
    assert missing(declared(name), {package: version for package, (version, _) in locked(name).items()}) == []


@pytest.mark.parametrize("name", SETS)
def test_the_pinned_sets_satisfy_the_projects_requirements(name: str) -> None:
    assert missing(declared(name), pins(name)) == []


@pytest.mark.parametrize(("name", "traced"), [(name, name != "mpi") for name in SETS])
def test_the_profiler_stack_is_in_every_set_with_a_framework_and_in_no_other(name: str, traced: bool) -> None:
    stack = {"tensorboard", "tensorboard-plugin-profile", "xprof", "gcsfs", "google-cloud-storage", "duckdb"}
    assert stack & {*pins(name)} == (stack if traced else set())
    if name != "dev":  # installed with the CPU's packages
        assert ("tensorboard" in {Requirement(line).name for line in declared(name)}) == traced


def test_the_image_of_a_tpu_has_jax_and_no_tensorflow() -> None:
    packages = locked("tpu").keys()
    assert {"jax", "jaxlib", "libtpu", "keras"} <= packages
    assert not {package for package in packages if package.startswith("tensorflow")}


def test_the_lock_of_the_build_tools_satisfies_their_requirements() -> None:
    versions = {package: version for package, (version, _) in locked("tools").items()}
    assert missing(PROJECT["dependency-groups"]["image-tools"], versions) == []


def test_no_set_contains_an_index_address() -> None:
    for path in (ROOT / "requirements").iterdir():
        if path.suffix in (".txt", ".lock"):
            assert not re.search(r"https?:|index-url|find-links", path.read_text(encoding="utf-8")), path.name


def test_the_images_are_built_on_one_base_by_its_digest() -> None:
    (dockerfile,) = re.findall(r"^ARG BASE=(.*)$", (ROOT / "containers/Dockerfile").read_text("utf-8"), re.MULTILINE)
    (definition,) = re.findall(r"^ +from=(.*)$", (ROOT / "containers/accelbench.def").read_text("utf-8"), re.MULTILINE)
    assert dockerfile == definition
    assert re.fullmatch(r"debian@sha256:[0-9a-f]{64}", dockerfile)
