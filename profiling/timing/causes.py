"""Causes of disturbed samples, from the kernel's counters: waiting for a CPU, steal, quota, stop and suspension.

Samples are chosen by these causes and never by their time, so that the choice does not bias the statistics. The
counters (`accelbench.profiling.machine.cause_counters`) are read between samples, for several short ones at once, to
limit the time for reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from time import perf_counter
from typing import Literal, NamedTuple, Protocol

from accelbench.profiling.records.timing import CAUSE_COLUMNS, LEAST_CLEAN, SampleCauses

WAIT_SHARE = 0.01
"""Share of a sample's time for which its threads may wait for a CPU, in total."""
WAKE_S = 50e-6
"""Tolerated wait after each wake-up of a thread: on an idle CPU it is below, on a busy one a millisecond or more."""
STEAL_S = 0.2
"""Ticks of steal that follow each other within this time disturb all samples between them: 5 % of a CPU's time."""
STOPPED_S = 0.1
"""Shortest stop or suspension that is recognised."""
IDLE, BUSY = 0.5, 0.25
"""A process was stopped in a reading if more than `IDLE` of it was idle, and less than `BUSY` of a usual one."""
SERIAL = 0.05
"""Relative difference of CPU time and time without waiting below which threads ran one at a time."""
READS_SHARE = 1 / 500
"""Share of the time for reading the threads' counters, with hot caches; reading the machine's takes as much at most."""
TICK_S = 0.01
"""Resolution of steal in /proc/stat."""
WINDOW_S = 5 * TICK_S
"""Shortest time between two readings of the machine's counters."""

WaitSource = Literal["schedstat", "switches"]
BlockSource = Literal["others", "launches"]
CauseSource = WaitSource | BlockSource | Literal["card"]


class WaitCounters(NamedTuple):
    """Counters of the process at one time."""

    waited_ns: int = 0
    slices: int = 0
    """Number of times that a thread was given a CPU."""
    switches: int = 0
    """Number of involuntary context switches."""
    cpu_s: float = 0.0
    """CPU time of the process."""


class MachineCounters(NamedTuple):
    """Counters of the machine and of the control groups at one time."""

    stolen_s: float = 0.0
    throttled_s: float = 0.0
    suspended_s: float = 0.0


@dataclass
class CauseReading:
    """Consecutive samples with the differences of the counters over them."""

    first: int
    count: int
    wall_s: float
    waited_s: float = 0.0
    wakeups: int = 0
    switches: int = 0
    cpu_s: float = 0.0
    stolen_s: float = 0.0
    throttled_s: float = 0.0
    stopped_s: float = 0.0
    others_s: float = 0.0
    card_s: float = 0.0
    exceeds: bool = False
    """Whether others took more CPU time of a block than is tolerated (`accelbench.profiling.timing.blocks`)."""

    def is_disturbed(self, source: CauseSource) -> bool:
        """Return whether the samples were disturbed."""
        if self.stopped_s or self.card_s:
            return True
        if source in ("others", "card"):
            return self.exceeds
        if source == "launches":
            return self.exceeds or self._waited_too_long
        if self.stolen_s or self.throttled_s:
            return True
        return self.switches > 0 if source == "switches" else self._waited_too_long

    @property
    def _waited_too_long(self) -> bool:
        return self.waited_s - WAKE_S * self.wakeups > WAIT_SHARE * self.wall_s

    @property
    def running_share(self) -> float:
        """Return the share of the time in which the threads ran, if only one at a time did; else 1.

        An undisturbed execution takes at most as long as a single thread ran. If several threads wait at the same time,
        or sleep, the CPU time does not add up to the rest of the time, and the share is unknown.
        """
        running_s = self.wall_s - self.waited_s
        if not self.waited_s or min(running_s, self.cpu_s) <= 0 or abs(self.cpu_s - running_s) > SERIAL * running_s:
            return 1.0
        return running_s / self.wall_s

    @property
    def lost_s(self) -> float:
        """Return the time lost to disturbances per sample."""
        taken_s = self.stolen_s + self.throttled_s + self.others_s
        return (self.waited_s + taken_s + self.stopped_s + self.card_s) / self.count


class CauseCounters(Protocol):
    """Counters of the kernel; `source` is None if waiting cannot be observed."""

    source: WaitSource | None

    def waits(self) -> WaitCounters:
        """Return the counters of the process."""

    def machine(self) -> MachineCounters:
        """Return the counters of the machine; `waits` does not read threads that slept before the last call."""

    def close(self) -> None:
        """Close the files."""


class CauseLog:
    """Readings of the counters between samples."""

    def __init__(self, counters: CauseCounters) -> None:
        assert counters.source is not None
        self.readings: list[CauseReading] = []
        self.source: WaitSource = counters.source
        self._counters = counters
        self.read_every_s = shortest_s(counters.waits) / READS_SHARE
        self.machine_every_s = max(WINDOW_S, shortest_s(counters.machine) / READS_SHARE)
        self._times: list[float] = []
        self.clear()

    @property
    def elapsed_s(self) -> float:
        """Return the total time of the samples that were read."""
        return self._now_s

    def add(self, wall_s: float) -> CauseReading | None:
        """Add a sample of this length; return the reading that ends with it, or None if more samples join it."""
        self._count += 1
        self._wall_s += wall_s
        return self.flush() if self._wall_s >= self.read_every_s else None

    def is_disturbed_by_now(self, wall_s: float) -> bool:
        """Read the counters after a sample of this length; return whether it was disturbed."""
        reading = self.add(wall_s) or self.flush()
        return reading is not None and reading.is_disturbed(self.source)

    def clear(self) -> None:
        """Discard all readings and begin now."""
        self.readings, self._times = [], []
        self._first = self._count = self._since = 0
        self._wall_s = self._window_s = self._now_s = 0.0
        self._stolen_at = -STEAL_S
        self._machine, self._waits = self._counters.machine(), self._counters.waits()
        self._read_s = perf_counter()

    def flush(self) -> CauseReading | None:
        """Read the counters; return the reading of the samples since the last one, or None without such samples."""
        if not self._count:
            return None
        # The machine's counters first: they find the threads of which the waits are.
        machine = self._counters.machine() if self._window_s + self._wall_s >= self.machine_every_s else None
        before, after = self._waits, self._counters.waits()
        now_s = perf_counter()
        # Other work often gets the CPU at a reading, when no sample is taken; this waiting disturbs none.
        between_s = max(0.0, now_s - self._read_s - self._wall_s)
        self._read_s = now_s
        switches = after.switches - before.switches
        reading = CauseReading(
            first=self._first,
            count=self._count,
            wall_s=self._wall_s,
            waited_s=max(0.0, (after.waited_ns - before.waited_ns) / 1e9 - between_s),
            wakeups=max(0, after.slices - before.slices - switches),
            switches=max(0, switches),
            cpu_s=after.cpu_s - before.cpu_s,
        )
        self._waits = after
        self._first += self._count
        self._now_s += self._wall_s
        self._window_s += self._wall_s
        self._count, self._wall_s = 0, 0.0
        self.readings.append(reading)
        self._times.append(self._now_s)
        if machine is not None:
            self._end_window(machine)
        return reading

    def _end_window(self, after: MachineCounters) -> None:
        """Assign what the machine's counters counted to the readings since the last time."""
        before = self._machine
        stolen_s = max(0.0, after.stolen_s - before.stolen_s)
        throttled_s = max(0.0, after.throttled_s - before.throttled_s)
        suspended_s = after.suspended_s - before.suspended_s
        window = self.readings[self._since :]
        if stolen_s:
            begin = self._since
            if self._now_s - self._window_s - self._stolen_at < STEAL_S:
                while begin and self._times[begin - 1] > self._stolen_at:
                    begin -= 1
            for reading in self.readings[begin:]:
                reading.stolen_s = max(reading.stolen_s, stolen_s)
            self._stolen_at = self._now_s
        for reading in window:
            reading.throttled_s = throttled_s
            reading.stopped_s = suspended_s if suspended_s >= STOPPED_S else 0.0
        self._machine, self._since, self._window_s = after, len(self.readings), 0.0

    def finish(self) -> list[CauseReading]:
        """Read the counters for the last time, close them, and return all readings."""
        self.flush()
        if self._since < len(self.readings):
            self._end_window(self._counters.machine())
        self._counters.close()
        mark_stops(self.readings)
        return self.readings


def shortest_s(read: Callable[[], object]) -> float:
    """Return the seconds of a call: the shortest of five."""
    costs = []
    for _ in range(5):
        begin = perf_counter()
        read()
        costs.append(perf_counter() - begin)
    return min(costs)


def mark_stops(readings: Sequence[CauseReading]) -> None:
    """Set `stopped_s` of readings in which the process neither ran nor waited, unlike in most readings."""
    idle = [reading.wall_s - reading.cpu_s - reading.waited_s for reading in readings]
    shares = [seconds / reading.wall_s for seconds, reading in zip(idle, readings, strict=True) if reading.wall_s]
    if not shares or median(shares) > BUSY:
        return
    for seconds, reading in zip(idle, readings, strict=True):
        if seconds >= max(STOPPED_S, IDLE * reading.wall_s):
            reading.stopped_s = max(reading.stopped_s, seconds)


class ChosenSamples(NamedTuple):
    """Causes of the samples with the ranges to use, and the reason if their time is only an upper bound."""

    causes: SampleCauses
    upper_bound: str | None
    used: Sequence[CauseReading]
    """Readings of the used samples, in order."""

    def bounds(self, samples: Sequence[float]) -> list[float]:
        """Return an upper bound of the undisturbed time for each used sample, given the times of all.

        Several samples of one reading have their mean, because it is unknown which of them waited.
        """
        found: list[float] = []
        for reading in self.used:
            own, share = samples[reading.first : reading.first + reading.count], reading.running_share
            found += own if share == 1 else [fmean(own) * share] * reading.count
        return found


def are_too_few(clean: int, total: int, least: int = LEAST_CLEAN) -> bool:
    """Return whether the clean ones among `total` samples, or blocks of steps, are too few for an estimate."""
    return clean < least and 2 * clean < total


def choose_samples(readings: Sequence[CauseReading], source: CauseSource, least: int = LEAST_CLEAN) -> ChosenSamples:
    """Return the causes of the samples, with the samples to use.

    These are the clean samples. If fewer than `least` and less than half of all are clean, the least disturbed ones are
    used, and the time is an upper bound. Where threads ran one at a time, it does not include their waiting. Of
    training steps, the blocks are counted and not the samples.
    """
    by_block = source in ("others", "launches")
    numbers = [1 if by_block else reading.count for reading in readings]
    disturbed = [reading for reading in readings if reading.is_disturbed(source)]
    used = [reading for reading in readings if not reading.is_disturbed(source)]
    total, clean = sum(numbers), len(used) if by_block else sum(reading.count for reading in used)
    reason = None
    if are_too_few(clean, total, least):
        used, chosen = [], 0
        for reading, number in sorted(zip(readings, numbers, strict=True), key=lambda each: each[0].lost_s):
            used.append(reading)
            chosen += number
            if chosen >= least:
                break
        reason = _reason(disturbed, clean, f"{total} {'blocks of steps' if by_block else 'samples'}")
    columns = {name: [_rounded(getattr(reading, name)) for reading in disturbed] for name in CAUSE_COLUMNS}
    ranges = joined_ranges((reading.first, reading.first + reading.count) for reading in used)
    used.sort(key=lambda reading: reading.first)
    return ChosenSamples(SampleCauses.model_validate({"source": source, "used": ranges, **columns}), reason, used)


def overlap_s(begin: float, end: float, times: Iterable[tuple[float, float]]) -> float:
    """Return the seconds from `begin` to `end` that are in any of the times, given in order."""
    total, reached = 0.0, begin
    for first, last in times:
        first, last = max(first, reached), min(last, end)
        if last > first:
            total, reached = total + last - first, last
    return total


def joined_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges in ascending order, adjoining ones joined."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if found and found[-1][1] == first:
            found[-1] = found[-1][0], end
        else:
            found.append((first, end))
    return found


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else round(max(0.0, value), 6)


CAUSES: Mapping[str, str] = {
    "waited_s": "threads waited for a CPU",
    "stolen_s": "the hypervisor gave CPU time to others",
    "throttled_s": "the CPU quota ran out",
    "stopped_s": "the process was stopped or the machine suspended",
    "others_s": "other processes used the CPUs",
    "card_s": "another process held the GPU",
}
"""Causes as text, by their column."""


def _reason(disturbed: Sequence[CauseReading], clean: int, total: str) -> str:
    """Return the reason of an upper bound as text: the number of clean samples and the main cause."""
    lost = {text: sum(getattr(reading, name) for reading in disturbed) for name, text in CAUSES.items()}
    main = max(lost, key=lambda text: lost[text])
    cause = main if lost[main] > 0 else "threads were preempted"
    return f"only {clean} of {total} were undisturbed: {cause}"
