"""Roofline: ceilings of a run, and results as shares of peaks and of ceilings."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.analysis.roofline import (
    BEYOND,
    NOISY,
    NOT_MEASURED,
    arithmetic_intensity,
    ceilings,
    find_ceiling,
    observed_clock,
    power_limited_clock,
    ridge,
    roof,
    share_of_ceiling,
    share_of_peak,
    share_of_peak_at_clock,
)
from accelbench.profiling.records.environment import Peak
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.telemetry import POWER_LIMIT, Gauge, Placement, Telemetry
from accelbench.profiling.records.work import SHARED_CORES, Work
from tests.fixtures.report_node import rich_records
from tests.fixtures.report_records import record as make_record
from tests.fixtures.report_records import timing, training, unmeasured

POSITIVE = st.floats(1e-3, 1e18)


def arithmetic(rate: float, dtype: str = "float32", **changes: Any) -> Record:
    """Return a record with exactly this rate in FLOP/s."""
    exact = timing(1.0, spread=0.0)
    fields: dict[str, Any] = {
        "params": {"dtype": dtype},
        "figure": "flops",
        "work": Work(flops=rate * exact.summary.median),
        "timing": exact,
    }
    return make_record("fma", **fields | changes)


def bandwidth(rate: float, **changes: Any) -> Record:
    exact = timing(1.0, spread=0.0)
    return make_record("copy", figure="bytes", work=Work(bytes=rate * exact.summary.median), timing=exact, **changes)


def test_a_ceiling_is_the_best_measured_rate_of_its_kind() -> None:
    slow, fast, double = arithmetic(1e9), arithmetic(2e9), arithmetic(1.5e9, "float64")
    records = [r.model_copy(update={"ceiling": True}) for r in (slow, fast, double, bandwidth(5e10))]
    found = {(c.metric, c.dtype): c for c in ceilings(records)}
    assert set(found) == {("flops", "float32"), ("flops", "float64"), ("bytes", None)}
    assert found["flops", "float32"].value == pytest.approx(2e9)
    assert found["flops", "float32"].record == records[1]
    assert found["bytes", None].value == pytest.approx(5e10)


def test_a_ceiling_of_one_core_bounds_only_cores_of_its_kind() -> None:
    def on(kind: str | None, rate: float) -> Record:
        found = arithmetic(rate, placement=Placement(core_kind=kind))
        return found.model_copy(update={"bound": replace(found.bound, cores="one")})

    measured = ceilings([on("P-core", 4e9).model_copy(update={"ceiling": True})])
    assert [ceiling.core_kind for ceiling in measured] == ["P-core"]
    assert "P-core" in measured[0].kind
    assert share_of_ceiling(on("P-core", 2e9), measured).value == pytest.approx(0.5)
    for other in ("E-core", None):
        assert share_of_ceiling(on(other, 2e9), measured).value is None


def test_only_measured_records_of_ceiling_benchmarks_set_a_ceiling() -> None:
    failed = unmeasured("fma", "failed", "it crashed", figure="flops", ceiling=True, work=Work(flops=1e12))
    time = make_record("launch", ceiling=True)
    assert ceilings([arithmetic(1e9), failed, time]) == []


def test_one_core_and_all_cores_have_separate_ceilings() -> None:
    one = arithmetic(1e9, params={"dtype": "float32", "cores": "one"}, ceiling=True)
    every = arithmetic(8e9, params={"dtype": "float32", "cores": "all"}, ceiling=True)
    measured = ceilings([one, every])
    assert {c.cores: c.value for c in measured} == pytest.approx({"all": 8e9, "one": 1e9})
    assert share_of_ceiling(arithmetic(4e9), measured).value == pytest.approx(0.5)
    assert share_of_ceiling(one, measured).value == 1.0
    assert share_of_peak(one.model_copy(update={"peak": Peak(value=8e9)})).reason is not None


def test_the_bound_of_n_devices_is_n_times_the_ceiling_of_one() -> None:
    measured = ceilings([arithmetic(1e12, device="gpu", ceiling=True)])
    axes = {"dtype": "float32", "processes": 4, "devices": 2}
    share = share_of_ceiling(arithmetic(4e12, device="gpu", params=axes), measured)
    assert (share.value, share.bound) == pytest.approx((0.5, 8e12))
    assert share.of == "float32 arithmetic of 8 devices"


def test_several_processes_on_cpus_have_no_bound() -> None:
    measured = ceilings([arithmetic(1e12, ceiling=True)])
    several = arithmetic(1e12, params={"dtype": "float32", "processes": 2})
    assert share_of_ceiling(several, measured).reason == SHARED_CORES
    divided = arithmetic(5e11, params={"dtype": "float32", "devices": 2})
    assert share_of_ceiling(divided, measured).value == pytest.approx(0.5)


FLAGS = ["other processes used 0.9 of 2 CPUs"]


def test_the_share_of_a_noisy_ceiling_is_doubtful() -> None:
    measured = ceilings([arithmetic(2e9, ceiling=True, noise=FLAGS)])
    share = share_of_ceiling(arithmetic(1e9), measured)
    assert share.value is None
    assert share.shown == share.doubtful == pytest.approx(0.5)
    assert str(share.reason).endswith(f"float32 arithmetic {NOISY}")


def test_a_ceiling_without_noise_is_preferred_to_a_noisy_one_that_is_hardly_faster() -> None:
    measured = ceilings([arithmetic(2.02e9, ceiling=True, noise=FLAGS), arithmetic(2e9, ceiling=True)])
    assert share_of_ceiling(arithmetic(1e9), measured).value == pytest.approx(0.5)


def test_the_doubt_of_a_noisy_ceiling_far_above_another_is_its_noise() -> None:
    best = arithmetic(2.5e9, ceiling=True, noise=FLAGS)
    share = share_of_ceiling(best, ceilings([best, arithmetic(2e9, ceiling=True)]))
    assert (share.value, share.doubtful) == (None, 1.0)
    assert str(share.reason).endswith(f"float32 arithmetic {NOISY}")


def test_there_is_no_share_of_a_ceiling_of_all_cores_below_that_of_one_core() -> None:
    one = arithmetic(2e9, params={"dtype": "float32", "cores": "one"}, ceiling=True)
    measured = ceilings([one, arithmetic(1e9, params={"dtype": "float32", "cores": "all"}, ceiling=True)])
    share = share_of_ceiling(arithmetic(5e8), measured)
    assert share.value is None
    assert (share.reason or "").endswith("one core (2.00×)")
    assert share_of_ceiling(one, measured).value == 1.0


def test_one_core_may_exceed_all_cores_by_chance() -> None:
    one = arithmetic(1.02e9, params={"dtype": "float32", "cores": "one"}, ceiling=True)
    measured = ceilings([one, arithmetic(1e9, params={"dtype": "float32", "cores": "all"}, ceiling=True)])
    assert share_of_ceiling(arithmetic(5e8), measured).value == pytest.approx(0.5)


def test_a_point_above_the_ceiling_has_no_share_and_contradicts_the_ceiling() -> None:
    ceiling, above, below = arithmetic(1e9, ceiling=True), arithmetic(2e9), arithmetic(5e8)
    measured = ceilings([ceiling, above, below])
    share = share_of_ceiling(above, measured)
    assert (share.value, share.bound) == (None, pytest.approx(1e9))
    assert str(share.reason).endswith("float32 arithmetic (2×)")
    assert str(share_of_ceiling(below, measured).reason).endswith("fma dtype=float32 (2.00×)")


def test_model_flops_of_training_do_not_contradict_a_ceiling() -> None:
    steps = timing(1.0, timer="steps", stop="epochs done")
    trained = arithmetic(1.0, timing=steps, work=Work(flops=2e9 * steps.summary.median))
    measured = ceilings([arithmetic(1e9, ceiling=True), trained])
    assert share_of_ceiling(trained, measured).value is None
    assert share_of_ceiling(arithmetic(5e8), measured).value == pytest.approx(0.5)


def test_several_devices_above_one_ceiling_do_not_contradict_it() -> None:
    axes = {"dtype": "float32", "processes": 4, "devices": 2}
    four = arithmetic(4e12, device="gpu", params=axes)
    measured = ceilings([arithmetic(1e12, device="gpu", ceiling=True), four])
    assert share_of_ceiling(four, measured).value == pytest.approx(0.5)


def test_a_run_without_ceilings_has_no_share_of_one() -> None:
    share = share_of_ceiling(arithmetic(1e9, ceiling=True), None)
    assert (share.value, share.reason) == (None, NOT_MEASURED)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(POSITIVE, st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_no_share_is_above_one_or_of_a_noisy_ceiling(points: list[tuple[float, bool, bool]]) -> None:
    records = [arithmetic(rate, ceiling=sets, noise=FLAGS * noisy) for rate, sets, noisy in points]
    measured = ceilings(records)
    values = [share.value for record in records if (share := share_of_ceiling(record, measured)).value is not None]
    assert all(value <= BEYOND for value in values)
    assert not values or any(sets and not noisy for _, sets, noisy in points)


def test_each_device_has_its_own_ceilings() -> None:
    measured = ceilings([arithmetic(1e12, device="gpu", ceiling=True)])
    share = share_of_ceiling(arithmetic(1e9), measured)
    assert share.value is None
    assert re.search(r"no ceiling .*float32 arithmetic .*\bcpu\b", str(share.reason))


def test_the_ceiling_of_memory_traffic_does_not_depend_on_the_dtype() -> None:
    measured = ceilings([bandwidth(1e11, params={"dtype": "float64"}, ceiling=True), arithmetic(1e12, ceiling=True)])
    share = share_of_ceiling(bandwidth(5e10, params={"dtype": "float32"}), measured)
    assert share.value == pytest.approx(0.5)
    assert share.of == "memory bandwidth"


@pytest.mark.parametrize(
    ("params", "dtype"),
    [
        ({"dtype": "bfloat16"}, "bfloat16"),
        ({"precision": "mixed_float16"}, "float16"),
        ({"precision": "mixed_bfloat16"}, "bfloat16"),
        ({"dtype": "float64", "precision": "mixed_float16"}, "float64"),
        ({}, "float32"),
    ],
)
def test_a_share_is_of_the_ceiling_of_the_records_dtype(params: dict[str, str], dtype: str) -> None:
    names = ("float16", "bfloat16", "float32", "float64")
    measured = ceilings([arithmetic(10.0 ** (9 + k), name, ceiling=True) for k, name in enumerate(names)])
    share = share_of_ceiling(arithmetic(1e9, params=params), measured)
    assert share.of == f"{dtype} arithmetic"
    assert share.value == pytest.approx(10.0 ** -names.index(dtype))


def test_training_has_shares_of_peak_and_ceiling_by_its_model_flops() -> None:
    trained = training("gpu", "mixed_float16", 0.002)
    flops = trained.work.flops if trained.work else None
    assert flops is not None
    assert trained.timing is not None
    rate = flops / trained.timing.execution.seconds
    measured = ceilings([arithmetic(7e14, "float16", device="gpu", ceiling=True)])
    assert share_of_peak(trained).value == pytest.approx(rate / 989.4e12)
    assert share_of_ceiling(trained, measured).value == pytest.approx(rate / 7e14)


@pytest.mark.parametrize(
    ("record", "key"),
    [
        (unmeasured("fma", "skipped", "too large", figure="flops"), "skipped"),
        (make_record("launch"), "ceiling of time"),
        (make_record("queens", figure="items", work=Work(items=5, item="nodes")), "ceiling of nodes/s"),
        (arithmetic(1e9, work=Work()), "the flops"),
        (arithmetic(1e9), "no peak is known"),
        (arithmetic(1e9, peak=Peak(value=None, reason="the clock is hidden")), "the clock is hidden"),
    ],
)
def test_an_unknown_share_has_a_reason(record: Record, key: str) -> None:
    share = share_of_peak(record)
    assert share.value is None
    assert key in str(share.reason)


def clocked(mhz: float) -> Telemetry:
    gauge = Gauge(minimum=mhz - 10, median=mhz, maximum=mhz + 10, unit="MHz")
    return Telemetry(interval_s=0.1, gauges={"gpu.sm_clock": gauge}, counters={})


def test_the_peak_is_scaled_to_the_observed_clock() -> None:
    peak = Peak(value=1e12, clock_mhz=2000)
    slowed = arithmetic(4e11, device="gpu", peak=peak, telemetry=clocked(1000))
    assert share_of_peak(slowed).value == pytest.approx(0.4)
    share = share_of_peak_at_clock(slowed)
    assert share.value == pytest.approx(0.8)
    assert share.bound == pytest.approx(5e11)
    assert share.of.endswith("at 1000 MHz (NVML)")
    unobserved = arithmetic(4e11, device="gpu", peak=peak)
    assert "not observed" in str(share_of_peak_at_clock(unobserved).reason)
    unstated = slowed.model_copy(update={"peak": Peak(value=1e12)})
    assert "the vendor" in str(share_of_peak_at_clock(unstated).reason)


def test_nvbenchs_clock_is_preferred_to_nvmls() -> None:
    idle = arithmetic(4e11, device="gpu", peak=Peak(value=1e12, clock_mhz=2000), telemetry=clocked(345))
    assert idle.timing is not None
    clock = Gauge(minimum=1590, median=1600, maximum=1700, unit="MHz")
    counted = idle.model_copy(update={"timing": idle.timing.model_copy(update={"sm_clock": clock})})
    share = share_of_peak_at_clock(counted)
    assert share.value == pytest.approx(0.5)
    assert share.of.endswith("at 1600 MHz (NVBench)")


def test_the_clock_at_the_power_limit_is_reported_with_the_highest_one() -> None:
    limited = clocked(1371).model_copy(update={"throttle_reasons": [POWER_LIMIT]})
    record = arithmetic(4e11, device="gpu", peak=Peak(value=1e12, clock_mhz=1830), telemetry=limited)
    assert power_limited_clock(record) == "1371 of 1830 MHz"
    assert power_limited_clock(record.model_copy(update={"peak": Peak(value=1e12)})) == "1371 MHz"
    assert power_limited_clock(record.model_copy(update={"telemetry": clocked(1371)})) is None


def test_the_clock_of_several_cards_is_their_mean() -> None:
    cards = {f"gpu.sm_clock.{number}": clocked(mhz).gauges["gpu.sm_clock"] for number, mhz in enumerate((1200, 1600))}
    telemetry = Telemetry(interval_s=0.1, gauges=cards, counters={})
    assert observed_clock(arithmetic(1e9, device="gpu", telemetry=telemetry)) == (1400, "NVML")


def test_arithmetic_intensity_needs_flops_and_bytes() -> None:
    assert arithmetic_intensity(arithmetic(1e9, work=Work(flops=6, bytes=2))) == 3
    assert arithmetic_intensity(arithmetic(1e9, work=Work(flops=6))) is None
    assert arithmetic_intensity(unmeasured("fma", "failed", "it crashed")) is None


@given(POSITIVE, POSITIVE, POSITIVE)
def test_the_roof_is_memory_below_the_ridge_and_arithmetic_above_it(
    intensity: float, compute: float, memory: float
) -> None:
    bend = ridge(compute, memory)
    attainable = roof(intensity, compute, memory)
    assert attainable == (intensity * memory if intensity < bend else pytest.approx(compute))
    assert roof(inf, compute, memory) == compute


def test_no_record_of_a_real_run_exceeds_a_ceiling_of_its_own_kind() -> None:
    records = rich_records()
    measured = ceilings(records)
    shares = [share_of_ceiling(record, measured).value for record in records if record.ceiling]
    assert max(share for share in shares if share is not None) == 1.0
    assert find_ceiling(measured, "gpu", "flops", "tf32") is not None
