"""The image under Podman, with storage in a temporary folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.conftest import (
    BRIEF,
    CALLER,
    SHORT_BENCH,
    SHORT_RECORDS,
    Checkout,
    environment_of,
    measured,
    owners,
    run,
)
from tests.requirements import not_tested

pytestmark = [pytest.mark.container, pytest.mark.exhaustive, pytest.mark.timeout(1500)]

CONTAINERS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
"""Settings for a machine without systemd, such as a CI machine."""

STORAGE = """
[storage]
driver = "overlay"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""


@pytest.fixture(scope="session")
def podman(workshop: Path, cpu_image: str, docker: dict[str, str]) -> Iterator[dict[str, str]]:
    """Environment variables of a Podman storage that contains only the cpu image."""
    folder = workshop / "podman"
    folder.mkdir()
    (folder / "containers.conf").write_text(CONTAINERS)
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    variables = docker | {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }
    answer = run("podman", "info", check=False, env=variables)
    if answer.returncode:
        not_tested("podman", f"podman info failed: {answer.stderr[-300:]}")
    run("bash", "-c", "set -o pipefail; docker save accelbench:cpu | podman load --quiet", env=variables)
    yield variables
    run("podman", "system", "reset", "--force", check=False, env=variables)


def test_podman_runs_a_benchmark_as_an_unprivileged_user_with_limits(
    podman: dict[str, str], cpu_image: str, checkout: Checkout
) -> None:
    """Podman is started by root here, so FLAGS sets the user."""
    checkout.runs()
    flags = f"FLAGS=--cpus 1.5 --memory 3g --user {CALLER.pw_uid}:{CALLER.pw_gid}"
    bench = ("make", "container-bench", "DEVICE=cpu", "ENGINE=podman", *SHORT_BENCH, flags)
    run(*bench, cwd=checkout.path, env=podman)
    found = checkout.only_run()
    assert measured(found) == SHORT_RECORDS
    assert owners(found) == {(CALLER.pw_uid, CALLER.pw_gid)}
    environment = environment_of(found)
    assert (environment["system"]["container"], environment["system"]["image"]) == ("podman", cpu_image)
    assert environment["limits"] == {"cpu_quota": 1.5, "memory_bytes": 3 << 30}


def test_a_benchmark_has_no_capabilities_and_no_network(podman: dict[str, str], checkout: Checkout) -> None:
    checkout.runs()
    flags = f"FLAGS=--env ACCELBENCH_PATH=/accelbench/runs --user {CALLER.pw_uid}:{CALLER.pw_gid}"
    bench = ("make", "container-bench", "DEVICE=cpu", "ENGINE=podman", "BENCH=confined", f"ARGS={BRIEF}", flags)
    run(*bench, cwd=checkout.path, env=podman)
    assert ("confined", "measured") in measured(checkout.only_run())


def test_a_missing_image_exits_with_the_command_to_build_it(podman: dict[str, str], checkout: Checkout) -> None:
    done = run("make", "container-bench", "DEVICE=gpu", "ENGINE=podman", check=False, cwd=checkout.path, env=podman)
    assert done.returncode == 2
    assert "make image DEVICE=gpu ENGINE=podman" in done.stderr
