"""Floating-point operations as the processor itself counts them, in all threads of a process, by Linux's perf events.

What is counted is every addition, multiplication, division and square root in vector registers, an FMA as two, whoever
executes it: the model, the optimiser, the input. Matrix tiles (AMX) and what runs on a GPU are not in it. A count is
believed only where the same counters counted matrix products of known size right.

Sources: perf_event_open(2); the kernel's tools/perf/pmu-events/arch/x86, files floating-point.json.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from profiling.machine.environment.cpu import collect_cpu
from profiling.machine.environment.files import read_int
from profiling.records.environment import Cpu

PERF_EVENT_OPEN = 298  # of x86-64
PERF_TYPE_RAW = 4
INHERIT, EXCLUDE_KERNEL, EXCLUDE_HV = 1 << 1, 1 << 5, 1 << 6
TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING
CLOSE_ON_EXEC = 8
ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")
"""PERF_ATTR_SIZE_VER0: type, size, config, period, sample type, read format, flags, and three that stay 0."""

TOLERANCE = 0.05
TRIAL_S = 0.2
"""Long enough for events that take turns at few counters."""
SIZE = 512
"""Of the matrices of the trial: 2n³ operations, next to which scaling by BLAS's α and β is less than 1 %."""


class Event(NamedTuple):
    """What a counter counts, in the terms of perf_event_open(2), and the FLOP that one count stands for."""

    type: int
    config: int
    flops: int


# FP_ARITH_INST_RETIRED, from Broadwell on; kinds whose counts stand for as much share a counter.
INTEL = tuple(
    Event(PERF_TYPE_RAW, kinds << 8 | 0xC7, flops)
    for kinds, flops in ((0x03, 1), (0x04, 2), (0x18, 4), (0x60, 8), (0x80, 16))
)
# RETIRED_SSE_AVX_FLOPS counts FLOP; Zen 1 tells single from double precision, Zen 5 takes the upper bits for a filter.
AMD = {family: (Event(PERF_TYPE_RAW, kinds << 8 | 0x03, 1),) for family, kinds in ((23, 0xFF), (25, 0x0F), (26, 0x0F))}


class NotCountable(Exception):
    """The processor's own count cannot be had; the message says why."""


class Refused(NotCountable):
    """It is there, but this process may not read it."""


@contextmanager
def counting(events: tuple[Event, ...]) -> Iterator[Callable[[], float]]:
    """Count in all threads, and in those that they start; gives a function that tells in the block the FLOP so far.

    It extrapolates where a counter had to make room for others, and raises NotCountable where none was free.
    """
    with ExitStack() as stack:
        counters: list[tuple[Event, int]] = []
        # A counter follows one thread and those that this starts from then on: not its brothers.
        for thread, event in product(map(int, os.listdir("/proc/self/task")), events):
            descriptor = open_event(event, thread)
            if descriptor >= 0:
                stack.callback(os.close, descriptor)
                counters.append((event, descriptor))
        yield lambda: sum(count_of(event, [fd for of, fd in counters if of == event]) for event in events)


def count_of(event: Event, descriptors: Sequence[int]) -> float:
    """FLOP by the counters that all threads have of one event."""
    # Of all together: a thread that ran for a moment may have found no counter free.
    readings = [struct.unpack("=QQQ", os.read(descriptor, 24)) for descriptor in descriptors]
    count, wanted_ns, counted_ns = (sum(column) for column in zip(*readings, strict=True))
    if wanted_ns and not counted_ns:
        raise NotCountable("the processor's counters are all in use")
    return event.flops * count * wanted_ns / counted_ns if counted_ns else 0.0


def open_event(event: Event, thread: int) -> int:
    """A counter of what the thread does in user mode; -1 if the thread has ended."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise NotCountable(f"no count of floating-point operations is known here for {platform.machine()}")
    flags = INHERIT | EXCLUDE_KERNEL | EXCLUDE_HV
    attributes = ATTRIBUTES.pack(event.type, ATTRIBUTES.size, event.config, 0, 0, TIMES, flags, 0, 0, 0)
    arguments = (ctypes.c_long(number) for number in (thread, -1, -1, CLOSE_ON_EXEC))
    fd = int(ctypes.CDLL(None, use_errno=True).syscall(PERF_EVENT_OPEN, attributes, *arguments))
    code = ctypes.get_errno() if fd < 0 else 0
    if code in (errno.EACCES, errno.EPERM):
        level = read_int(Path("/proc/sys/kernel/perf_event_paranoid"))
        raise Refused(f"the kernel refuses it: perf_event_paranoid is {level}, or system calls are filtered")
    if code in (errno.ENOENT, errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV):
        virtual = collect_cpu().hypervisor
        raise NotCountable(f"{'this virtual machine' if virtual else 'this processor'} has no such counter")
    if code not in (0, errno.ESRCH):
        raise NotCountable(f"perf_event_open: {os.strerror(code)}")
    return fd


def flop_events(cpu: Cpu) -> tuple[Event, ...]:
    """What this processor counts floating-point operations by; NotCountable where that is not known."""
    if cpu.vendor == "GenuineIntel":
        return INTEL
    if cpu.vendor == "AuthenticAMD" and cpu.family in AMD:
        return AMD[cpu.family]
    raise NotCountable(f"no count of floating-point operations is known of {cpu.model or cpu.architecture}")


def proved_events() -> tuple[Event, ...]:
    """This processor's events, which have just counted matrix products right; NotCountable if they did not."""
    events = flop_events(collect_cpu())
    prove(events)
    return events


def prove(events: tuple[Event, ...]) -> None:
    """Count matrix products in each precision; NotCountable unless their operations are 2n³ each, within 5 %."""
    import numpy as np

    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64"):
        a, b = rng.standard_normal((2, SIZE, SIZE)).astype(dtype)
        a @ b  # the threads of BLAS exist from its first call on
        with counting(events) as counted:
            begin, products = perf_counter(), 0
            while perf_counter() - begin < TRIAL_S:
                a @ b
                products += 1
            share = counted() / (2 * SIZE**3 * products)
        if abs(share - 1) > TOLERANCE:
            raise NotCountable(f"it counts {share:.0%} of the operations of a matrix product in {dtype}")
