"""Parts of a distributed training step, and scaling of training workloads, on synthetic times."""

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
from accelbench.profiling.analysis.step_parts import split_step, with_exchange
from accelbench.profiling.records.bottleneck import CAUSES, Bottleneck, CpuTime
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.step import IsolatedTimes, StepParts
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.statistics import summarize
from tests.fixtures.declared import declared

times = st.lists(st.floats(0.001, 1.0), min_size=3, max_size=20)


def isolated(steps: list[float], *, exchange: float = 0.02, waits: float = 0.0) -> IsolatedTimes:
    return IsolatedTimes(apart_s=steps, input_s=waits, alone_s=[exchange] * 5, bytes=4e6)


def training(seconds: float, *, parts: StepParts | None = None, items: float = 64, **params: str | int) -> Record:
    return record("train", [seconds] * 20, "steps", Work(items=items, item="images"), params | {"batch": 64}, parts)


def reduction(seconds: float, nbytes: int, processes: int) -> Record:
    params: dict[str, str | int] = {"message": nbytes, "processes": processes}
    return record("exchanged", [seconds] * 20, "host", Work(bytes=nbytes, all_reduced=nbytes), params, None)


def record(
    name: str, samples: list[float], timer: str, work: Work, params: dict[str, str | int], parts: StepParts | None
) -> Record:
    return Record(
        **declared(name, params=params, metric="items", trained=timer == "steps"),
        status="measured",
        started=datetime(2026, 1, 1, tzinfo=UTC),
        work=work,
        timing=Timing(samples=samples, stop="epochs done", timer=timer, summary=summarize(samples)),
        parts=parts,
    )


def test_the_parts_of_a_step() -> None:
    """Rank 1 takes 20 ms longer; the isolated exchange of 30 ms adds only 25 ms, so 5 ms of it are overlapped."""
    ranks = [isolated([0.1] * 5, exchange=0.03, waits=0.01), isolated([0.12] * 5, exchange=0.03)]
    parts = split_step(0.145, ranks, 0.026, 1 / 3)
    # In the trace, a third of the 109 ms without collectives and input is launching, which includes 19 ms of exchange.
    assert parts.launch_s == pytest.approx(0.109 / 3 - 0.019)
    assert parts.compute_s == pytest.approx(0.09 - (0.109 / 3 - 0.019))
    assert parts.input_s == pytest.approx(0.01)
    assert parts.wait_s == pytest.approx(0.02)
    assert parts.exposed_s == pytest.approx(0.025)
    assert parts.hidden_s == pytest.approx(0.005)
    assert parts.exchange_s == pytest.approx({"with and without": 0.025, "alone": 0.03, "profiler": 0.026})
    assert parts.unexplained_s == pytest.approx(-0.005)


def test_ranks_with_alternating_step_times_wait_for_each_other() -> None:
    """The medians of both ranks are equal, but every step takes as long as the slower rank."""
    parts = split_step(0.2, [isolated([0.1, 0.19, 0.1, 0.19, 0.1]), isolated([0.19, 0.1, 0.19, 0.1, 0.19])])
    assert parts.wait_s == pytest.approx(0.09)


@given(times, times, st.floats(0.0, 0.5), st.floats(0.0, 0.5), st.none() | st.floats(0.0, 1.0))
def test_the_parts_add_up_to_the_step(
    first: list[float], second: list[float], exchange: float, waits: float, launching: float | None
) -> None:
    count = min(len(first), len(second))
    slowest = sorted(map(max, zip(first, second, strict=False)))
    middle = (slowest[(count - 1) // 2] + slowest[count // 2]) / 2
    ranks = [isolated(first[:count], waits=waits), isolated(second[:count])]
    parts = split_step(middle + exchange, ranks, launching=launching)
    added = parts.compute_s + (parts.launch_s or 0.0) + parts.input_s + parts.wait_s + parts.exposed_s
    assert added == pytest.approx(parts.step_s, abs=1e-9)
    assert (parts.launch_s is None) == (launching is None)
    assert min(parts.compute_s, parts.launch_s or 0.0, parts.input_s, parts.exposed_s, parts.hidden_s) >= 0


@pytest.mark.parametrize(
    ("exposed", "waits", "bound"),
    [(0.2, 0.0, "communication-bound"), (0.01, 0.0, "device-bound"), (0.01, 0.08, "input-bound")],
)
def test_waiting_for_other_ranks_is_communication(exposed: float, waits: float, bound: str) -> None:
    parts = split_step(0.1 + exposed, [isolated([0.1] * 5, waits=waits)] * 2)
    own = Bottleneck(bound="device-bound", shares={"device": 0.9, "dispatch": 0.1}, shares_text="trace of 10 steps")
    verdict = with_exchange(own, parts)
    assert verdict.bound == bound
    assert sum(verdict.shares.values()) == pytest.approx(1.0)
    assert "trace of 10 steps" in (verdict.shares_text or "")


def test_exchange_that_a_trace_shows_as_dispatch_is_communication() -> None:
    """The exchange takes 40 % of the step; the trace has no collective, and 55 % dispatch."""
    parts = split_step(0.1, [isolated([0.06] * 5)] * 2)
    own = Bottleneck(bound="dispatch-bound", shares={"device": 0.45, "dispatch": 0.55}, shares_text="trace of 10 steps")
    verdict = with_exchange(own, parts)
    assert verdict.shares == pytest.approx(
        dict.fromkeys(CAUSES, 0.0) | {"communication": 0.4, "device": 0.45, "dispatch": 0.15}
    )
    assert "dispatch-bound" not in {verdict.bound, *verdict.beside}
    assert {verdict.bound, *verdict.beside} == {"device-bound", "communication-bound"}


def test_dispatch_beyond_the_exchange_remains() -> None:
    parts = split_step(0.1, [isolated([0.09] * 5)] * 2)
    own = Bottleneck(bound="dispatch-bound", shares={"device": 0.1, "dispatch": 0.9}, shares_text="trace of 10 steps")
    assert with_exchange(own, parts).bound == "dispatch-bound"


def test_the_cpu_quota_takes_precedence_over_communication() -> None:
    own = judge(
        {"device": 1.0}, source="trace", cpu=CpuTime(wall_s=10, run_s=5, wait_s=0, longest_wait_s=0, throttled_s=5)
    )
    verdict = with_exchange(own, split_step(0.1, [isolated([0.06] * 5)] * 2))
    assert verdict.bound == "cpu-quota-bound"
    assert "50%" in (verdict.quota_text or "")


def test_without_a_trace_the_exchange_is_communication() -> None:
    parts = split_step(0.5, [isolated([0.1] * 5)] * 2)
    assert with_exchange(Bottleneck(reason="no profiler"), parts).bound == "communication-bound"


def test_strong_scaling_compared_with_one_replica() -> None:
    (scaling,) = scalings([training(0.1), training(0.06, processes=2), training(0.04, processes=4)])
    assert [step.replicas for step in scaling.steps] == [1, 2, 4]
    assert [step.speedup for step in scaling.steps] == pytest.approx([1, 10 / 6, 2.5])
    assert [step.efficiency for step in scaling.steps] == pytest.approx([1, 10 / 12, 0.625])
    assert not scaling.weak


def test_weak_scaling_counts_the_larger_batch_and_uses_the_same_single_replica() -> None:
    found = scalings(
        [training(0.1), training(0.06, processes=2), training(0.11, scaling="weak", processes=2, items=128)]
    )
    strong, weak = sorted(found, key=lambda scaling: scaling.weak)
    assert strong.steps[1].efficiency == pytest.approx(10 / 12)
    assert weak.steps[1].speedup == pytest.approx(2 / 1.1)


def test_points_that_differ_in_more_than_their_layout_are_no_scaling() -> None:
    assert scalings([training(0.1, units=32), training(0.06, units=64, processes=2)]) == []
    assert scalings([training(0.1)]) == []


def test_the_interval_of_the_speed_up_combines_both_intervals() -> None:
    noisy = [0.09, 0.1, 0.11] * 7
    one = record("train", noisy, "steps", Work(items=64), {"batch": 64}, None)
    two = record("train", [s / 2 for s in noisy], "steps", Work(items=64), {"batch": 64, "processes": 2}, None)
    ((_, step),) = [scaling.steps for scaling in scalings([one, two])]
    assert step.speedup == pytest.approx(2.0)
    assert step.speedup_low < 2.0 < step.speedup_high


@settings(deadline=None)  # the first call imports the solver
@given(st.floats(1e-7, 1e-3), st.floats(1e8, 1e11))
def test_the_fit_recovers_latency_and_bandwidth(latency: float, bandwidth: float) -> None:
    ring = LatencyBandwidth(latency, 1 / bandwidth, 0, 0.0)
    sizes = [8, 1 << 12, 1 << 20, 1 << 28]
    measured = [reduction(ring.all_reduce_s(n, size), size, n) for n in (2, 4) for size in sizes]
    found = fit_latency_bandwidth(measured)
    assert found is not None
    assert found.latency_s == pytest.approx(latency, rel=1e-3)
    assert found.seconds_per_byte == pytest.approx(1 / bandwidth, rel=1e-3)
    assert found.error < 1e-3


def test_too_few_collectives_have_no_fit() -> None:
    assert fit_latency_bandwidth([reduction(1e-3, 1 << 20, 2)] * 2) is None


RING = LatencyBandwidth(1e-4, 1e-9, 8, 0.0)


def on_two(compute: float, exchange: float) -> Scaling:
    """Return strong scaling from a step of 0.1 s on one replica to one of `compute` and an exchange of 4 MB on two."""
    parts = split_step(compute + exchange, [isolated([compute] * 5, exchange=exchange)] * 2)
    (scaling,) = scalings([training(0.1), training(parts.step_s, parts=parts, processes=2)])
    return scaling


def test_a_prediction_is_compared_with_the_measurement() -> None:
    one, two, four = predict(on_two(0.05, RING.all_reduce_s(2, 4e6)), RING, [1, 2, 4])
    assert (one.error, two.error) == pytest.approx((0.0, 0.0))
    assert four.measured_s is None
    assert four.step_s == pytest.approx(0.025 + RING.all_reduce_s(4, 4e6))


def test_the_prediction_is_scaled_to_the_measured_exchange() -> None:
    """TensorFlow's gRPC ring and JAX's array-by-array exchange take a multiple of gloo's time."""
    scaling = on_two(0.05, 4 * RING.all_reduce_s(2, 4e6))
    assert exchange_over_model(scaling, RING) == pytest.approx(4)
    two, four = predict(scaling, RING, [2, 4])
    assert two.error == pytest.approx(0.0)
    assert four.exchange_s == pytest.approx(4 * RING.all_reduce_s(4, 4e6))


def test_the_serial_part_of_a_step_is_constant_in_strong_scaling() -> None:
    """A recurrent layer computes its time steps one after the other, independent of the number of examples."""
    one, two, four = predict(on_two(0.08, RING.all_reduce_s(2, 4e6)), RING, [1, 2, 4])
    assert (one.error, two.error) == pytest.approx((0.0, 0.0))
    assert four.step_s == pytest.approx(0.06 + 0.04 / 4 + RING.all_reduce_s(4, 4e6))


def test_no_prediction_without_step_parts() -> None:
    (scaling,) = scalings([training(0.1), training(0.06, processes=2)])
    assert predict(scaling, RING, [4]) == []
