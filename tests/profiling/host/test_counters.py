"""Tests of the host counters: counts of real processes; unreadable counters are null with a reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.profiling.host.counters import (
    HostCounterSampler,
    count_between,
    read_network,
    read_process,
    take_reading,
)
from accelbench.profiling.host.threads import ThreadTotals, read_threads, thread_difference
from accelbench.profiling.records.host import HostCounters
from tests.fixtures.machines import CGROUP_V2, build
from tests.fixtures.programs import BUSY, SLEEPING, running

pytestmark = pytest.mark.needs("linux")

NETWORK = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 700 1 0 0 0 0 0 0 700 1 0 0 0 0 0 0
  eth0: 300 1 0 0 0 0 0 0 40 1 0 0 0 0 0 0
  eth1:  30 1 0 0 0 0 0 0 4 1 0 0 0 0 0 0"""


def test_a_busy_process_uses_the_cpu_and_a_sleeping_one_does_not() -> None:
    with running(BUSY) as busy, running(SLEEPING) as sleeping:
        with HostCounterSampler(busy.pid) as of_busy, HostCounterSampler(sleeping.pid) as of_sleeping:
            while of_busy_cpu(busy.pid, of_busy) < 0.3:
                pass
        used, rested = of_busy.result(), of_sleeping.result()
    assert used.cpu_s is not None
    assert rested.cpu_s is not None
    assert used.cpu_s > 0.25 > rested.cpu_s
    assert used.core_utilisation is not None
    assert all(0 <= share <= 1 for share in used.core_utilisation.values())
    assert used.rss_peak_bytes is not None
    assert used.rss_peak_bytes > 1 << 20


def of_busy_cpu(pid: int, sampler: HostCounterSampler) -> float:
    return read_threads(pid)[pid].cpu_s - sampler._begin.threads[pid].cpu_s


WORK = """
import os, sys, time
print("ready", flush=True)
sys.stdin.readline()
block = bytearray(64 << 20)
block[::4096] = b"x" * len(block[::4096])
with open(sys.argv[1], "wb") as file:
    file.write(block)
    file.flush()
    os.fsync(file.fileno())
time.sleep(0.01)  # a voluntary context switch
print("done", flush=True)
sys.stdin.readline()
"""


def test_memory_and_written_files_are_counted(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORK, str(tmp_path / "written")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            with HostCounterSampler(process.pid) as sampler:
                print(file=process.stdin, flush=True)
                assert process.stdout.readline() == "done\n"
        finally:
            process.kill()
    counted = sampler.result()
    assert counted.minor_faults is not None
    assert counted.minor_faults > 1000
    assert counted.rss_peak_bytes is not None
    assert counted.rss_peak_bytes > 64 << 20
    assert counted.voluntary_switches is not None
    assert counted.voluntary_switches >= 1
    if counted.disk_written_bytes is not None:
        assert counted.disk_written_bytes in (0, pytest.approx(64 << 20, rel=0.5))  # 0 on a file system in memory


def test_an_ended_process_keeps_its_last_reading() -> None:
    with running(BUSY) as process, HostCounterSampler(process.pid, poll_s=0.05) as sampler:
        while sampler.elapsed_s <= 0:
            pass
        process.kill()
        process.wait()
    counted = sampler.result()
    assert counted.elapsed_s > 0
    assert counted.minor_faults is not None


def test_a_missing_process_has_null_counters_with_reasons(tmp_path: Path) -> None:
    with HostCounterSampler(1, root=tmp_path) as sampler:
        pass
    counted = sampler.result()
    absent = {name for name, value in counted.model_dump().items() if value is None}
    assert absent == set(counted.unknown)
    assert {"cpu_s", "run_queue_wait_s", "throttled_s", "disk_read_bytes", "network_sent_bytes"} <= absent
    assert HostCounters.model_validate_json(counted.model_dump_json()) == counted


def test_kernel_files_are_parsed(tmp_path: Path) -> None:
    stat = "7 (a (b) c) S 1 1 1 0 -1 0 {} 0 {} 0 {} {} 0 0 20 0 1"
    process = {
        "proc/7/stat": stat.format(1000, 5, 200, 100),
        "proc/7/status": "Name:\ta\nVmHWM:\t    2048 kB",
        "proc/7/io": "rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192",
        "proc/7/net/dev": NETWORK,
        "proc/7/task/8/stat": "8 (tf_Compute) S 1 1 1 0 -1 0 0 0 0 0 200 100 0 0 20 0 1",
        "proc/7/task/8/schedstat": "1500000000 250000000 9",
        "proc/7/task/8/status": "voluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4",
        "proc/7/task/9/stat": "9 (old kernel) S 1 1 1 0 -1 0 0 0 0 0 200 100 0 0 20 0 1",
    }
    root = build(tmp_path, process, CGROUP_V2)
    assert read_process(7, root) == {
        "minor_faults": 1000,
        "major_faults": 5,
        "rss_peak_bytes": 2 << 20,
        "disk_read_bytes": 4096,
        "disk_written_bytes": 8192,
        "network_received_bytes": 330,
        "network_sent_bytes": 44,
    }
    ticks = os.sysconf("SC_CLK_TCK")
    assert read_threads(7, root) == {
        8: ThreadTotals("tf_Compute", 1.5, 0.25, 3, 4),
        9: ThreadTotals("old kernel", 300 / ticks, None, None, None),
    }
    reading = take_reading(7, root)
    assert reading.throttling
    assert count_between(reading, reading, {}).throttled_periods == 0


def test_threads_that_start_or_end_between_two_readings() -> None:
    begin = {1: ThreadTotals("main", 5.0, 1.0, 10, 2), 2: ThreadTotals("ends", 3.0, 0.0, 1, 1)}
    end = {1: ThreadTotals("main", 7.0, 1.5, 15, 2), 3: ThreadTotals("new", 0.5, None, 1, 0)}
    assert thread_difference(begin, end) == {
        1: ThreadTotals("main", 2.0, 0.5, 5, 0),
        3: ThreadTotals("new", 0.5, None, 1, 0),
    }


def test_an_unreadable_network_is_unknown_and_loopback_alone_is_zero(tmp_path: Path) -> None:
    assert read_network(tmp_path / "dev") == (None, None)
    build(tmp_path, {"dev": "    lo: 700 1 0 0 0 0 0 0 700 1 0 0 0 0 0 0"})
    assert read_network(tmp_path / "dev") == (0, 0)
