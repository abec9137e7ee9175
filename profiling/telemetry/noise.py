"""Noise flags of a measurement: disturbances in its telemetry above a threshold."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from accelbench.profiling.devices import device_kind
from accelbench.profiling.records.telemetry import POWER_LIMIT, Telemetry
from accelbench.profiling.records.timing import Timing

# Throttling in fewer samples hardly changes the median.
CARD_THROTTLED_SHARE = 0.1
# A smaller decrease of the clock changes a result by less than the resolution of comparisons.
CLOCK_FALL = 0.03
# The hypervisor's own overhead is smaller; steal above it is as large as the differences that are compared.
STEAL_SHARE = 0.01
# Tolerated CPU use of other processes: this share of the CPUs, at most half a CPU. A parallel loop waits for its
# slowest thread, even if other CPUs are free.
OTHERS_SHARE, OTHERS_CPUS = 0.05, 0.5
# A quota that runs out in one of a hundred periods changes the tail of the distribution, not the median.
QUOTA_SHARE = 0.01
# Scheduling always takes some microseconds; a larger share means more runnable threads than CPUs.
WAIT_SHARE = 0.05
# If other processes use less CPU time than this share of the own time, the threads wait for each other: a framework
# has more threads than a small machine has CPUs. This is reproducible and not noise.
CROWDING_SHARE = 0.1
# Two clocks read in succession differ by less if the machine was not suspended.
SUSPENDED_S = 0.1
# Below these thresholds the reads may be a daemon's; above, the measured code itself waited for the disk.
SWAPPED_BYTES = 1 << 20
MAJOR_FAULTS_PER_S = 10.0


def noise_flags(
    telemetry: Telemetry,
    elapsed_s: float,
    logical_cpus: int,
    kept_to_cpus: int | None = None,
    ranks_here: int = 1,
    by_sample: bool = False,
) -> list[str]:
    """Return the noise flags of a measurement, each a sentence with its value; empty if there was no noise.

    `elapsed_s` is the duration and `logical_cpus` the number of CPUs of the machine. `kept_to_cpus` is the number of
    CPUs to which the point was limited and which the telemetry covers: waiting of its own threads is then not noise.
    If several ranks (`ranks_here`) use all CPUs, the CPU time of the other ranks is not noise. With `by_sample`, the
    samples were chosen by their causes, which are then not noise.
    """
    if elapsed_s <= 0:
        return []
    ignored = {threads_waited} if kept_to_cpus is not None else set()
    if ranks_here > 1 and kept_to_cpus == logical_cpus:
        ignored |= {others_ran}
    if by_sample:
        ignored |= {stolen, others_ran, quota_ran_out, threads_waited, stopped}
    finders = [find for find in FINDERS if find not in ignored]
    return [flag for find in finders for flag in find(telemetry, elapsed_s, kept_to_cpus or logical_cpus)]


def crowded_out(telemetry: Telemetry) -> float:
    """Return the share of runnable time in which threads waited for a CPU; 0 if hardly any other process ran.

    Above about 0.2, the time of a short execution is a whole number of the scheduler's time slices.
    """
    counters = telemetry.counters
    waited, own = counters.get("process.run_queue_wait_s", 0.0), counters.get("cpu.own_s", 0.0)
    return 0.0 if own <= 0 or _without_others(telemetry) else waited / (waited + own)


def waits_for_itself(telemetry: Telemetry) -> bool:
    """Return whether threads waited for a CPU because of each other: there are more of them than CPUs.

    Such waiting is part of the execution and disturbs no sample.
    """
    return _without_others(telemetry)


def clock_flags(timing: Timing) -> list[str]:
    """Return a noise flag if the SM clock decreased during the samples, else an empty list."""
    if timing.sm_clock_first_last is None:
        return []
    first, last = timing.sm_clock_first_last
    if last >= (1 - CLOCK_FALL) * first:
        return []
    return [f"the SM clock decreased from {first:.0f} to {last:.0f} MHz over the samples"]


def card_throttled(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    """Yield the reasons except the power limit, at which the clock settles; `clock_flags` finds one that decreases."""
    for name, seconds in telemetry.counters.items():
        device, _, reason = name.partition(".throttled_s.")
        share = min(1.0, seconds / elapsed_s)
        if reason and reason != POWER_LIMIT and share >= CARD_THROTTLED_SHARE:
            yield f"{device_kind(device).title} throttled for {share:.0%} of the time: {reason}"


def card_shared(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    for name, processes in telemetry.gauges.items():
        device, shows_processes, number = name.partition(".processes")
        if shows_processes and processes.median > 1:
            card = device_kind(device).title + number.replace(".", " ")
            yield f"{card} shared by {processes.median:.0f} processes"


def cpu_throttled(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    times = telemetry.counters.get("cpu.thermal_throttles", 0)
    if times > 0:
        yield f"CPU throttled {times:.0f} times because of its temperature"


def stolen(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    share = telemetry.counters.get("cpu.steal_s", 0.0) / (elapsed_s * cpus)
    if share >= STEAL_SHARE:
        yield f"steal: the hypervisor gave {share:.0%} of the CPU time to others"


def others_ran(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    used = telemetry.counters.get("cpu.other_s", 0.0) / elapsed_s
    if exceeds_tolerance(used, cpus):
        yield f"other processes used {used:.1f} of {cpus} CPU{'s' * (cpus > 1)}"


def exceeds_tolerance(used: float, cpus: int) -> bool:
    """Return whether other processes that use this number of CPUs make a measurement noisy."""
    return used > min(OTHERS_SHARE * cpus, OTHERS_CPUS)


def quota_ran_out(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    # The kernel sums the throttled time over the CPUs, so it can exceed the elapsed time.
    seconds = telemetry.counters.get("cgroup.throttled_s", 0.0)
    if seconds >= QUOTA_SHARE * elapsed_s:
        yield f"CPU quota throttled the process for {seconds:.1f} s (over all CPUs)"


def threads_waited(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    waited = telemetry.counters.get("process.run_queue_wait_s", 0.0)
    runnable = waited + telemetry.counters.get("cpu.own_s", 0.0)
    if runnable > 0 and waited >= WAIT_SHARE * max(runnable, elapsed_s) and not _without_others(telemetry):
        yield f"threads waited {waited:.1f} s for a free CPU, {waited / runnable:.0%} of their runnable time"


def _without_others(telemetry: Telemetry) -> bool:
    """Return whether hardly any other process ran; False if unknown."""
    other, own = telemetry.counters.get("cpu.other_s"), telemetry.counters.get("cpu.own_s", 0.0)
    return other is not None and other < CROWDING_SHARE * own


def stopped(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    if seconds := telemetry.counters.get("process.stopped_s", 0.0):
        yield f"the process was stopped for about {seconds:.1f} s"
    if (seconds := telemetry.counters.get("machine.suspended_s", 0.0)) >= SUSPENDED_S:
        yield f"the machine was suspended for {seconds:.1f} s"


def disk_read(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    swapped = telemetry.counters.get("memory.swapped_bytes", 0)
    if swapped >= SWAPPED_BYTES:
        yield f"the machine swapped {swapped / 2**20:.0f} MiB"
    faults = telemetry.counters.get("process.major_faults", 0)
    if faults >= MAJOR_FAULTS_PER_S * elapsed_s:
        yield f"the process waited for the disk {faults:.0f} times (major page faults)"


FINDERS: tuple[Callable[[Telemetry, float, int], Iterator[str]], ...] = (
    card_throttled,
    card_shared,
    cpu_throttled,
    stolen,
    others_ran,
    quota_ran_out,
    threads_waited,
    stopped,
    disk_read,
)
