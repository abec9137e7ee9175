"""Bottleneck of training steps: verdict, shares with intervals, contention and CPU quota."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.analysis.bottleneck import (
    BOUND_OF,
    CAUSE_OF_PART,
    HELP,
    bottleneck,
    judge,
    share_interval,
    shares_of_host,
)
from accelbench.profiling.records.bottleneck import CAUSES, Bound, CpuTime
from accelbench.profiling.records.host import CATEGORIES
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.trace import PARTS, Breakdown, TraceAnalysis


def cpu(run_s: float = 10.0, wait_s: float = 0.0, throttled_s: float | None = None, threads: int = 2) -> CpuTime:
    """Return the CPU time of ten seconds of steps, with the given number of threads that waited equally long."""
    return CpuTime(wall_s=10.0, run_s=run_s, wait_s=wait_s, longest_wait_s=wait_s / threads, throttled_s=throttled_s)


def test_every_part_of_a_step_has_a_cause_and_every_bound_a_remedy() -> None:
    assert set(CAUSE_OF_PART) == set(PARTS)
    assert set(CAUSE_OF_PART.values()) | {"contention"} == set(CAUSES) == set(BOUND_OF)
    assert set(BOUND_OF.values()) | {"cpu-quota-bound"} == set(HELP) == set(get_args(Bound))


@pytest.mark.parametrize("cause", CAUSES)
def test_the_cause_with_the_largest_share_is_the_verdict(cause: Any) -> None:
    shares = dict.fromkeys(CAUSES, 0.1) | {cause: 0.6}
    found = judge(shares, source="trace")
    assert (found.bound, found.beside) == (BOUND_OF[cause], [])
    assert judge(shares, source="trace", cpu=cpu(throttled_s=10.0)).bound == "cpu-quota-bound"
    assert judge(shares, source="trace", cpu=cpu(throttled_s=0.1)).bound == BOUND_OF[cause]


def test_tiny_kernels_count_as_dispatch() -> None:
    shares = {"device": 0.9, "dispatch": 0.1}
    assert judge(shares, source="trace", kernel_s=1e-3).bound == "device-bound"
    found = judge(shares, source="trace", kernel_s=3e-6)
    assert found.bound == "dispatch-bound"
    assert found.shares["dispatch"] == pytest.approx(1)
    assert "3.0 µs" in (found.kernels_text or "")


def test_without_time_there_is_no_verdict() -> None:
    found = judge({}, source="trace")
    assert found.bound is None
    assert found.reason


def test_without_a_trace_the_shares_are_from_the_host_profile() -> None:
    nothing = dict.fromkeys(CATEGORIES, 0.0)
    waits = nothing | {"waiting": 1.0}
    assert shares_of_host(waits, nothing | {"kernels": 0.9, "input": 0.1}, True)["device"] == pytest.approx(0.9)
    assert shares_of_host(waits, nothing | {"kernels": 0.1, "input": 0.9}, True)["input"] == pytest.approx(0.9)
    assert shares_of_host(waits, None, True)["device"] == 1
    assert shares_of_host(nothing | {"kernels": 1.0}, None, False)["dispatch"] == 1, "the host's kernels, not the GPU's"
    for cpu_is_device in (True, False):
        for category in CATEGORIES:
            found = shares_of_host(nothing | {category: 1.0}, nothing | {"kernels": 1.0}, cpu_is_device)
            assert sum(found.values()) == pytest.approx(1), category


@pytest.mark.parametrize(
    ("dispatch", "waiting", "expected", "input_share"),
    [
        (0.9, 0.8, "input-bound", 0.8),
        (0.9, 0.02, "dispatch-bound", 0.0),
        (0.1, 0.8, "device-bound", 0.1),  # most of the wait overlaps with the device
    ],
)
def test_an_observed_wait_for_input_is_no_dispatch(
    dispatch: float, waiting: float, expected: Bound, input_share: float
) -> None:
    verdict = judge({"dispatch": dispatch, "device": 1 - dispatch}, source="trace", waiting=waiting)
    assert verdict.bound == expected
    assert verdict.shares["input"] == pytest.approx(input_share)
    assert sum(verdict.shares.values()) == pytest.approx(1)


def test_without_any_profile_the_bottleneck_is_unknown() -> None:
    point = Point("any", "gpu", {}, "torch")
    found = bottleneck(point, None, None, None, "no profiler")
    assert found.bound is None
    assert str(found.reason).startswith("no profiler")
    failed = TraceAnalysis(failure="CUPTI may not read")
    assert bottleneck(point, failed, None, None, failed.failure).bound is None


def test_waiting_for_a_cpu_is_contention() -> None:
    """In the trace, a thread that waits for a CPU looks like one that computes."""
    shares = {"device": 0.8, "dispatch": 0.1, "input": 0.1}
    found = judge(shares, source="trace", cpu=cpu(run_s=3.2, wait_s=16.8))
    assert (found.bound, found.beside) == ("cpu-contended", [])
    assert found.shares["contention"] == pytest.approx(0.9 * 0.84)
    assert found.shares["device"] == pytest.approx(0.8 * 0.16)
    assert found.shares["input"] == pytest.approx(0.1)
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert " 16.8 s for a free CPU, 84%" in (found.contention_text or "")
    quiet = judge(shares, source="trace", cpu=cpu(run_s=18.0, wait_s=0.4))
    assert (quiet.bound, quiet.contention_text) == ("device-bound", None)


def test_contention_is_limited_to_work_on_the_cpu_and_to_one_threads_wait() -> None:
    busy = cpu(run_s=2.0, wait_s=18.0)
    on_gpu = judge({"device": 0.9, "dispatch": 0.1}, source="trace", cpu=busy, cpu_is_device=False)
    assert on_gpu.bound == "device-bound", "a GPU needs no CPU to compute"
    asleep = judge({"input": 0.9, "device": 0.1}, source="trace", cpu=cpu(run_s=0.2, wait_s=0.8, threads=1))
    assert asleep.bound == "input-bound", "sleeping is not waiting for a CPU"
    idle = judge({"dispatch": 0.9, "input": 0.1}, source="trace", cpu=cpu(run_s=0.2, wait_s=8.0, threads=10))
    assert idle.bound == "dispatch-bound"
    assert idle.shares["contention"] == pytest.approx(0.08), "ten threads waited at the same time"


@pytest.mark.parametrize(
    ("run_s", "throttled_s", "stopped"),
    [(5.0, 5.0, 0.5), (5.0, 15.0, 0.75), (80.0, 80.0, 0.5), (0.5, 0.5, 0.05), (10.0, None, None)],
    ids=["one thread", "two threads on half a CPU", "sixteen threads on eight CPUs", "mostly asleep", "no quota"],
)
def test_the_cpu_quota_counts_by_its_throttled_time(
    run_s: float, throttled_s: float | None, stopped: float | None
) -> None:
    assert cpu(run_s, 0.0, throttled_s).stopped == (stopped and pytest.approx(stopped))
    found = judge({"device": 1.0}, source="trace", cpu=cpu(run_s, throttled_s or 0.0, throttled_s))
    assert (found.bound == "cpu-quota-bound") == (stopped is not None and stopped > 0.25)
    assert found.shares["contention"] == 0, "throttling is not contention"


def test_two_nearly_equal_causes_are_both_reported() -> None:
    found = judge({"device": 0.46, "input": 0.4, "dispatch": 0.14}, source="trace")
    assert (found.bound, found.beside) == ("device-bound", ["input-bound"])
    assert found.help == f"{HELP['device-bound']}; or {HELP['input-bound']}"
    assert judge({"device": 0.5, "input": 0.36, "dispatch": 0.14}, source="trace").beside == []


def test_a_cause_that_is_not_significantly_smaller_is_reported() -> None:
    """Every tenth step waits for a burst of input: the difference is significant for 1000 steps, not for ten."""
    burst = np.array([0.0] * 9 + [0.02])
    device = np.full(10, 0.001)
    few = judge({"input": burst, "device": device}, source="trace")
    assert (few.bound, few.beside) == ("input-bound", ["device-bound"])
    many = judge({"input": np.tile(burst, 100), "device": np.tile(device, 100)}, source="trace")
    assert (many.bound, many.beside) == ("input-bound", [])


def test_shares_have_an_interval_over_the_steps() -> None:
    found = judge({"input": [0.02, 0.04, 0.03, 0.03], "device": [0.01] * 4}, source="trace of 4 steps")
    low, high = found.intervals["input"]
    assert found.shares["input"] == pytest.approx(0.75)
    assert low < 0.75 < high
    assert f"input 75% ({100 * low:.0f} to {100 * high:.0f}%)" in (found.shares_text or "")
    assert judge({"input": 0.75, "device": 0.25}, source="py-spy").intervals == {}


def test_the_interval_of_a_share_covers_the_true_share() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(1000):
        device, waits = rng.gamma(4.0, 0.01, 12), rng.gamma(1.0, 0.02, 12)
        low, high = share_interval(waits, device + waits) or (1.0, 0.0)
        covered += low <= 1 / 3 <= high
    assert 0.90 <= covered / 1000 <= 0.98


def test_the_interval_of_a_share_covers_for_autocorrelated_steps() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(500):
        waits = np.exp(0.5 * autocorrelated(rng, 60, 0.5))
        low, high = share_interval(waits, waits + np.exp(0.125)) or (1.0, 0.0)
        covered += low <= 0.5 <= high
    assert covered / 500 >= 0.90


def autocorrelated(rng: np.random.Generator, count: int, correlation: float) -> np.ndarray:
    """Return standard normal numbers with this correlation between neighbours."""
    found = rng.standard_normal(count)
    for number in range(1, count):
        found[number] = correlation * found[number - 1] + (1 - correlation**2) ** 0.5 * found[number]
    return found


@settings(deadline=None)
@given(st.integers(2, 20), st.integers(0, 2**32))
def test_a_share_lies_in_its_interval(steps: int, seed: int) -> None:
    part, rest = np.random.default_rng(seed).exponential(size=(2, steps))
    whole = part + rest
    interval = share_interval(part, whole)
    assert interval is not None
    low, high = interval
    assert 0 <= low <= part.sum() / whole.sum() + 1e-9
    assert part.sum() / whole.sum() - 1e-9 <= high <= 1


@pytest.mark.parametrize(("measured_s", "warned"), [(0.01, False), (0.006, False), (0.004, True), (0.03, True)])
def test_traced_steps_that_differ_from_the_measured_ones_have_a_warning(measured_s: float, warned: bool) -> None:
    parts = dict.fromkeys(PARTS, 0.0) | {"kernel": 0.01}
    trace = TraceAnalysis(breakdown=Breakdown(steps=5, step_s=0.01, parts=parts, kernels=3))
    found = bottleneck(Point("any", "cpu", {}, "jax"), trace, None, cpu(), None, measured_s)
    assert found.bound == "device-bound"
    assert (found.apart_text is not None) == warned
