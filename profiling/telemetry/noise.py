"""Noise of a measurement: sentences on each disturbance in its telemetry above a threshold."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from accelbench.profiling.devices import device_kind
from accelbench.profiling.records.telemetry import Telemetry
from accelbench.profiling.records.timing import Timing

# A clock that was held down in fewer samples than this changes the median little.
CARD_THROTTLED_SHARE = 0.1
# A clock that fell by less shifts a figure by less than what is told apart between two machines.
CLOCK_FALL = 0.03
# A hypervisor's own housekeeping stays below this; a neighbour that takes more is as large as what we resolve.
STEAL_SHARE = 0.01
# What others use is harmless while there are free CPUs, but a parallel loop waits for its slowest thread: up to
# this share of the machine, and never more than half a CPU.
OTHERS_SHARE, OTHERS_CPUS = 0.05, 0.5
# A quota that ran out once in a hundred periods shifts a tail, not the median.
QUOTA_SHARE = 0.01
# Threads always wait some microseconds to be put on a CPU; this much means that there are more of them than CPUs.
WAIT_SHARE = 0.05
# Beside others that take less than this share of what it takes, threads wait for each other: a framework has more of
# them than a small machine has CPUs, which is its way to work there and comes out the same every time.
CROWDING_SHARE = 0.1
# Below these a daemon's page may have been read; above, the measured code itself waited for the disk.
SWAPPED_BYTES = 1 << 20
MAJOR_FAULTS_PER_S = 10.0


def noise_flags(
    telemetry: Telemetry, elapsed_s: float, logical_cpus: int, kept_to_cpus: int | None = None, ranks_here: int = 1
) -> list[str]:
    """Return the disturbances of a measurement, each a sentence with its value; empty if none was observed.

    `elapsed_s` is its duration and `logical_cpus` the number of CPUs of the machine. `kept_to_cpus` is the number of
    CPUs that the point was limited to, and that the telemetry covers: waiting of its own threads is then no
    disturbance. For several ranks on all CPUs (`ranks_here`), the CPU time of the other ranks is no disturbance.
    """
    if elapsed_s <= 0:
        return []
    meant = {threads_waited} if kept_to_cpus is not None else set()
    if ranks_here > 1 and kept_to_cpus == logical_cpus:
        meant |= {others_ran}
    finders = [find for find in FINDERS if find not in meant]
    return [flag for find in finders for flag in find(telemetry, elapsed_s, kept_to_cpus or logical_cpus)]


def crowded_out(telemetry: Telemetry) -> float:
    """Return the share of runnable time in which the threads waited for a CPU; 0 if no other process was running.

    Above about 0.2, the time of a short execution is a whole number of the scheduler's time slices.
    """
    counters = telemetry.counters
    waited, own = counters.get("process.run_queue_wait_s", 0.0), counters.get("cpu.own_s", 0.0)
    return 0.0 if own <= 0 or _alone(telemetry) else waited / (waited + own)


def clock_flags(timing: Timing) -> list[str]:
    """Return a sentence if the SM clock fell during the samples, else an empty list."""
    if timing.sm_clock_first_last is None:
        return []
    first, last = timing.sm_clock_first_last
    if last >= (1 - CLOCK_FALL) * first:
        return []
    early = f"; the {timing.discarded} slowest-clocked were discarded, so that the earlier, faster ones decide"
    return [f"the SM clock fell from {first:.0f} to {last:.0f} MHz over the samples{early if timing.discarded else ''}"]


def card_throttled(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    for name, seconds in telemetry.counters.items():
        device, _, reason = name.partition(".throttled_s.")
        share = min(1.0, seconds / elapsed_s)
        if reason and share >= CARD_THROTTLED_SHARE:
            yield f"{device_kind(device).title} throttled for {share:.0%} of the time: {reason}"


def card_shared(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    for name, processes in telemetry.gauges.items():
        device, shows_processes, number = name.partition(".processes")
        if shows_processes and processes.median > 1:
            card = device_kind(device).title + number.replace(".", " ")
            yield f"{card} shared: {processes.median:.0f} processes held a context on it"


def cpu_throttled(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    times = telemetry.counters.get("cpu.thermal_throttles", 0)
    if times > 0:
        yield f"CPU throttled by its temperature {times:.0f} times"


def stolen(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    share = telemetry.counters.get("cpu.steal_s", 0.0) / (elapsed_s * cpus)
    if share >= STEAL_SHARE:
        yield f"steal: the hypervisor gave {share:.0%} of the CPU time to others"


def others_ran(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    used = telemetry.counters.get("cpu.other_s", 0.0) / elapsed_s
    if used > min(OTHERS_SHARE * cpus, OTHERS_CPUS):
        yield f"other processes used {used:.1f} of {cpus} CPU{'s' * (cpus > 1)}"


def quota_ran_out(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    # The kernel adds up the time stopped on every CPU, so that it can exceed the time that passed.
    seconds = telemetry.counters.get("cgroup.throttled_s", 0.0)
    if seconds >= QUOTA_SHARE * elapsed_s:
        yield f"CPU quota throttled the process for {seconds:.1f} s (over all CPUs)"


def threads_waited(telemetry: Telemetry, elapsed_s: float, cpus: int) -> Iterator[str]:
    waited = telemetry.counters.get("process.run_queue_wait_s", 0.0)
    wanted = waited + telemetry.counters.get("cpu.own_s", 0.0)
    if wanted > 0 and waited >= WAIT_SHARE * max(wanted, elapsed_s) and not _alone(telemetry):
        yield f"threads waited {waited:.1f} s for a free CPU, {waited / wanted:.0%} of the time they wanted one"


def _alone(telemetry: Telemetry) -> bool:
    """Return whether hardly any other process ran; False if unknown."""
    other, own = telemetry.counters.get("cpu.other_s"), telemetry.counters.get("cpu.own_s", 0.0)
    return other is not None and other < CROWDING_SHARE * own


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
    disk_read,
)
