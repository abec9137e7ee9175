"""What a distributed step is made of, and how trainings scale, on numbers made up by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.analysis.bottleneck import judge
from accelbench.profiling.analysis.scaling import (
    LatencyBandwidth,
    Scaling,
    exchange_over_model,
    fit_latency_bandwidth,
    predict,
    scalings,
)
from accelbench.profiling.analysis.step_parts import take_apart, with_exchange
from accelbench.profiling.records.bottleneck import CAUSES, Bottleneck, CpuTime
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.step import IsolatedTimes, StepParts
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.statistics import summarize
from tests.fixtures.declared import declared

times = st.lists(st.floats(0.001, 1.0), min_size=3, max_size=20)


def seen(apart: list[float], *, alone: float = 0.02, waits: float = 0.0) -> IsolatedTimes:
    return IsolatedTimes(apart_s=apart, input_s=waits, alone_s=[alone] * 5, bytes=4e6)


def training(seconds: float, *, parts: StepParts | None = None, items: float = 64, **params: str | int) -> Record:
    return record("train", [seconds] * 20, "steps", Work(items=items, item="images"), params | {"batch": 64}, parts)


def reduction(seconds: float, nbytes: int, processes: int) -> Record:
    params: dict[str, str | int] = {"message": nbytes, "processes": processes}
    return record("exchanged", [seconds] * 20, "host", Work(bytes=nbytes, all_reduced=nbytes), params, None)


def record(
    name: str, samples: list[float], timer: str, work: Work, params: dict[str, str | int], parts: StepParts | None
) -> Record:
    return Record(
        **declared(name, params=params, figure="items", trained=timer == "steps"),
        status="measured",
        started=datetime(2026, 1, 1, tzinfo=UTC),
        work=work,
        timing=Timing(samples=samples, stop="epochs done", timer=timer, summary=summarize(samples)),
        parts=parts,
    )


def test_a_step_is_taken_apart_by_what_its_ranks_saw() -> None:
    """Rank 1 takes 20 ms longer; the exchange of 30 ms alone adds only 25 ms, so 5 ms of it are hidden."""
    parts = take_apart(0.145, [seen([0.1] * 5, alone=0.03, waits=0.01), seen([0.12] * 5, alone=0.03)], 0.026, 1 / 3)
    # Of the 109 ms that are neither collective nor input a third seems to be launching; 19 ms of exchange are in it.
    assert parts.launch_s == pytest.approx(0.109 / 3 - 0.019)
    assert parts.compute_s == pytest.approx(0.09 - (0.109 / 3 - 0.019))
    assert parts.input_s == pytest.approx(0.01)
    assert parts.wait_s == pytest.approx(0.02)
    assert parts.exposed_s == pytest.approx(0.025)
    assert parts.hidden_s == pytest.approx(0.005)
    assert parts.exchange_s == pytest.approx({"with and without": 0.025, "alone": 0.03, "profiler": 0.026})
    assert parts.unexplained_s == pytest.approx(-0.005)


def test_ranks_that_are_slow_by_turns_make_each_other_wait() -> None:
    """Neither is slower by its median, yet every step is as slow as the slower one."""
    parts = take_apart(0.2, [seen([0.1, 0.19, 0.1, 0.19, 0.1]), seen([0.19, 0.1, 0.19, 0.1, 0.19])])
    assert parts.wait_s == pytest.approx(0.09)


@given(times, times, st.floats(0.0, 0.5), st.floats(0.0, 0.5), st.none() | st.floats(0.0, 1.0))
def test_the_parts_add_up_to_the_step(
    first: list[float], second: list[float], exchange: float, waits: float, launching: float | None
) -> None:
    count = min(len(first), len(second))
    slowest = sorted(map(max, zip(first, second, strict=False)))
    middle = (slowest[(count - 1) // 2] + slowest[count // 2]) / 2
    ranks = [seen(first[:count], waits=waits), seen(second[:count])]
    parts = take_apart(middle + exchange, ranks, launching=launching)
    added = parts.compute_s + (parts.launch_s or 0.0) + parts.input_s + parts.wait_s + parts.exposed_s
    assert added == pytest.approx(parts.step_s, abs=1e-9)
    assert (parts.launch_s is None) == (launching is None)
    assert min(parts.compute_s, parts.launch_s or 0.0, parts.input_s, parts.exposed_s, parts.hidden_s) >= 0


@pytest.mark.parametrize(
    ("exposed", "waits", "bound"),
    [(0.2, 0.0, "communication-bound"), (0.01, 0.0, "device-bound"), (0.01, 0.08, "input-bound")],
)
def test_what_others_hold_up_is_communication(exposed: float, waits: float, bound: str) -> None:
    parts = take_apart(0.1 + exposed, [seen([0.1] * 5, waits=waits)] * 2)
    own = Bottleneck(bound="device-bound", shares={"device": 0.9, "dispatch": 0.1}, shares_text="trace of 10 steps")
    verdict = with_exchange(own, parts)
    assert verdict.bound == bound
    assert sum(verdict.shares.values()) == pytest.approx(1.0)
    assert "trace of 10 steps" in (verdict.shares_text or "")


def test_an_exchange_that_a_trace_shows_as_a_host_that_waits_is_not_dispatch() -> None:
    """The exchange takes 40 % of the step; the trace shows no collective, but a host that starts nothing for 55 %."""
    parts = take_apart(0.1, [seen([0.06] * 5)] * 2)
    own = Bottleneck(bound="dispatch-bound", shares={"device": 0.45, "dispatch": 0.55}, shares_text="trace of 10 steps")
    verdict = with_exchange(own, parts)
    assert verdict.shares == pytest.approx(
        dict.fromkeys(CAUSES, 0.0) | {"communication": 0.4, "device": 0.45, "dispatch": 0.15}
    )
    assert "dispatch-bound" not in {verdict.bound, *verdict.beside}
    assert {verdict.bound, *verdict.beside} == {"device-bound", "communication-bound"}


def test_dispatch_that_is_more_than_the_exchange_stays_dispatch() -> None:
    parts = take_apart(0.1, [seen([0.09] * 5)] * 2)
    own = Bottleneck(bound="dispatch-bound", shares={"device": 0.1, "dispatch": 0.9}, shares_text="trace of 10 steps")
    assert with_exchange(own, parts).bound == "dispatch-bound"


def test_a_quota_still_comes_first_where_ranks_exchange() -> None:
    own = judge(
        {"device": 1.0}, source="trace", cpu=CpuTime(wall_s=10, run_s=5, wait_s=0, longest_wait_s=0, throttled_s=5)
    )
    verdict = with_exchange(own, take_apart(0.1, [seen([0.06] * 5)] * 2))
    assert verdict.bound == "cpu-quota-bound"
    assert "50% of the time" in (verdict.quota_text or "")


def test_without_a_trace_the_verdict_still_knows_the_exchange() -> None:
    parts = take_apart(0.5, [seen([0.1] * 5)] * 2)
    assert with_exchange(Bottleneck(reason="no profiler"), parts).bound == "communication-bound"


def test_strong_scaling_beside_one_replica() -> None:
    (scaling,) = scalings([training(0.1), training(0.06, processes=2), training(0.04, processes=4)])
    assert [step.replicas for step in scaling.steps] == [1, 2, 4]
    assert [step.speedup for step in scaling.steps] == pytest.approx([1, 10 / 6, 2.5])
    assert [step.efficiency for step in scaling.steps] == pytest.approx([1, 10 / 12, 0.625])
    assert not scaling.weak


def test_weak_scaling_counts_the_larger_batch_and_shares_the_single_replica() -> None:
    found = scalings(
        [training(0.1), training(0.06, processes=2), training(0.11, scaling="weak", processes=2, items=128)]
    )
    strong, weak = sorted(found, key=lambda scaling: scaling.weak)
    assert strong.steps[1].efficiency == pytest.approx(10 / 12)
    assert weak.steps[1].speedup == pytest.approx(2 / 1.1)


def test_what_differs_in_more_than_its_size_is_no_scaling() -> None:
    assert scalings([training(0.1, units=32), training(0.06, units=64, processes=2)]) == []
    assert scalings([training(0.1)]) == []


def test_an_interval_of_the_speed_up_takes_the_worst_of_both() -> None:
    noisy = [0.09, 0.1, 0.11] * 7
    one = record("train", noisy, "steps", Work(items=64), {"batch": 64}, None)
    two = record("train", [s / 2 for s in noisy], "steps", Work(items=64), {"batch": 64, "processes": 2}, None)
    ((_, step),) = [scaling.steps for scaling in scalings([one, two])]
    assert step.speedup == pytest.approx(2.0)
    assert step.speedup_low < 2.0 < step.speedup_high


@settings(deadline=None)  # the first call imports the solver
@given(st.floats(1e-7, 1e-3), st.floats(1e8, 1e11))
def test_the_rings_latency_and_bandwidth_are_found_again(latency: float, bandwidth: float) -> None:
    ring = LatencyBandwidth(latency, 1 / bandwidth, 0, 0.0)
    sizes = [8, 1 << 12, 1 << 20, 1 << 28]
    measured = [reduction(ring.all_reduce_s(n, size), size, n) for n in (2, 4) for size in sizes]
    found = fit_latency_bandwidth(measured)
    assert found is not None
    assert found.latency_s == pytest.approx(latency, rel=1e-3)
    assert found.seconds_per_byte == pytest.approx(1 / bandwidth, rel=1e-3)
    assert found.error < 1e-3


def test_too_few_collectives_fit_nothing() -> None:
    assert fit_latency_bandwidth([reduction(1e-3, 1 << 20, 2)] * 2) is None


RING = LatencyBandwidth(1e-4, 1e-9, 8, 0.0)


def on_two(compute: float, exchange: float) -> Scaling:
    """Strong scaling of a training whose step takes 0.1 s on one replica; on two, this and an exchange of 4 MB."""
    parts = take_apart(compute + exchange, [seen([compute] * 5, alone=exchange)] * 2)
    (scaling,) = scalings([training(0.1), training(parts.step_s, parts=parts, processes=2)])
    return scaling


def test_a_prediction_is_checked_where_it_was_measured() -> None:
    one, two, four = predict(on_two(0.05, RING.all_reduce_s(2, 4e6)), RING, [1, 2, 4])
    assert (one.error, two.error) == pytest.approx((0.0, 0.0))
    assert four.measured_s is None
    assert four.step_s == pytest.approx(0.025 + RING.all_reduce_s(4, 4e6))


def test_an_engine_slower_than_the_model_is_predicted_by_its_own_exchange() -> None:
    """TensorFlow's gRPC ring and JAX's exchange of one array after the other take a multiple of gloo's time."""
    scaling = on_two(0.05, 4 * RING.all_reduce_s(2, 4e6))
    assert exchange_over_model(scaling, RING) == pytest.approx(4)
    two, four = predict(scaling, RING, [2, 4])
    assert two.error == pytest.approx(0.0)
    assert four.exchange_s == pytest.approx(4 * RING.all_reduce_s(4, 4e6))


def test_what_a_smaller_share_does_not_make_shorter_stays_in_larger_clusters() -> None:
    """A recurrent layer takes its time steps one after the other, however few the examples."""
    one, two, four = predict(on_two(0.08, RING.all_reduce_s(2, 4e6)), RING, [1, 2, 4])
    assert (one.error, two.error) == pytest.approx((0.0, 0.0))
    assert four.step_s == pytest.approx(0.06 + 0.04 / 4 + RING.all_reduce_s(4, 4e6))


def test_nothing_is_predicted_of_steps_that_were_not_taken_apart() -> None:
    (scaling,) = scalings([training(0.1), training(0.06, processes=2)])
    assert predict(scaling, RING, [4]) == []
