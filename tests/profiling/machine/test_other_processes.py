"""Counters of what others use: made-up machines, descendants of this process, and a training beside a busy process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter, sleep

import keras
import pytest

from accelbench.profiling.machine.other_processes import NoCounters, OtherProcesses, open_blocks
from accelbench.profiling.timing.steps import measure_training
from tests.fixtures.machines import build
from tests.profiling.timing.test_steps import BATCH, small_training

CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
pytestmark = pytest.mark.needs("linux")


def write_stat(root: Path, idle: int = 1000, stolen: int = 0, cpus: Sequence[int] = CPUS, user: int = 50) -> Path:
    """Write `/proc/stat` of a machine on which each CPU has these ticks, and the total of all."""
    times = f"{user} 0 0 {idle} 20 0 0 {stolen} 0 0"
    total = " ".join(str(len(cpus) * int(ticks)) for ticks in times.split())
    lines = [f"cpu  {total}", *(f"cpu{number} {times}" for number in cpus), "intr 123 4 5", "ctxt 99"]
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/stat").write_text("\n".join(lines) + "\n")
    return root


def test_cpus_that_are_not_idle_are_busy(tmp_path: Path) -> None:
    counters = OtherProcesses(root=write_stat(tmp_path))
    assert (counters.source, counters.cpus, counters.lines) == ("others", len(CPUS), 1)
    begin = perf_counter()
    before = counters.read()
    between = perf_counter()
    write_stat(tmp_path, idle=1003, stolen=2)
    later = perf_counter()
    after = counters.read()
    end = perf_counter()
    counters.close()
    assert after.stolen_s - before.stolen_s == pytest.approx(0.02 * len(CPUS))
    used = (after.busy_s - before.busy_s) / len(CPUS) + 0.05
    assert later - between - 1e-6 <= used <= end - begin + 1e-6


def test_only_the_own_cpus_count_if_the_machine_has_more(tmp_path: Path) -> None:
    counters = OtherProcesses(root=write_stat(tmp_path, cpus=[*CPUS, max(CPUS) + 1, max(CPUS) + 2]))
    assert (counters.cpus, counters.lines) == (len(CPUS), len(CPUS))
    before = counters.read().stolen_s
    write_stat(tmp_path, stolen=1, cpus=[*CPUS, max(CPUS) + 1, max(CPUS) + 2])
    assert counters.read().stolen_s - before == pytest.approx(0.01 * len(CPUS))
    counters.close()


def test_a_system_without_cpu_times_has_no_counters(tmp_path: Path) -> None:
    with pytest.raises(NoCounters):
        OtherProcesses(root=tmp_path)
    with pytest.raises(NoCounters):
        OtherProcesses(root=write_stat(tmp_path, user=0))
    with pytest.raises(NoCounters):
        OtherProcesses(root=write_stat(tmp_path), launching=True)


BURN = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"


def test_the_time_of_a_child_is_own_time_while_it_runs_and_after_its_end() -> None:
    counters = OtherProcesses()
    before = counters.read().own_s
    with subprocess.Popen([sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        counters.find()
        child.stdout.readline()
        running = counters.read().own_s
        child.communicate(b"\n")
    ended = counters.read().own_s
    counters.close()
    assert running - before >= 0.3
    assert ended >= running - 0.02, "the time of an ended child is rounded to ticks on some kernels"


@pytest.fixture
def busy() -> Iterator[None]:
    """Keep a CPU busy by a process that is no descendant of this one."""
    detached = 'setsid "$0" -c "$1" > /dev/null 2>&1 & echo $!'
    endless = "while True: pass"
    started = subprocess.run(
        ["sh", "-c", detached, sys.executable, endless], capture_output=True, text=True, check=True
    )
    yield
    os.kill(int(started.stdout), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.usefixtures("busy")
def test_blocks_of_a_training_beside_a_busy_process_are_set_aside() -> None:
    class Pause(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            sleep(0.02)

    log = open_blocks()
    assert log is not None
    measured = measure_training(small_training(60 * BATCH, epochs=2), Pause(), log=log)
    timing = measured.timing
    assert len(log.readings) >= 3
    assert timing.causes
    assert timing.causes.source == "others"
    assert len(timing.causes.first) >= 3
    assert min(timing.causes.others_s) > 0
    assert timing.clean_share is not None
    assert timing.clean_share < 1
    assert sum(reading.count for reading in log.readings) == len(timing.samples)
    assert timing.upper_bound
    assert timing.steady
    assert timing.execution.seconds == timing.steady.ci_high


def test_cpus_without_counted_time_have_no_counters(tmp_path: Path) -> None:
    """Some sandboxes count the time of all CPUs only."""
    lines = ["cpu 50 0 0 1000 0 0 0 0 0 0", *(f"cpu{cpu} 0 0 0 0 0 0 0 0 0 0" for cpu in [*CPUS, max(CPUS) + 1])]
    with pytest.raises(NoCounters):
        OtherProcesses(root=build(tmp_path, {"proc/stat": "\n".join(lines)}))
