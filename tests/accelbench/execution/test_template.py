"""Tests of workers forked by the template process: they behave as workers in new interpreters."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import ROOT, environment, info, records
from tests.fixtures.processes import children, has_ended, wait_for
from tests.fixtures.stub_driver import run_with_driver, stub_driver

ENOUGH, SOON = 120, 10
"""Time limits of a point in seconds: without and with a hang; the shorter one suffices for the imports if the machine
is idle."""

pytestmark = [pytest.mark.slow, pytest.mark.needs("linux", "gcc")]

Records = list[dict[str, Any]]


def start(folder: Path, *points: str, limit: int = ENOUGH, **changes: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-m", "tests.fixtures.run_on_gpu", str(folder), str(limit), *points]
    return subprocess.Popen(
        arguments,
        cwd=ROOT,
        env=environment(**changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def measure(folder: Path, *points: str, limit: int = ENOUGH, **changes: str) -> Records:
    process = start(folder, *points, limit=limit, **changes)
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 0, output
    return records(folder)


def fact(record: dict[str, Any], name: str) -> float:
    return float(record["metrics"][name]["value"])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run with some failing points."""
    folder = tmp_path_factory.mktemp("forked") / "run"
    points = ("plain:well", "again:well", "plain:crash", "plain:vanish", "plain:raise", "dies:well", "plain:well")
    measure(folder, *points)
    return folder


def test_workers_are_forked_by_one_process(run: Path) -> None:
    first, second = records(run)[:2]
    assert fact(first, "parent") == fact(second, "parent")
    assert fact(first, "process") != fact(second, "process")
    assert fact(first, "imported") == fact(second, "imported")


def test_a_forked_worker_leads_its_own_group(run: Path) -> None:
    for record in records(run)[:2]:
        assert fact(record, "group") == fact(record, "process")


def test_the_first_worker_pays_for_the_imports(run: Path) -> None:
    first, second = records(run)[:2]
    assert first["phases"]["import_s"] > second["phases"]["import_s"] > 0


def test_openblas_restarts_its_threads_in_a_forked_worker(run: Path) -> None:
    """The matrix product is verified, too; the main thread and the sensor thread exist without OpenBLAS."""
    for record in records(run)[:2]:
        assert record["status"] == "measured"
        assert fact(record, "threads") >= min(2, len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("number", "reason", "printed"),
    [
        (2, "killed by SIGSEGV", "about to crash"),
        (3, "exit status 7", "about to vanish"),
        (4, "ValueError", "break_off"),
        (5, "killed by SIGSEGV", "about to die"),
    ],
    ids=["crash", "vanish", "raise", "crash during import"],
)
def test_a_crash_loses_one_point(run: Path, number: int, reason: str, printed: str) -> None:
    failed, last = records(run)[number], records(run)[-1]
    assert failed["status"] == "failed"
    assert reason in failed["reason"]
    assert printed in "\n".join(failed["output_tail"])
    assert "about to crash" not in "\n".join(failed["output_tail"]) or number == 2  # not the output of other workers
    assert last["status"] == "measured"


@pytest.fixture(scope="module")
def hung(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Run with hanging points, with a time limit of several times the imports in the other run."""
    limit = max(SOON, round(5 * records(run)[0]["phases"]["import_s"]))
    points = ("plain:beget", "plain:well", "hangs:well", "plain:bequeath")
    return measure(tmp_path_factory.mktemp("hung") / "run", *points, limit=limit)


@pytest.mark.parametrize(("number", "where"), [(0, "hang ("), (2, "wait_for_ever (")], ids=["worker", "import"])
def test_a_hang_is_ended_and_its_stack_is_recorded(hung: Records, number: int, where: str) -> None:
    assert re.search(r"within \d+ s", hung[number]["reason"])
    assert where in "\n".join(hung[number]["output_tail"])
    assert hung[1]["status"] == "measured"


@pytest.mark.parametrize("number", [0, 3], ids=["hung", "crashed"])
def test_children_of_a_worker_are_ended_with_it(hung: Records, number: int) -> None:
    (line,) = [line for line in hung[number]["output_tail"] if line.startswith("begot ")]
    begotten = int(line.split()[1])
    assert has_ended(begotten)


def test_a_crash_is_detected_although_a_child_holds_the_channel(hung: Records) -> None:
    assert "killed by SIGSEGV" in hung[3]["reason"]


def is_begotten(process: psutil.Process) -> bool:
    """Return whether the process is the running child of `beget`."""
    try:
        return process.cmdline() == ["sleep", "300"]
    except psutil.Error:
        return False


@pytest.mark.parametrize(
    ("impl", "key"),
    [
        ("threads", "threads"),
        ("driver", "CUDA driver"),
    ],
)
def test_a_worker_that_cannot_be_forked_has_a_new_interpreter(tmp_path: Path, impl: str, key: str) -> None:
    points = (f"{impl}:crash", f"{impl}:well")
    crashed, well = measure(tmp_path / "run", *points, LD_LIBRARY_PATH=str(stub_driver()))
    assert "killed by SIGSEGV" in crashed["reason"]
    assert fact(well, "group") == fact(well, "process")
    log = (tmp_path / "run" / "logs" / "forked.log").read_text()
    reasons = [line for line in log.splitlines() if "not forked" in line]
    assert [key in reason for reason in reasons] == [True, True]


@pytest.fixture
def under_way(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """Yield a run while its worker runs `sleep`, and its processes: template, worker and sensor reader."""
    process = start(tmp_path / "run", "plain:well", "plain:beget")
    deadline = time.monotonic() + ENOUGH
    below: list[psutil.Process] = []
    while not any(is_begotten(each) for each in below):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
        below = children(process.pid, recursive=True)
    yield process, [each for each in below if not is_begotten(each)]
    process.kill()
    process.communicate()
    for each in filter(is_begotten, below):
        each.kill()


def kill(process: subprocess.Popen[str], below: list[psutil.Process]) -> None:
    process.kill()


def terminate(process: subprocess.Popen[str], below: list[psutil.Process]) -> None:
    process.terminate()


def terminate_all(process: subprocess.Popen[str], below: list[psutil.Process]) -> None:
    """Schedulers signal the processes of a job in any order."""
    for each in below:
        each.terminate()
    time.sleep(0.3)
    process.terminate()


@pytest.mark.parametrize("end", [kill, terminate, terminate_all])
def test_no_process_is_left_after_the_runner_ends(
    under_way: tuple[subprocess.Popen[str], list[psutil.Process]],
    tmp_path: Path,
    end: Callable[[subprocess.Popen[str], list[psutil.Process]], None],
) -> None:
    process, below = under_way
    assert len(below) == 3
    end(process, below)
    process.communicate(timeout=200)
    wait_for(lambda: all(map(has_ended, below)))
    assert [record["status"] for record in records(tmp_path / "run")] == ["measured"]
    assert info(tmp_path / "run")["status"] == ("running" if end is kill else "interrupted")


def test_a_signal_to_the_worker_alone_fails_its_point(
    under_way: tuple[subprocess.Popen[str], list[psutil.Process]], tmp_path: Path
) -> None:
    process, (template, worker, sensors) = under_way
    assert (worker.ppid(), sensors.ppid()) == (template.pid, worker.pid)
    worker.send_signal(signal.SIGTERM)
    process.communicate(timeout=200)
    assert process.returncode == 0
    assert "killed by SIGTERM" in records(tmp_path / "run")[1]["reason"]


def test_the_variable_disables_forks(tmp_path: Path) -> None:
    first, second = measure(tmp_path / "run", "plain:well", "plain:well", ACCELBENCH_NO_FORK="1")
    assert fact(first, "imported") != fact(second, "imported")


IMPORT_ALL = """
import importlib, itertools
from accelbench.execution.plan import discover
from accelbench.execution.template import hindrance
from accelbench.execution.template_process import LIBRARIES
on_gpus = [each for each in discover().values() if "gpu" in each.devices]
kernels = [each for each in on_gpus if each.module.startswith("accelbench.kernels.")]
modules = {
    each.implementation("gpu", dict(zip(each.axes, values)))
    for each in kernels
    for values in itertools.product(*each.axes_on("gpu").values())
}
assert len(modules) > 15, modules
for module in [*LIBRARIES, *sorted(modules)]:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as missing:
        assert missing.name == "cupy", module
    assert hindrance() is None, (module, hindrance())
"""


def test_all_imports_of_gpu_kernels_survive_a_fork() -> None:
    run_with_driver(IMPORT_ALL)
