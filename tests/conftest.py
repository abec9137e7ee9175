"""Fixtures that every test may use: the command line as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.requirements import ANY_BACKEND, is_met, require, summarize

ROOT = Path(__file__).parents[1]
SLOW_FIXTURES = {"browser", "done", "jax_traces", "newest", "tensorflow_traces", "together", "traces", "two_runs"}
SLOW_FIXTURES |= {"xplane_traces"}
"""The fixtures that take seconds, so that every test is slow that asks for one."""
FIXTURE_NEEDS = {
    "browser": ("chromium",),
    "cluster": ("slurm", "root"),
    "docker": ("docker", "root"),
    "podman": ("podman",),
    "prepared": ("gpu-unit",),
    "rehearse": ("gcc",),
    "sif": ("apptainer",),
    "torch_traces": ("torch",),
}
"""What each of these fixtures needs beyond the development set, and so every test that requests one."""
OWN_BENCHMARKS = ROOT / "tests" / "fixtures" / "own_benchmarks"

if not is_met("tensorflow"):
    os.environ.setdefault("KERAS_BACKEND", ANY_BACKEND)  # Keras takes TensorFlow otherwise
os.environ.pop("PYTEST_ADDOPTS", None)  # what chooses among these tests is not for those that they start

# No test asserts a time, because machines are shared. Only `make fuzz` draws new examples.
settings.register_profile("timeless", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("accelbench", settings.get_profile("timeless"), derandomize=True)
settings.register_profile("fuzz", settings.get_profile("timeless"), print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "accelbench"))

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "accelbench", *map(str, arguments)]


def environment(**changes: str | None) -> dict[str, str]:
    """This process's environment with the tests' own benchmarks in it; None removes a variable.

    The repository is first on PYTHONPATH, so that nothing need be installed whatever the working directory is; the
    caller's own PYTHONPATH stays behind it, as the packages may be reachable by nothing else.
    """
    merged = {**os.environ, "ACCELBENCH_PATH": str(OWN_BENCHMARKS), "COLUMNS": "200", **changes}
    merged["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), merged.get("PYTHONPATH")]))
    return {name: value for name, value in merged.items() if value is not None}


def records(run: Path) -> list[dict[str, Any]]:
    """Return the records of a run, as they were written."""
    return [json.loads(line) for line in (run / "records.jsonl").read_text(encoding="utf-8").splitlines()]


def info(run: Path) -> dict[str, Any]:
    """Return the facts that a run tells of itself."""
    found: dict[str, Any] = json.loads((run / "run.json").read_text(encoding="utf-8"))
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test as slow that asks for a slow fixture, and by what its fixtures need."""
    for item in items:
        fixtures = item.fixturenames if isinstance(item, pytest.Function) else ()
        if SLOW_FIXTURES.intersection(fixtures):
            item.add_marker(pytest.mark.slow)
        for name in FIXTURE_NEEDS.keys() & set(fixtures):
            item.add_marker(pytest.mark.needs(*FIXTURE_NEEDS[name]))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test before its fixtures are made if a requirement that it declares is not met."""
    require(*(key for marker in item.iter_markers("needs") for key in marker.args))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that is skipped and does not declare what it needs: `pytest -m needs` would not run it again."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and item.get_closest_marker("needs") is None:
        report.outcome, report.longrepr = "failed", f"skipped without the marker `needs`: {report.longrepr[2]}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print in one line what was not tested, and what would provide it."""
    skipped = terminalreporter.stats.get("skipped", [])
    if line := summarize(report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)):
        terminalreporter.write_line(line)


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> None:
    """Ctrl-C reaches what the tests start: a shell's background jobs, and all they start, ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no NVIDIA driver, whatever this machine has."""
    monkeypatch.setattr("accelbench.profiling.machine.nvidia.libcuda.LIBCUDA", "libno-such-driver.so")


@pytest.fixture
def accelbench(tmp_path: Path) -> Run:
    """Run the real command in an empty folder and return its finished process."""

    def run(*arguments: str | Path, **changes: str | None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments),
            cwd=tmp_path,
            env=environment(**changes),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=240,
        )

    return run
