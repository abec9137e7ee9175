"""Tests of noise flags: none on a quiet machine, and one for each disturbance with its value."""

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
from accelbench.profiling.records.telemetry import POWER_LIMIT, Gauge, Telemetry
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
            "machine.suspended_s": 2e-6,
        },
        processes=1,
    )
    assert noise_flags(quiet, elapsed_s=10, logical_cpus=2) == []


def test_without_counters_there_is_no_flag() -> None:
    assert noise_flags(telemetry(), elapsed_s=10, logical_cpus=2) == []
    assert noise_flags(telemetry({"cpu.steal_s": 1}), elapsed_s=0, logical_cpus=2) == []


@pytest.mark.parametrize(
    ("counters", "parts"),
    [
        ({"cpu.steal_s": 1.4}, ("steal", "7%")),
        ({"cpu.other_s": 6.0}, ("other processes", "0.6 of 2")),
        ({"cgroup.throttled_s": 1.2}, ("quota", "1.2 s")),
        ({"process.run_queue_wait_s": 4.0, "cpu.own_s": 16.0}, ("waited 4.0 s", "20%")),
        ({"process.run_queue_wait_s": 4.0, "cpu.own_s": 4.0, "cpu.other_s": 0.5}, ("waited 4.0 s", "50%")),
        ({"cpu.thermal_throttles": 3}, ("temperature", "3 times")),
        ({"process.stopped_s": 6.02}, ("stopped", "6.0 s")),
        ({"machine.suspended_s": 3600.0, "process.stopped_s": 0.0}, ("suspended", "3600.0 s")),
        ({"memory.swapped_bytes": 64 << 20}, ("swapped", "64 MiB")),
        ({"process.major_faults": 500}, ("major page faults", "500 times")),
    ],
)
def test_a_disturbance_is_named_with_its_value(counters: dict[str, float], parts: tuple[str, ...]) -> None:
    (flag,) = noise_flags(telemetry(counters), elapsed_s=10, logical_cpus=2)
    assert all(part in flag for part in parts), flag


def test_threads_that_wait_only_for_each_other_are_not_noise() -> None:
    """A framework's threads on two CPUs without other load."""
    crowded = telemetry({"process.run_queue_wait_s": 25.4, "cpu.own_s": 112.1, "cpu.other_s": 0.6})
    assert noise_flags(crowded, elapsed_s=60.7, logical_cpus=2) == []
    assert crowded_out(crowded) == 0


def test_a_throttled_gpu_is_flagged_with_share_and_reason() -> None:
    throttled = telemetry({"gpu.throttled_s.temperature (hardware)": 8.0}, ["temperature (hardware)"])
    (flag,) = noise_flags(throttled, elapsed_s=10, logical_cpus=2)
    assert flag.startswith("GPU throttled ")
    assert "80%" in flag
    assert flag.endswith(": temperature (hardware)")


def test_a_gpu_at_its_power_limit_is_not_noisy() -> None:
    limited = telemetry({f"gpu.throttled_s.{POWER_LIMIT}": 10.0}, [POWER_LIMIT])
    assert noise_flags(limited, elapsed_s=10, logical_cpus=2) == []


def test_a_briefly_throttled_gpu_is_not_flagged() -> None:
    throttled = telemetry({"gpu.throttled_s.hardware slowdown": 0.5}, ["hardware slowdown"])
    assert noise_flags(throttled, elapsed_s=10, logical_cpus=2) == []


def clocked(first: float, last: float) -> Timing:
    samples = [0.001] * 20
    return Timing(
        samples=samples,
        stop="steady noise",
        timer="nvbench",
        sm_clock_first_last=(first, last),
        summary=summarize(samples),
    )


def test_a_decreasing_clock_is_flagged() -> None:
    (flag,) = clock_flags(clocked(1755, 1410))
    assert "from 1755 to 1410 MHz" in flag


def test_a_steady_or_rising_or_unknown_clock_is_not_flagged() -> None:
    for timing in (clocked(1755, 1740), clocked(1410, 1755)):
        assert clock_flags(timing) == []
    assert clock_flags(clocked(1755, 1410).model_copy(update={"sm_clock_first_last": None})) == []


def test_a_shared_gpu_is_flagged() -> None:
    assert noise_flags(telemetry(processes=3), 10, 2) == ["GPU shared by 3 processes"]


def test_half_a_cpu_of_other_load_is_noise_on_any_machine_and_less_on_small_ones() -> None:
    assert noise_flags(telemetry({"cpu.other_s": 6.0}), elapsed_s=10, logical_cpus=256)
    assert noise_flags(telemetry({"cpu.other_s": 3.0}), elapsed_s=10, logical_cpus=2)
    assert not noise_flags(telemetry({"cpu.other_s": 3.0}), elapsed_s=10, logical_cpus=256)


def test_on_all_cpus_the_other_ranks_are_not_noise() -> None:
    observed = telemetry({"cpu.other_s": 9.0})
    assert noise_flags(observed, 10, logical_cpus=2, kept_to_cpus=2, ranks_here=2) == []
    (flag,) = noise_flags(observed, 10, logical_cpus=2, kept_to_cpus=1, ranks_here=2)
    assert "0.9 of 1 CPU" in flag


def test_the_flags_of_a_point_limited_to_some_cores_refer_to_these_cores() -> None:
    """The point is limited to one of 16 CPUs, whose counters are given."""
    waited = telemetry({"process.run_queue_wait_s": 4.0, "cpu.own_s": 9.5, "cpu.other_s": 1.0, "cpu.steal_s": 0.05})
    (flag,) = noise_flags(waited, 10, 16)
    assert "waited 4.0 s" in flag
    assert "30%" in flag
    # The point's own threads share the core by design; other processes do not.
    (flag,) = noise_flags(waited, 10, 16, kept_to_cpus=1)
    assert "0.1 of 1 CPU" in flag
    disturbed = telemetry({"cpu.other_s": 1.0, "cpu.steal_s": 0.5})
    assert noise_flags(disturbed, 10, 16) == []
    steal, others = noise_flags(disturbed, 10, 16, kept_to_cpus=1)
    assert steal.startswith("steal: ")
    assert "5%" in steal
    assert "0.1 of 1 CPU" in others


def test_a_point_is_limited_to_the_lowest_usable_cores() -> None:
    environment = collect()
    usable = list(range(3, 11))
    environment = environment.model_copy(update={"cpu": environment.cpu.model_copy(update={"affinity": usable})})

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
def test_the_telemetry_of_a_point_limited_to_one_core_covers_this_core() -> None:
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
