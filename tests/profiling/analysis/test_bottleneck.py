"""The largest share of a step's time is the verdict, and what nobody saw is unknown."""

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
    """The CPU time of ten seconds of steps, of so many threads that waited equally long."""
    return CpuTime(wall_s=10.0, run_s=run_s, wait_s=wait_s, longest_wait_s=wait_s / threads, throttled_s=throttled_s)


def test_every_part_of_a_step_has_a_cause_and_every_bound_a_remedy() -> None:
    assert set(CAUSE_OF_PART) == set(PARTS)
    assert set(CAUSE_OF_PART.values()) | {"contention"} == set(CAUSES) == set(BOUND_OF)
    assert set(BOUND_OF.values()) | {"cpu-quota-bound"} == set(HELP) == set(get_args(Bound))


@pytest.mark.parametrize("cause", CAUSES)
def test_the_largest_share_is_the_verdict(cause: Any) -> None:
    shares = dict.fromkeys(CAUSES, 0.1) | {cause: 0.6}
    found = judge(shares, source="trace")
    assert (found.bound, found.beside) == (BOUND_OF[cause], [])
    assert judge(shares, source="trace", cpu=cpu(throttled_s=10.0)).bound == "cpu-quota-bound"
    assert judge(shares, source="trace", cpu=cpu(throttled_s=0.1)).bound == BOUND_OF[cause]


def test_many_tiny_kernels_are_work_for_the_host() -> None:
    shares = {"device": 0.9, "dispatch": 0.1}
    assert judge(shares, source="trace", kernel_s=1e-3).bound == "device-bound"
    found = judge(shares, source="trace", kernel_s=3e-6)
    assert found.bound == "dispatch-bound"
    assert found.shares["dispatch"] == pytest.approx(1)
    assert "3.0 µs" in (found.kernels_text or "")


def test_no_time_at_all_is_no_verdict() -> None:
    found = judge({}, source="trace")
    assert found.bound is None
    assert found.reason


def test_without_a_trace_the_host_tells() -> None:
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


def test_what_nobody_saw_is_unknown_with_the_reason() -> None:
    point = Point("any", "gpu", {}, "torch")
    found = bottleneck(point, None, None, None, "no profiler")
    assert found.bound is None
    assert str(found.reason).startswith("no profiler")
    failed = TraceAnalysis(failure="CUPTI may not read")
    assert bottleneck(point, failed, None, None, failed.failure).bound is None


def test_threads_that_wait_for_a_core_are_what_holds_the_steps_back() -> None:
    """The trace takes a thread that waits for a CPU for one that computes."""
    shares = {"device": 0.8, "dispatch": 0.1, "input": 0.1}
    found = judge(shares, source="trace", cpu=cpu(run_s=3.2, wait_s=16.8))
    assert (found.bound, found.beside) == ("cpu-contended", [])
    assert found.shares["contention"] == pytest.approx(0.9 * 0.84)
    assert found.shares["device"] == pytest.approx(0.8 * 0.16)
    assert found.shares["input"] == pytest.approx(0.1)
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert "84% of the time they wanted one" in (found.contention_text or "")
    quiet = judge(shares, source="trace", cpu=cpu(run_s=18.0, wait_s=0.4))
    assert (quiet.bound, quiet.contention_text) == ("device-bound", None)


def test_what_needs_no_cpu_does_not_wait_for_one() -> None:
    busy = cpu(run_s=2.0, wait_s=18.0)
    on_gpu = judge({"device": 0.9, "dispatch": 0.1}, source="trace", cpu=busy, cpu_is_device=False)
    assert on_gpu.bound == "device-bound", "a GPU computes whoever has the CPUs"
    asleep = judge({"input": 0.9, "device": 0.1}, source="trace", cpu=cpu(run_s=0.2, wait_s=0.8, threads=1))
    assert asleep.bound == "input-bound", "a step that sleeps for nine seconds did not wait all those for a CPU"
    idle = judge({"dispatch": 0.9, "input": 0.1}, source="trace", cpu=cpu(run_s=0.2, wait_s=8.0, threads=10))
    assert idle.bound == "dispatch-bound"
    assert idle.shares["contention"] == pytest.approx(0.08), "ten threads waited, at once, and none for longer"


@pytest.mark.parametrize(
    ("run_s", "throttled_s", "stopped"),
    [(5.0, 5.0, 0.5), (5.0, 15.0, 0.75), (80.0, 80.0, 0.5), (0.5, 0.5, 0.05), (10.0, None, None)],
    ids=["one thread", "two threads on half a CPU", "sixteen threads on eight CPUs", "mostly asleep", "no quota"],
)
def test_a_quota_counts_by_the_time_that_it_stopped_the_process(
    run_s: float, throttled_s: float | None, stopped: float | None
) -> None:
    assert cpu(run_s, 0.0, throttled_s).stopped == (stopped and pytest.approx(stopped))
    found = judge({"device": 1.0}, source="trace", cpu=cpu(run_s, throttled_s or 0.0, throttled_s))
    assert (found.bound == "cpu-quota-bound") == (stopped is not None and stopped > 0.25)
    assert found.shares["contention"] == 0, "what the quota stopped did not wait for others"


def test_two_causes_that_are_nearly_alike_are_both_named() -> None:
    """A verdict that the next run would turn round is none."""
    found = judge({"device": 0.46, "input": 0.4, "dispatch": 0.14}, source="trace")
    assert (found.bound, found.beside) == ("device-bound", ["input-bound"])
    assert found.help == f"{HELP['device-bound']}; or {HELP['input-bound']}"
    assert judge({"device": 0.5, "input": 0.36, "dispatch": 0.14}, source="trace").beside == []


def test_a_cause_that_the_spread_of_the_steps_may_make_the_largest_is_named_too() -> None:
    """Every tenth step waits for a burst of input: ten steps cannot tell which is larger, a thousand can."""
    burst = np.array([0.0] * 9 + [0.02])
    device = np.full(10, 0.001)
    few = judge({"input": burst, "device": device}, source="trace")
    assert (few.bound, few.beside) == ("input-bound", ["device-bound"])
    many = judge({"input": np.tile(burst, 100), "device": np.tile(device, 100)}, source="trace")
    assert (many.bound, many.beside) == ("input-bound", [])


def test_causes_have_an_interval_over_the_steps() -> None:
    found = judge({"input": [0.02, 0.04, 0.03, 0.03], "device": [0.01] * 4}, source="trace of 4 steps")
    low, high = found.intervals["input"]
    assert found.shares["input"] == pytest.approx(0.75)
    assert low < 0.75 < high
    assert f"input 75% ({100 * low:.0f} to {100 * high:.0f}%)" in (found.shares_text or "")
    assert judge({"input": 0.75, "device": 0.25}, source="py-spy").intervals == {}


def test_the_interval_of_a_share_covers() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(1000):
        device, waits = rng.gamma(4.0, 0.01, 12), rng.gamma(1.0, 0.02, 12)
        low, high = share_interval(waits, device + waits) or (1.0, 0.0)
        covered += low <= 1 / 3 <= high
    assert 0.90 <= covered / 1000 <= 0.98


def test_the_interval_of_a_share_covers_where_steps_are_like_their_neighbours() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(500):
        waits = np.exp(0.5 * wandering(rng, 60, 0.5))
        low, high = share_interval(waits, waits + np.exp(0.125)) or (1.0, 0.0)
        covered += low <= 0.5 <= high
    assert covered / 500 >= 0.90


def wandering(rng: np.random.Generator, count: int, correlation: float) -> np.ndarray:
    """Return normal numbers, of variance 1, each of which is correlated with the one before."""
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


@pytest.mark.parametrize(("measured_s", "said"), [(0.01, False), (0.006, False), (0.004, True), (0.03, True)])
def test_traced_steps_that_are_not_like_the_measured_ones_are_said(measured_s: float, said: bool) -> None:
    parts = dict.fromkeys(PARTS, 0.0) | {"kernel": 0.01}
    trace = TraceAnalysis(breakdown=Breakdown(steps=5, step_s=0.01, parts=parts, kernels=3))
    found = bottleneck(Point("any", "cpu", {}, "jax"), trace, None, cpu(), None, measured_s)
    assert found.bound == "device-bound"
    assert (found.apart_text is not None) == said
