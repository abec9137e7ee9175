"""The processor's own count of FLOPs: the counters by events of the kernel's, which every machine has, and refusals."""

from __future__ import annotations

import mmap
import os
import platform
import subprocess
import sys
import threading
import time

import pytest

from profiling.flop_counts import processor as flop_counters
from profiling.flop_counts.processor import (
    TOLERANCE,
    Event,
    NotCountable,
    count_of,
    counting,
    flop_events,
    open_event,
    prove,
    proved_events,
)
from profiling.records.environment import Cpu
from tests.conftest import ROOT

SOFTWARE, TASK_CLOCK, PAGE_FAULTS = 1, 1, 2  # perf_event_open(2): PERF_TYPE_SOFTWARE and two of its events
NO_THREAD = (1 << 22) + 1  # above the highest that proc_sys_kernel(5) lets pid_max be

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="counts by perf events of x86"
)


def processor(vendor: str, family: int) -> Cpu:
    return Cpu(architecture="x86_64", logical=1, usable=1, vendor=vendor, family=family, model="a processor")


def burn(seconds: float) -> None:
    begin = time.thread_time()
    while time.thread_time() - begin < seconds:
        pass


def touch(pages: int) -> None:
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1


def test_what_is_counted_is_weighed_by_the_flop_that_one_count_stands_for() -> None:
    counts = []
    for flops in (1, 16):
        with counting((Event(SOFTWARE, PAGE_FAULTS, flops),)) as counted:
            begin = counted()
            touch(4000)
            counts.append(counted() - begin)
    assert 4000 <= counts[0] < 4400
    assert 16 * 4000 <= counts[1] < 16 * 4400


def test_several_events_are_one_sum() -> None:
    with counting((Event(SOFTWARE, PAGE_FAULTS, 1), Event(SOFTWARE, PAGE_FAULTS, 2))) as counted:
        begin = counted()
        touch(4000)
        assert 3 * 4000 <= counted() - begin < 3 * 4400


def test_threads_that_are_there_and_threads_that_come_are_counted() -> None:
    go = threading.Event()
    there = threading.Thread(target=lambda: (go.wait(), burn(0.3)))
    there.start()
    with counting((Event(SOFTWARE, TASK_CLOCK, 1),)) as counted:
        begin, before = counted(), time.process_time()
        comes = threading.Thread(target=burn, args=(0.2,))
        go.set()
        comes.start()
        there.join()
        comes.join()
        share = (counted() - begin) / ((time.process_time() - before) * 1e9)
    assert share == pytest.approx(1, abs=0.2), "0.3 of 0.5 are of the thread that was there, 0.2 of the one that came"


def test_after_the_block_nothing_stays_open() -> None:
    before = os.listdir("/proc/self/fd")
    with counting((Event(SOFTWARE, PAGE_FAULTS, 1),)):
        assert len(os.listdir("/proc/self/fd")) > len(before)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_thread_that_has_ended_is_left_out() -> None:
    assert open_event(Event(SOFTWARE, TASK_CLOCK, 1), NO_THREAD) == -1


def pipe_of(*readings: tuple[int, int, int]) -> list[int]:
    """File descriptors that answer as counters do: count, and nanoseconds wanted and counted."""
    descriptors = []
    for reading in readings:
        read_end, write_end = os.pipe()
        os.write(write_end, flop_counters.struct.pack("=QQQ", *reading))
        os.close(write_end)
        descriptors.append(read_end)
    return descriptors


def test_counters_that_took_turns_are_extrapolated() -> None:
    event = Event(SOFTWARE, TASK_CLOCK, 8)
    assert count_of(event, pipe_of((100, 4000, 1000))) == 8 * 400
    assert count_of(event, pipe_of((100, 3000, 1000), (0, 0, 0))) == 8 * 300
    assert count_of(event, pipe_of((90, 900, 900), (0, 100, 0))) == pytest.approx(8 * 100), "it ran for a moment"
    assert count_of(event, pipe_of((0, 0, 0))) == 0, "it never ran"
    with pytest.raises(NotCountable, match="all in use"):
        count_of(event, pipe_of((0, 1000, 0)))


def test_intels_kinds_of_instructions_are_as_wide_as_they_are() -> None:
    """Each kind of FP_ARITH_INST_RETIRED, by its mask: what one count stands for."""
    kinds = {0x01: 1, 0x02: 1, 0x04: 2, 0x08: 4, 0x10: 4, 0x20: 8, 0x40: 8, 0x80: 16}
    found = flop_events(processor("GenuineIntel", 6))
    assert all(event.config & 0xFF == 0xC7 for event in found)
    for kind, flops in kinds.items():
        assert [event.flops for event in found if event.config >> 8 & kind] == [flops]


@pytest.mark.parametrize(("family", "config"), [(23, 0xFF03), (25, 0x0F03), (26, 0x0F03)])
def test_amds_counter_counts_flop(family: int, config: int) -> None:
    assert [(event.config, event.flops) for event in flop_events(processor("AuthenticAMD", family))] == [(config, 1)]


@pytest.mark.parametrize("cpu", [processor("AuthenticAMD", 21), processor("HygonGenuine", 24), processor("ARM", 8)])
def test_a_processor_whose_events_are_not_known_is_not_guessed_at(cpu: Cpu) -> None:
    with pytest.raises(NotCountable, match="is known of a processor"):
        flop_events(cpu)


def test_a_counter_that_counts_something_else_is_not_believed() -> None:
    with pytest.raises(NotCountable, match=r"it counts \d+% of the operations of a matrix product in float32"):
        prove((Event(SOFTWARE, PAGE_FAULTS, 1),))


def test_this_processor_counts_right() -> None:
    import numpy as np

    try:
        events = proved_events()
    except NotCountable as error:
        pytest.skip(str(error))
    a = np.random.default_rng(1).standard_normal((700, 700))
    with counting(events) as counted:
        begin = counted()
        for _ in range(20):
            a @ a
        assert (counted() - begin) / (20 * 2 * 700**3) == pytest.approx(1, abs=TOLERANCE)


FILTERED = """
import ctypes, struct
from profiling.flop_counts.processor import Event, NotCountable, Refused, counting
load, if_equal, answer = 0x20, 0x15, 0x06  # BPF: a word of the call's data, compare, return
program = b"".join(struct.pack("=HBBI", *line) for line in (
    (load, 0, 0, 0), (if_equal, 0, 1, 298), (answer, 0, 0, 0x00050000 | {error}), (answer, 0, 0, 0x7FFF0000)
))
code = ctypes.create_string_buffer(program)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, struct.pack("HP", 4, ctypes.addressof(code))) == 0  # PR_SET_SECCOMP
try:
    with counting((Event(1, 1, 1),)):
        print("counted")
except NotCountable as reason:
    print(type(reason).__name__, reason)
"""


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (1, "Refused", "system calls are filtered"),  # EPERM: what a container engine's filter answers
        (13, "Refused", "perf_event_paranoid is"),  # EACCES
        (2, "NotCountable", "has no such counter"),  # ENOENT: no such event
        (24, "NotCountable", "Too many open files"),
    ],
)
def test_a_call_that_is_refused_is_told_with_its_reason(error: int, kind: str, said: str) -> None:
    script = FILTERED.format(error=error)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{kind} ")
    assert said in done.stdout
