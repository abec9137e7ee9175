"""Tests of requirements/install.py with real pip and uv, on a small project and local packages, without network."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from packaging.specifiers import SpecifierSet
from uv import find_uv_bin

from tests.conftest import ROOT

SCRIPT = ROOT / "requirements" / "install.py"
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "project"
version = "1"
[project.optional-dependencies]
cpu = ["part"]
"""
BACKEND = """
import pathlib, shutil
def build_editable(folder, config_settings=None, metadata_directory=None):
    return shutil.copy(pathlib.Path(__file__).with_name("project-1-py3-none-any.whl"), folder).split("/")[-1]
"""
WORKING_UV = f"import os, sys; os.execv({find_uv_bin()!r}, ['uv', *sys.argv[1:]])"
BROKEN_UV = "import sys; sys.exit('error: this uv is broken')"
PATIENCE = 280
"""Seconds after which an installation hangs: pip needs two minutes on a machine with ten times as much other work."""


def write_wheel(folder: Path, name: str, version: str, program: str = "", metadata: str = "") -> None:
    """Write a wheel of a package that runs as `python -m NAME`."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__main__.py", program)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a checkout with one pinned package, in a path with a space and a non-ASCII letter."""
    folder = tmp_path / "a clône"
    (folder / "requirements").mkdir(parents=True)
    shutil.copy(SCRIPT, folder / "requirements")
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "backend.py").write_text(BACKEND)
    write_wheel(folder, "project", "1", metadata="Provides-Extra: cpu\nRequires-Dist: part; extra == 'cpu'\n")
    (folder / "requirements" / "cpu.txt").write_text("part==1\n")
    (folder / "requirements" / "dev.txt").write_text("uv==1\n")
    return folder


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Create a folder with the pinned version and a newer version of a package."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for version in ("1", "2"):
        write_wheel(folder, "part", version)
    return folder


def unconfigured() -> dict[str, str]:
    """Return this process's environment variables without pip's, uv's and Python's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "PYTHON"))}
    return {**kept, "PIP_CONFIG_FILE": os.devnull, "UV_NO_CACHE": "1"}


def start(project: Path, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "requirements/install.py", ".venv", "cpu"],
        cwd=project,
        env={**unconfigured(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def from_folder(packages: Path) -> dict[str, str]:
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(packages)}


def installed(project: Path) -> set[str]:
    return {path.name for path in project.glob(".venv/lib/python*/site-packages/*.dist-info")}


@pytest.mark.slow
@pytest.mark.parametrize("uv", ["working", "broken", pytest.param("missing", marks=pytest.mark.exhaustive)])
def test_the_pinned_version_is_installed_with_and_without_uv(project: Path, packages: Path, uv: str) -> None:
    if uv != "missing":
        write_wheel(packages, "uv", "1", BROKEN_UV if uv == "broken" else WORKING_UV)
    process = start(project, **from_folder(packages))
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert {"part-1.dist-info", "project-1.dist-info"} < installed(project)
    assert (project / ".venv" / ".installed-cpu").exists()
    assert len(errors.splitlines()) == (0 if uv == "working" else 1), errors
    assert ("this uv is broken" in errors) == (uv == "broken")


@pytest.mark.slow
def test_a_python_newer_than_the_pins_gets_the_newest_versions(project: Path, packages: Path) -> None:
    write_wheel(packages, "uv", "1", WORKING_UV)
    script = project / "requirements" / "install.py"
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace("NEWEST_PINNED = (3, 14)", "NEWEST_PINNED = (3, 10)"), encoding="utf-8")
    process = start(project, **from_folder(packages))
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert "part-2.dist-info" in installed(project)


@pytest.mark.slow
def test_two_installations_into_one_environment_wait_for_each_other(project: Path, packages: Path) -> None:
    write_wheel(packages, "uv", "1", WORKING_UV)
    processes = [start(project, **from_folder(packages)) for _ in range(2)]
    outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(map(bool, outputs)) == [False, True], "the second one finds the set installed"


@pytest.mark.slow
def test_an_unavailable_package_is_named(project: Path, packages: Path) -> None:
    write_wheel(packages, "uv", "1", WORKING_UV)
    (packages / "part-1-py3-none-any.whl").unlink()
    process = start(project, **from_folder(packages))
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "part==1" in errors
    assert not list(project.glob(".venv/.installed-*"))


@pytest.mark.slow
@pytest.mark.parametrize("uv", [False, True])
def test_an_unreachable_index_is_an_error_that_names_a_package(project: Path, packages: Path, uv: bool) -> None:
    for wheel in packages.iterdir():
        wheel.unlink()
    if uv:
        write_wheel(packages, "uv", "1", WORKING_UV)
    index = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_FIND_LINKS": str(packages)}
    process = start(project, **index, PIP_RETRIES="1", UV_HTTP_RETRIES="1")
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    *_, fallback, reason, outcome = errors.splitlines()
    missing = "/simple/part/" if uv else "uv==1"
    assert missing in fallback
    assert missing in reason
    assert "pip config list" in reason
    assert "nothing was measured" in outcome


@pytest.mark.slow
@pytest.mark.parametrize(("uv", "right"), [(WORKING_UV, True), (WORKING_UV, False), (BROKEN_UV, True)])
def test_an_image_gets_the_locked_files_only(tmp_path: Path, packages: Path, uv: str, right: bool) -> None:
    write_wheel(packages, "uv", "1", uv)
    for name in ("venv", "tools"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / name], check=True)
    (site,) = (tmp_path / "tools").glob("lib/python*/site-packages")
    with zipfile.ZipFile(packages / "uv-1-py3-none-any.whl") as wheel:
        wheel.extractall(site)
    file = packages / f"part-{1 if right else 2}-py3-none-any.whl"
    lock = tmp_path / "cpu.lock"
    lock.write_text(f"part==1 --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}\n")
    arguments = ("venv", "cpu.lock", "tools")
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        cwd=tmp_path,
        env={**unconfigured(), **from_folder(packages)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == (0 if right else 1), done.stderr
    assert [path.stem for path in tmp_path.glob("venv/lib/python*/site-packages/*.dist-info")] == ["part-1"] * right
    assert not list(tmp_path.glob("venv/lib/python*/site-packages/part/__pycache__"))
    assert ("this uv is broken" in done.stderr) == (uv == BROKEN_UV)


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_installer_supports_the_same_pythons_as_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    admitted, module = SpecifierSet(project["requires-python"]), script()
    versions = [(3, minor) for minor in range(5, 30) if f"3.{minor}.1" in admitted]
    assert (versions[0], versions[-1]) == (module.OLDEST, module.NEWEST)
    assert module.NEWEST_PINNED in versions


def test_an_old_interpreter_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script()
    monkeypatch.setattr(module, "OLDEST", (3, 99))
    with pytest.raises(module.InstallError, match=r"3\.99"):
        module.create_environment(tmp_path / "venv")
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize(
    ("settings", "variables"),
    [
        ("", {}),
        ("global.timeout='60'", {}),
        ("global.cert='/etc/ca.pem'", {"SSL_CERT_FILE": "/etc/ca.pem"}),
        (":env:.index-url='http://a'\nglobal.index-url='http://b'", {"UV_DEFAULT_INDEX": "http://a"}),
        ("install.index-url='http://a'\nglobal.index-url='http://b'", {"UV_DEFAULT_INDEX": "http://a"}),
        ("global.find-links='/a\\n/b'", {"UV_FIND_LINKS": "/a,/b"}),
        (
            "global.extra-index-url='http://a http://b'",
            {"UV_INDEX": "http://a http://b", "UV_INDEX_STRATEGY": "unsafe-best-match"},
        ),
    ],
)
def test_settings_of_pip_are_converted_to_variables_of_uv(settings: str, variables: dict[str, str]) -> None:
    assert script().uv_variables(settings) == variables
