"""Kernel counters of disturbances: threads, steal, quota, and systems without these counters."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace

import pytest

from accelbench.profiling.machine.cause_counters import KernelCounters, ThreadWaits, open_causes, pinned_thread
from accelbench.profiling.timing.causes import WINDOW_S, choose_samples
from tests.fixtures.processes import wait_for

CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def made_up(root: Path, threads: dict[int, str]) -> Path:
    for thread, content in threads.items():
        folder = root / f"proc/self/task/{thread}"
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(content)
    return root


def write(root: Path, thread: int, content: str) -> None:
    (root / f"proc/self/task/{thread}/schedstat").write_text(content)


def test_waits_are_summed_over_threads_and_kept_when_a_thread_ends(tmp_path: Path) -> None:
    waits = ThreadWaits(made_up(tmp_path, {10: "900 5 1\n", 11: "900 7 2\n"}))
    assert waits.read() == (12, 3)
    write(tmp_path, 10, "950 105 2\n")
    assert waits.read() == (112, 4)
    write(tmp_path, 11, "")  # the file of an ended thread cannot be read
    shutil.rmtree(tmp_path / "proc/self/task/11")
    made_up(tmp_path, {12: "10 30 1\n"})
    assert waits.read() == (142, 5)
    made_up(tmp_path, {13: "10 4 1\n"})
    assert waits.read() == (142, 5)
    waits.find_threads()
    assert waits.read() == (146, 6)
    write(tmp_path, 12, "10 31 1\n")
    assert waits.read() == (147, 6)
    waits.close()


def test_a_thread_that_sleeps_is_read_only_with_the_search_for_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    waits = ThreadWaits(made_up(tmp_path, {10: "900 5 1\n", 11: "900 7 2\n"}))
    for _ in range(2):  # the first search compares with the start, the second with the first
        now += WINDOW_S
        write(tmp_path, 10, f"{900 + now} 5 1\n")
        waits.find_threads()
    write(tmp_path, 11, "950 107 3\n")
    assert waits.read() == (12, 3)
    now += WINDOW_S
    waits.find_threads()
    assert waits.read() == (112, 4)
    write(tmp_path, 11, "950 109 4\n")
    assert waits.read() == (114, 5)
    waits.close()


@pytest.mark.needs("schedstat")
def test_switches_are_read_when_a_thread_has_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = KernelCounters()
    before = counters.waits()
    waited = iter([(before.waited_ns, 1), (before.waited_ns + 1, 2)])
    monkeypatch.setattr(ThreadWaits, "read", lambda self: next(waited))
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_nivcsw=before.switches + 7))
    assert counters.waits().switches == before.switches
    assert counters.waits().switches == before.switches + 7
    counters.close()


def test_a_file_with_other_contents_is_ignored(tmp_path: Path) -> None:
    waits = ThreadWaits(made_up(tmp_path, {10: "900 5 1\n", 11: "no numbers here\n", 12: "1 2\n"}))
    assert waits.read() == (5, 1)
    waits.close()


def test_a_system_that_counts_nothing_has_no_causes(tmp_path: Path) -> None:
    assert open_causes(made_up(tmp_path, {10: "0 0 0\n"})) is None


def test_without_the_folder_of_threads_only_switches_are_counted(tmp_path: Path) -> None:
    counters = KernelCounters(tmp_path)
    assert counters.source in ("switches", None)
    assert counters.waits().waited_ns == 0
    assert counters.machine().stolen_s == 0
    counters.close()


@pytest.mark.needs("linux")
def test_steal_of_the_own_cpus_and_throttling_are_counted(tmp_path: Path) -> None:
    made_up(tmp_path, {10: "900 5 1\n"})
    others = max(CPUS) + 1

    def stat(own: int, other: int) -> str:
        total = "cpu  0 0 0 0 0 0 0 99 0 0\n"
        return f"{total}cpu{CPUS[0]} 1 2 3 4 5 6 7 {own} 0 0\ncpu{others} 1 2 3 4 5 6 7 {other} 0 0\nintr 1 2\n"

    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "cpu.max").write_text("200000 100000\n")
    (group / "cpu.stat").write_text("nr_throttled 1\nthrottled_usec 1000\n")
    mounts = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    (tmp_path / "proc/self/mountinfo").write_text(mounts)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "proc/stat").write_text(stat(5, 50))
    counters = KernelCounters(tmp_path)
    before = counters.machine()
    (tmp_path / "proc/stat").write_text(stat(8, 90))
    (group / "cpu.stat").write_text("nr_throttled 2\nthrottled_usec 251000\n")
    after = counters.machine()
    counters.close()
    assert after.stolen_s - before.stolen_s == pytest.approx(0.03)
    assert after.throttled_s - before.throttled_s == pytest.approx(0.25)


@pytest.mark.needs("schedstat", "two-cpus")
def test_only_a_pinned_thread_counts_beside_idle_ones() -> None:
    done = threading.Event()
    helper = threading.Thread(target=done.wait)
    helper.start()
    before = os.sched_getaffinity(0)
    try:
        assert pinned_thread() is None
        os.sched_setaffinity(0, {CPUS[0]})
        this = pinned_thread()
        waits = ThreadWaits(only=this)
    finally:
        os.sched_setaffinity(0, before)
        done.set()
        helper.join()
    assert this == threading.get_native_id()
    assert list(waits._open) == [str(this)]
    waits.close()


@pytest.mark.needs("schedstat")
def test_threads_may_start_and_end_while_they_are_read() -> None:
    waits, started = ThreadWaits(), set[str]()
    last = waits.read()
    for _ in range(20):
        threads = [threading.Thread(target=sum, args=(range(1000),)) for _ in range(5)]
        for thread in threads:
            thread.start()
            started.add(str(thread.native_id))
            waits.find_threads()
            now = waits.read()
            assert now >= last
            last = now
        for thread in threads:
            thread.join()
    # A joined thread may still be in the process table.
    wait_for(lambda: started.isdisjoint(os.listdir("/proc/self/task")))
    waits.find_threads()
    waits.read()
    assert started.isdisjoint(waits._open)
    waits.close()
    assert not waits._open


@pytest.mark.needs("schedstat")
def test_samples_beside_a_process_on_the_same_cpu_are_found_disturbed() -> None:
    """A pinned loop and another process on its CPU: some samples wait, and the log assigns the waits to them."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CPUS[-1]})
    child = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    try:
        assert child.stdout
        child.stdout.readline()
        log = open_causes()
        assert log is not None
        taken = 0
        while sum(reading.is_disturbed(log.source) for reading in log.readings) < 3 and taken < 3000:
            begin = perf_counter()
            sum(range(30_000))
            log.add(perf_counter() - begin)
            taken += 1
    finally:
        child.kill()
        child.communicate()
        os.sched_setaffinity(0, before)
    readings = log.finish()
    chosen = choose_samples(readings, log.source)
    assert log.source == "schedstat"
    assert sum(reading.count for reading in readings) == taken
    assert len(chosen.causes.first) >= 3
    assert sum(chosen.causes.waited_s) > 0
