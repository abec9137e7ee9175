"""The largest share of a step's time is the verdict, and what nobody saw is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from profiling.analysis.bottleneck import CAUSE_OF_PART, HELP, bottleneck, judge, shares_of_host
from profiling.records.bottleneck import CAUSES
from profiling.records.host import CATEGORIES
from profiling.records.point import Point
from profiling.records.telemetry import Telemetry
from profiling.records.trace import PARTS, TraceAnalysis

TELEMETRY = Telemetry(interval_s=0.5, gauges={}, counters={"wall_s": 10.0})


def test_every_part_of_a_step_has_a_cause_and_every_bound_a_remedy() -> None:
    assert set(CAUSE_OF_PART) == set(PARTS)
    assert set(CAUSE_OF_PART.values()) == set(CAUSES)
    assert {f"{cause}-bound" for cause in CAUSES} | {"cpu-quota-bound"} == set(HELP)


@pytest.mark.parametrize("cause", CAUSES)
def test_the_largest_share_is_the_verdict(cause: Any) -> None:
    shares = dict.fromkeys(CAUSES, 0.1) | {cause: 0.6}
    assert judge(shares, source="trace").bound == f"{cause}-bound"
    assert judge(shares, source="trace", throttled_share=0.5).bound == "cpu-quota-bound"
    assert judge(shares, source="trace", throttled_share=0.01).bound == f"{cause}-bound"


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
    found = bottleneck(point, None, None, TELEMETRY, "no profiler")
    assert found.bound is None
    assert str(found.reason).startswith("no profiler")
    failed = TraceAnalysis(failure="CUPTI may not read")
    assert bottleneck(point, failed, None, TELEMETRY, failed.failure).bound is None
