"""Noise flags: silence on a quiet machine, and each disturbance in words with its figure."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.measure.observer import kept_to_cpus
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.telemetry import Gauge, Telemetry
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.telemetry.noise import clock_flags, crowded_out, noise_flags
from accelbench.profiling.timing.statistics import summarize
from tests.conftest import ROOT


def telemetry(
    counters: dict[str, float] | None = None, reasons: list[str] | None = None, processes: float | None = None
) -> Telemetry:
    gauges = {}
    if processes is not None:
        gauges["gpu.processes"] = Gauge(minimum=processes, median=processes, maximum=processes, unit="")
    return Telemetry(interval_s=0.5, gauges=gauges, counters=counters or {}, throttle_reasons=reasons or [])


def test_a_quiet_measurement_has_no_flag() -> None:
    quiet = telemetry(
        {
            "cpu.steal_s": 0.01,
            "cpu.other_s": 0.2,
            "cpu.own_s": 19.0,
            "cgroup.throttled_s": 0.0,
            "process.run_queue_wait_s": 0.02,
            "process.major_faults": 1,
            "memory.swapped_bytes": 4096,
            "cpu.thermal_throttles": 0,
        },
        processes=1,
    )
    assert noise_flags(quiet, elapsed_s=10, logical_cpus=2) == []


def test_nothing_known_is_no_flag() -> None:
    assert noise_flags(telemetry(), elapsed_s=10, logical_cpus=2) == []
    assert noise_flags(telemetry({"cpu.steal_s": 1}), elapsed_s=0, logical_cpus=2) == []


@pytest.mark.parametrize(
    ("counters", "flag"),
    [
        ({"cpu.steal_s": 1.4}, "steal: the hypervisor gave 7% of the CPU time to others"),
        ({"cpu.other_s": 6.0}, "other processes used 0.6 of 2 CPUs"),
        ({"cgroup.throttled_s": 1.2}, "CPU quota throttled the process for 1.2 s (over all CPUs)"),
        (
            {"process.run_queue_wait_s": 4.0, "cpu.own_s": 16.0},
            "threads waited 4.0 s for a free CPU, 20% of the time they wanted one",
        ),
        (
            {"process.run_queue_wait_s": 4.0, "cpu.own_s": 4.0, "cpu.other_s": 0.5},
            "threads waited 4.0 s for a free CPU, 50% of the time they wanted one",
        ),
        ({"cpu.thermal_throttles": 3}, "CPU throttled by its temperature 3 times"),
        ({"memory.swapped_bytes": 64 << 20}, "the machine swapped 64 MiB"),
        ({"process.major_faults": 500}, "the process waited for the disk 500 times (major page faults)"),
    ],
)
def test_a_disturbance_is_named_with_its_figure(counters: dict[str, float], flag: str) -> None:
    assert noise_flags(telemetry(counters), elapsed_s=10, logical_cpus=2) == [flag]


def test_threads_that_wait_for_each_other_alone_are_no_disturbance() -> None:
    """A framework's own threads, on two CPUs with nothing else on them."""
    crowded = telemetry({"process.run_queue_wait_s": 25.4, "cpu.own_s": 112.1, "cpu.other_s": 0.6})
    assert noise_flags(crowded, elapsed_s=60.7, logical_cpus=2) == []
    assert crowded_out(crowded) == 0


def test_a_throttled_gpu_names_the_reason_and_the_share() -> None:
    held = telemetry({"gpu.throttled_s.power limit": 8.0}, ["power limit"])
    assert noise_flags(held, elapsed_s=10, logical_cpus=2) == ["GPU throttled for 80% of the time: power limit"]


def test_a_gpu_held_back_for_a_moment_is_not_flagged() -> None:
    held = telemetry({"gpu.throttled_s.power limit": 0.5}, ["power limit"])
    assert noise_flags(held, elapsed_s=10, logical_cpus=2) == []


def clocked(first: float, last: float, discarded: int = 0) -> Timing:
    samples = [0.001] * 20
    return Timing(
        samples=samples,
        stop="steady noise",
        timer="nvbench",
        discarded=discarded,
        sm_clock_first_last=(first, last),
        summary=summarize(samples),
    )


def test_a_clock_that_fell_is_named_with_what_was_discarded_for_it() -> None:
    assert clock_flags(clocked(1755, 1410)) == ["the SM clock fell from 1755 to 1410 MHz over the samples"]
    (flag,) = clock_flags(clocked(1755, 1410, discarded=60))
    assert flag.endswith("; the 60 slowest-clocked were discarded, so that the earlier, faster ones decide")


def test_a_steady_or_rising_or_unknown_clock_is_not_flagged() -> None:
    for timing in (clocked(1755, 1740), clocked(1410, 1755), clocked(1755, 1755, discarded=3)):
        assert clock_flags(timing) == []
    assert clock_flags(clocked(1755, 1410).model_copy(update={"sm_clock_first_last": None})) == []


def test_a_shared_gpu_is_flagged() -> None:
    assert noise_flags(telemetry(processes=3), 10, 2) == ["GPU shared: 3 processes held a context on it"]


def test_half_a_cpu_of_others_counts_on_any_machine_and_less_only_on_small_ones() -> None:
    assert noise_flags(telemetry({"cpu.other_s": 6.0}), elapsed_s=10, logical_cpus=256)
    assert noise_flags(telemetry({"cpu.other_s": 3.0}), elapsed_s=10, logical_cpus=2)
    assert not noise_flags(telemetry({"cpu.other_s": 3.0}), elapsed_s=10, logical_cpus=256)


def test_ranks_on_all_cpus_alike_do_not_take_each_other_for_strangers() -> None:
    seen = telemetry({"cpu.other_s": 9.0})
    assert noise_flags(seen, 10, logical_cpus=2, kept_to_cpus=2, ranks_here=2) == []
    assert noise_flags(seen, 10, logical_cpus=2, kept_to_cpus=1, ranks_here=2) == ["other processes used 0.9 of 1 CPU"]


def test_a_point_kept_to_some_cores_is_judged_by_those() -> None:
    """One of 16 CPUs was to be used, and what is counted is of that one."""
    waited = telemetry({"process.run_queue_wait_s": 4.0, "cpu.own_s": 9.5, "cpu.other_s": 1.0, "cpu.steal_s": 0.05})
    assert noise_flags(waited, 10, 16) == ["threads waited 4.0 s for a free CPU, 30% of the time they wanted one"]
    # That its threads share the core is what is measured, and that others use it is not.
    assert noise_flags(waited, 10, 16, kept_to_cpus=1) == ["other processes used 0.1 of 1 CPU"]
    disturbed = telemetry({"cpu.other_s": 1.0, "cpu.steal_s": 0.5})
    assert noise_flags(disturbed, 10, 16) == []
    assert noise_flags(disturbed, 10, 16, kept_to_cpus=1) == [
        "steal: the hypervisor gave 5% of the CPU time to others",
        "other processes used 0.1 of 1 CPU",
    ]


def test_the_cores_that_a_point_was_kept_to_are_the_lowest_of_those_there() -> None:
    environment = collect()
    there = list(range(3, 11))
    environment = environment.model_copy(update={"cpu": environment.cpu.model_copy(update={"affinity": there})})

    def kept(host_cores: int | None = None) -> list[int] | None:
        return kept_to_cpus(Point("any", "gpu", {}, host_cores=host_cores), environment)

    assert kept(host_cores=2) == [3, 4]
    assert kept() is kept(host_cores=8) is None


IDLE = """
import os, time
from accelbench.profiling.benchmark import Benchmark, Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.measure.point import measure

def prepare(point):
    return Task(lambda: time.sleep(0.02), lambda: Verification(True, "none"), Work(flops=1, items=1))

idle = Benchmark("idle", prepare, ("cpu",), {}, "flops", bound="arithmetic", dtype="float32")
for cores in (None, 1):
    record = measure(idle, Point("idle", "cpu", {}, host_cores=cores), collect(), 0.5)
    print(sorted(name for name in record.telemetry.gauges if "load" in name), record.peak.reason)
"""


@pytest.mark.slow
@pytest.mark.needs("two-cpus")
def test_a_measured_point_that_was_kept_to_one_core_is_observed_on_that_one() -> None:
    done = subprocess.run([sys.executable, "-c", IDLE], capture_output=True, text=True, check=True, cwd=ROOT)
    everywhere, kept = done.stdout.splitlines()
    first, second, *_ = sorted(os.sched_getaffinity(0))
    assert f"'cpu.load.{first}', 'cpu.load.{second}'" in everywhere
    assert f"['cpu.load.{first}']" in kept
    assert "does not bound 1" in kept
    assert "does not bound" not in everywhere


NAMES = ("cpu.steal_s", "cpu.other_s", "cgroup.throttled_s", "process.run_queue_wait_s", "cpu.thermal_throttles")


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), st.floats(0, 1e4)), st.floats(0.01, 1e4), st.integers(1, 512))
def test_more_of_a_disturbance_never_removes_its_flag(counters: dict[str, float], elapsed: float, cpus: int) -> None:
    doubled = {name: 2 * value for name, value in counters.items()}
    fewer, more = (noise_flags(telemetry(c), elapsed, cpus) for c in (counters, doubled))
    assert len(more) >= len(fewer)
