"""Blocks of training steps, chosen by the CPU time that others used while the block ran.

A framework has more threads than the machine has CPUs, so its threads wait for each other, and waiting shows no
disturbance. Instead, a block is clean if others took little CPU time: other processes, the hypervisor (steal) and the
CPU quota. On a GPU, only the thread that launches its work counts: a block is clean if that thread hardly waited for a
CPU. Blocks are chosen by these counters and never by their time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from time import perf_counter
from typing import NamedTuple, Protocol

from accelbench.profiling.timing.causes import (
    READS_SHARE,
    STOPPED_S,
    TICK_S,
    BlockSource,
    CauseReading,
    are_too_few,
    mark_stops,
    shortest_s,
)

BLOCK_S = 0.25
"""Shortest block: rounding to ticks is then 8 % of one CPU's time, and a training of seconds has several blocks."""
OTHERS_SHARE, OTHERS_CPUS = 0.02, 0.5
"""Tolerated CPU time of others: this share of the CPUs, at most half a CPU. If the work moves to the other CPUs, a step
takes 2 % longer, the width of a usual interval; if its other threads wait for the one that is delayed, it takes longer
by all the CPU time of others, 4 % on two CPUs. The interval contains this delay (`BlockLog.largest_delay`)."""
ROUNDING_S = 2 * TICK_S
"""Rounding of a difference of idle time and I/O wait, each in whole ticks."""


class BlockCounters(NamedTuple):
    """Cumulative counters at one time, in seconds."""

    busy_s: float = 0.0
    """CPU time of all processes on the observed CPUs, by the time at which these were not idle."""
    own_s: float = 0.0
    """CPU time of this process and its descendants."""
    stolen_s: float = 0.0
    throttled_s: float = 0.0
    suspended_s: float = 0.0
    waited_s: float = 0.0
    """Waiting of the thread that launches, on a GPU."""
    slices: float = 0.0
    """Number of times that this thread was given a CPU."""
    switches: float = 0.0
    """Number of involuntary context switches of this thread."""


class OtherCounters(Protocol):
    """Counters of what others use."""

    source: BlockSource
    cpus: int
    """Number of observed CPUs."""
    lines: int
    """Number of rounded values that `busy_s` is the sum of, for each kind of time."""

    def read(self) -> BlockCounters:
        """Return the counters."""

    def find(self) -> None:
        """Find new descendants of this process."""

    def close(self) -> None:
        """Close the files."""


class BlockLog:
    """Blocks of steps with the differences of the counters over them."""

    def __init__(
        self, counters: OtherCounters, block_s: float = BLOCK_S, now: Callable[[], float] = perf_counter
    ) -> None:
        self.source: BlockSource = counters.source
        self.readings: list[CauseReading] = []
        self.steps: list[tuple[int, int]] = []
        """The steady steps of each block, from the first to before the end."""
        self.times: list[tuple[float, float]] = []
        """Begin and end of each block by the clock, pauses included."""
        self._counters, self._now, self._cpus = counters, now, counters.cpus
        self._tolerated = min(OTHERS_SHARE * counters.cpus, OTHERS_CPUS)
        self._rounding_s = ROUNDING_S * sqrt(counters.lines)
        self.block_s = max(block_s, shortest_s(counters.read) / READS_SHARE)
        self._samples = self._steady = 0
        self._running = False

    def begin(self) -> None:
        """Begin a block now, in milliseconds; steps of an unfinished one are in no block."""
        self._counters.find()
        self._start(self._now())
        self._resume()

    def _start(self, begin_s: float) -> None:
        self._first_sample, self._first_step = self._samples, self._steady
        self._wall_s, self._sum, self._begin_s = 0.0, BlockCounters(), begin_s
        self._running = True

    def step(self, is_sample: bool) -> None:
        """Add the steady step that has just ended; end the block if it is long enough and contains a sample."""
        self._steady += 1
        self._samples += is_sample
        if not self._running:
            return
        if self._wall_s + self._now() - self._since_s >= self.block_s and self._samples > self._first_sample:
            self.flush()
            self._start(self._since_s)

    def pause(self) -> None:
        """Stop counting during accelbench's own work."""
        if self._running:
            self._read()

    def resume(self) -> None:
        """Continue counting after a pause."""
        if self._running:
            self._resume()

    def _resume(self) -> None:
        self._last, self._since_s = self._counters.read(), self._now()

    def _read(self) -> None:
        """Add what was counted since the last reading to the block."""
        after, now_s = self._counters.read(), self._now()
        differences = (value - before for value, before in zip(after, self._last, strict=True))
        self._sum = BlockCounters(*(total + each for total, each in zip(self._sum, differences, strict=True)))
        self._wall_s += now_s - self._since_s
        self._last, self._since_s = after, now_s

    def flush(self) -> None:
        """End the block; one that is much too short is joined to the block before it, if they adjoin."""
        if not self._running:
            return
        self._running = False
        if self._steady == self._first_step:
            return
        self._read()
        reading = self._reading()
        adjoins = self.steps and self.steps[-1][1] == self._first_step
        if adjoins and (reading.wall_s < self.block_s / 2 or not reading.count):
            last = self.readings[-1]
            for name in ("count", "wall_s", "waited_s", "wakeups", "switches", "cpu_s", *TAKEN, "stopped_s"):
                setattr(last, name, getattr(last, name) + getattr(reading, name))
            self.steps[-1] = self.steps[-1][0], self._steady
            self.times[-1] = self.times[-1][0], self._since_s
        elif reading.count:
            self.readings.append(reading)
            self.steps.append((self._first_step, self._steady))
            self.times.append((self._begin_s, self._since_s))

    def _reading(self) -> CauseReading:
        found = self._sum
        return CauseReading(
            first=self._first_sample,
            count=self._samples - self._first_sample,
            wall_s=self._wall_s,
            waited_s=found.waited_s,
            wakeups=max(0, int(found.slices - found.switches)),
            switches=max(0, int(found.switches)),
            cpu_s=found.own_s if self.source == "others" else 0.0,
            others_s=found.busy_s - found.own_s,
            stolen_s=max(0.0, found.stolen_s),
            throttled_s=max(0.0, found.throttled_s),
            stopped_s=found.suspended_s if found.suspended_s >= STOPPED_S else 0.0,
        )

    def has_enough(self) -> bool:
        """Return whether the clean blocks so far suffice for an estimate."""
        self._mark()
        return not are_too_few(self._clean(), len(self.readings))

    def _clean(self) -> int:
        return sum(not reading.is_disturbed(self.source) for reading in self.readings)

    def _mark(self) -> None:
        mark_exceeding(self.readings, self.source, self._tolerated, self._rounding_s)

    def largest_delay(self, used: Sequence[CauseReading]) -> float:
        """Return the largest share of the time by which the tolerated work of others can have lengthened these blocks.

        It is their CPU time, as if each moment of it had delayed the step; 0 if a CPU was idle, on which others ran.
        """
        wall_s = sum(reading.wall_s for reading in used)
        taken_s = sum(getattr(reading, name) for name in TAKEN for reading in used)
        idle = self._cpus - (sum(reading.cpu_s for reading in used) + taken_s) / wall_s
        return max(0.0, taken_s / wall_s) if self.source == "others" and idle < 1 else 0.0

    def finish(self) -> list[CauseReading]:
        """End the last block, close the counters, and return the readings of all blocks."""
        self.flush()
        self._counters.close()
        self._mark()
        if self.source == "others":
            mark_stops(self.readings)
        return self.readings


TAKEN = ("others_s", "stolen_s", "throttled_s")
"""The CPU time that others took, by the field of a reading."""


def mark_exceeding(
    readings: Sequence[CauseReading], source: BlockSource, tolerated_cpus: float, rounding_s: float
) -> None:
    """Set `exceeds` of the blocks of which others took more CPU time than is tolerated.

    Rounding is tolerated in each block, but not in their sum: if others took too much of the remaining blocks together,
    the blocks with the largest shares exceed, too, until the sum is tolerated.
    """
    names = TAKEN if source == "others" else TAKEN[1:]
    left: list[tuple[float, CauseReading]] = []
    for reading in readings:
        beyond_s = sum(getattr(reading, name) for name in names) - tolerated_cpus * reading.wall_s
        reading.exceeds = beyond_s > rounding_s
        if not reading.exceeds:
            left.append((beyond_s, reading))
    left.sort(key=lambda each: each[0] / each[1].wall_s)
    total_s = sum(beyond_s for beyond_s, _ in left)
    while total_s > rounding_s:
        beyond_s, reading = left.pop()
        reading.exceeds = True
        total_s -= beyond_s
