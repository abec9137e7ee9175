"""Fixtures and hooks of all tests."""

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
"""Fixtures that take seconds; tests that request one are marked `slow`."""
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
"""Requirements of fixtures, and of the tests that request them, beyond the development set."""
OWN_BENCHMARKS = ROOT / "tests" / "fixtures" / "own_benchmarks"
PASSED = Path(os.environ["TESTS_PASSED"]) if "TESTS_PASSED" in os.environ else None
"""File with the IDs of passed tests, written if missing; tests with requirements that are not in it are `again`."""

if not is_met("tensorflow"):
    os.environ.setdefault("KERAS_BACKEND", ANY_BACKEND)  # Keras's default is TensorFlow
os.environ.pop("PYTEST_ADDOPTS", None)  # options of this session must not reach pytest processes started by tests

# No deadlines, because machines are shared. Only `make fuzz` generates new examples.
settings.register_profile("timeless", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("accelbench", settings.get_profile("timeless"), derandomize=True)
settings.register_profile("fuzz", settings.get_profile("timeless"), print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "accelbench"))

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def command(*arguments: str | Path) -> list[str]:
    """Return the command line; without a suite, `run` measures a point once and samples it for at most 0.2 s.

    Noisy points are not measured again, so that the number of records does not depend on other load.
    """
    words = [*map(str, arguments)]
    place = (
        words.index("run") + 1 if words[:1] in (["run"], ["launch"]) and "run" in words and "resume" not in words else 0
    )
    brief = {"--patience": "0"} if place else {}
    if place and "--suite" not in words:
        brief |= {"--max-seconds": "0.2", "--rounds": "1"}
    added = [word for option in brief.items() if option[0] not in words for word in option]
    return [sys.executable, "-m", "accelbench", *words[:place], *added, *words[place:]]


def environment(**changes: str | None) -> dict[str, str]:
    """Return this process's environment with the benchmarks of the tests; None removes a variable.

    The repository is first on PYTHONPATH, so that accelbench is found from any working directory without installation;
    the caller's PYTHONPATH follows, because it may be the only path to the packages.
    """
    merged = {**os.environ, "ACCELBENCH_PATH": str(OWN_BENCHMARKS), "COLUMNS": "200", **changes}
    merged["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), merged.get("PYTHONPATH")]))
    return {name: value for name, value in merged.items() if value is not None}


def records(run: Path) -> list[dict[str, Any]]:
    """Return the records of a run as decoded JSON, without a line that is being written."""
    text = (run / "records.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def info(run: Path) -> dict[str, Any]:
    """Return the content of a run's `run.json`."""
    found: dict[str, Any] = json.loads((run / "run.json").read_text(encoding="utf-8"))
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their fixtures as `slow` and with requirements, and by the file of passed tests as `again`."""
    passed = set(PASSED.read_text(encoding="utf-8").splitlines()) if PASSED and PASSED.is_file() else set()
    for item in items:
        fixtures = item.fixturenames if isinstance(item, pytest.Function) else ()
        if SLOW_FIXTURES.intersection(fixtures):
            item.add_marker(pytest.mark.slow)
        for name in FIXTURE_NEEDS.keys() & set(fixtures):
            item.add_marker(pytest.mark.needs(*FIXTURE_NEEDS[name]))
        if item.get_closest_marker("needs") and item.nodeid not in passed:
            item.add_marker(pytest.mark.again)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test before the setup of its fixtures if a declared requirement is not met."""
    require(*(key for marker in item.iter_markers("needs") for key in marker.args))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a skipped test without a declared requirement, because `pytest -m needs` would not select it."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and item.get_closest_marker("needs") is None:
        report.outcome, report.longrepr = "failed", f"skipped without the marker `needs`: {report.longrepr[2]}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line with the unmet requirements and their install commands, and write the file of passed tests."""
    if PASSED and not PASSED.exists():
        passed = (report.nodeid for report in terminalreporter.stats.get("passed", []))
        PASSED.write_text("\n".join(passed), encoding="utf-8")
    skipped = terminalreporter.stats.get("skipped", [])
    if line := summarize(report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)):
        terminalreporter.write_line(line)


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> None:
    """Restore SIGINT, which background jobs of a shell and their children ignore, for processes started by tests."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("TESTS_PASSED", None)  # the file is of this session; its workers have read the variable


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide this machine's NVIDIA driver, if any."""
    monkeypatch.setattr("accelbench.profiling.machine.nvidia.libcuda.LIBCUDA", "libno-such-driver.so")


@pytest.fixture
def accelbench(tmp_path: Path) -> Run:
    """Return a function that runs the real command in an empty folder and returns the completed process."""

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


@pytest.fixture
def in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function like `accelbench` without a new process and without the benchmarks of the tests."""
    from accelbench.__main__ import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        words = command(*arguments)
        status = main(words[3:])
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(words, status, printed.out, printed.err)

    return run
