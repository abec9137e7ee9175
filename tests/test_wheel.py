"""Tests of the installed package: a wheel in a separate environment, used from outside the sources."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT, records
from tests.fixtures.compare_runs import in_rounds
from tests.fixtures.report_runs import make_run

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text(encoding="utf-8")
FOLDERS = ("accelbench", "kernels", "profiling", "workloads")
PACKAGES = ("accelbench.kernels", "accelbench.profiling", "accelbench.workloads")
FRAMEWORKS = ("jax", "tensorflow", "torch")


def uv(*words: str | Path, cwd: Path) -> None:
    offline = [sys.executable, "-m", "uv", *map(str, words), "--offline", "--quiet", "--no-config"]
    subprocess.run(offline, cwd=cwd, check=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel from a copy of the sources, because setuptools leaves files in the source folder."""
    sources = tmp_path_factory.mktemp("sources")
    for folder in FOLDERS:
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, sources / folder, symlinks=True, ignore=skipped)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, sources)
    uv("build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", "dist", cwd=sources)
    (built,) = (sources / "dist").glob("*.whl")
    return built


class Installed:
    """An environment with the wheel, and with links to the dependencies in the environment of the tests."""

    def __init__(self, folder: Path, wheel: Path, without: tuple[str, ...] = ()) -> None:
        venv.create(folder / "venv", with_pip=False)
        self.bin = folder / "venv" / "bin"
        uv("pip", "install", "--no-deps", "--python", self.bin / "python", wheel, cwd=folder)
        dependencies = folder / "dependencies"
        dependencies.mkdir()
        for path in (path for path in sys.path if path.endswith("-packages")):
            for entry in Path(path).iterdir():
                if entry.name not in without and not (dependencies / entry.name).exists():
                    (dependencies / entry.name).symlink_to(entry)
        (site,) = (folder / "venv").glob("lib/python*/site-packages")
        # Packages in this folder come after the wheel, and path files in it (of editable installs) have no effect.
        (site / "dependencies.pth").write_text(f"{dependencies}\n", encoding="utf-8")

    def run(self, line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a shell command line with this environment's `accelbench` on PATH."""
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "ACCELBENCH_PATH")}
        path = os.pathsep.join([str(self.bin), os.environ["PATH"]])
        return subprocess.run(
            line, shell=True, cwd=cwd, env=kept | {"PATH": path, "COLUMNS": "200"}, capture_output=True, text=True
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"), wheel)


@pytest.fixture(scope="module")
def without_frameworks(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    return Installed(tmp_path_factory.mktemp("bare"), wheel, FRAMEWORKS)


def printed_in_readme(line: str) -> str:
    """Return the command line after checking that the README contains it."""
    assert f"`{line}`" in README or f"\n{line}\n" in README, line
    return line


def test_the_wheels_packages_are_imported(installed: Installed, tmp_path: Path) -> None:
    code = f"import {', '.join(PACKAGES)}; print(*(p.__path__[0] for p in ({', '.join(PACKAGES)})))"
    found = installed.run(f'python -c "{code}"', tmp_path)
    assert found.stdout.split() == [
        str(next(installed.bin.parent.glob("lib/python*/site-packages")) / package.replace(".", "/"))
        for package in PACKAGES
    ], found.stderr


def test_the_wheel_has_one_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"accelbench"}
    for folder in FOLDERS:
        files = [path.relative_to(ROOT) for path in (ROOT / folder).rglob("*.py")]
        expected = {str(path) if folder == "accelbench" else f"accelbench/{path}" for path in files}
        assert expected <= set(names)


def test_the_readmes_custom_benchmark_is_measured(installed: Installed, tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "FOLDER").mkdir()
    (tmp_path / "FOLDER" / "saxpy.py").write_text(example, encoding="utf-8")
    (tmp_path / "accelbench.toml").write_text("[run]\nmax-seconds = 0.1\npatience = 0\nrounds = 1\n", encoding="utf-8")
    process = installed.run(printed_in_readme("ACCELBENCH_PATH=FOLDER accelbench run saxpy"), tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr
    (run,) = (tmp_path / "runs").glob("*-saxpy-*")
    measured = [(record["point"]["benchmark"], record["status"]) for record in records(run)]
    assert sorted(measured) == [("saxpy", "measured")] + [("stream", "measured")] * 2
    assert "saxpy" in (run / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("line", ["accelbench --help", "accelbench peaks"])
def test_a_short_command_in_the_readme_works(line: str, installed: Installed, tmp_path: Path) -> None:
    process = installed.run(printed_in_readme(line), tmp_path)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout


def test_the_readmes_commands_for_comparison_and_history_work(installed: Installed, tmp_path: Path) -> None:
    for side, seconds in (("before", 1e-3), ("after", 2e-3)):
        for number in (1, 2, 3):
            name = f"{side}-{number}"
            make_run(tmp_path / "runs" / name, [in_rounds([seconds] * 3)], run_id=name)
    (line,) = re.findall(r"^accelbench compare .*$", README, re.MULTILINE)
    process = installed.run(line, tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "slower" in process.stdout
    history = installed.run(printed_in_readme("accelbench history"), tmp_path)
    assert history.returncode == 0, history.stderr


def test_the_readmes_dry_run_marks_training_workloads_without_their_framework(
    installed: Installed, without_frameworks: Installed, tmp_path: Path
) -> None:
    line = printed_in_readme("accelbench run --dry-run")
    process = without_frameworks.run(f"{line} --device cpu", tmp_path)
    assert process.returncode == 0, process.stderr
    marked = [point.split()[0] for point in process.stdout.splitlines() if point.endswith(", would be skipped")]
    assert marked == ["cnn-mnist"]
    assert "pip install 'accelbench[cpu]'" in process.stdout
    assert "skipped" not in installed.run(f"{line} --device cpu", tmp_path).stdout


@pytest.mark.parametrize(
    ("words", "extra"), [("", "cpu"), ("--backend torch", "torch"), ("--backend jax", "jax")], ids=str
)
def test_a_training_workload_without_its_framework_is_rejected_with_an_existing_extra(
    words: str, extra: str, without_frameworks: Installed, tmp_path: Path
) -> None:
    process = without_frameworks.run(f"accelbench run cnn-mnist --device cpu {words}", tmp_path)
    assert (process.returncode, process.stdout) == (2, "")
    assert re.findall(r"pip install 'accelbench\[(\w+)\]'", process.stderr) == [extra]
    script = "from importlib.metadata import metadata; print(*metadata('accelbench').get_all('Provides-Extra'))"
    assert extra in without_frameworks.run(f'python -c "{script}"', tmp_path).stdout.split()
    assert not (tmp_path / "runs").exists()
