"""Joining of the repetitions of a point to one record."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.analysis.rounds import join
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.record import RankRecord, Record
from accelbench.profiling.timing.statistics import summarize_repetitions
from tests.fixtures.report_records import cpu_telemetry, record, timing, unmeasured

MEDIANS = (1e-3, 1.1e-3, 0.9e-3)


def repetitions(*changes: dict[str, Any]) -> list[Record]:
    """Return the records of as many repetitions, with nine other measurements between two."""
    return [
        record("matmul", **{"round": number, "order": 10 * number} | changed)
        for number, changed in enumerate(changes, start=1)
    ]


def measured() -> list[Record]:
    return repetitions(*({"timing": timing(median, seed=number)} for number, median in enumerate(MEDIANS)))


def test_a_single_repetition_is_unchanged() -> None:
    assert join([record("matmul")]) == record("matmul")


@given(st.permutations(measured()))
def test_the_samples_are_in_the_order_of_the_repetitions(lines: list[Record]) -> None:
    joined = join(lines, planned=3)
    assert joined.timing is not None
    samples = [found.timing.samples for found in measured() if found.timing]
    assert joined.timing.samples == [sample for each in samples for sample in each]
    assert [found.count for found in joined.rounds] == [len(each) for each in samples]
    assert [(found.number, found.order) for found in joined.rounds] == [(1, 10), (2, 20), (3, 30)]
    assert joined.timing.summary == summarize_repetitions(samples)


def test_the_median_is_over_repetitions_and_its_interval_covers_them() -> None:
    joined, lines = join(measured()), measured()
    assert joined.timing is not None
    medians = [line.timing.summary.median for line in lines if line.timing]
    assert joined.timing.summary.median == sorted(medians)[1]
    assert joined.timing.summary.ci_low < min(medians)
    assert joined.timing.summary.ci_high > max(medians)


def test_a_failed_repetition_fails_the_point() -> None:
    lines = [record("matmul"), unmeasured("matmul", "failed", "it crashed", round=2)]
    joined = join(lines, planned=5)
    assert (joined.status, joined.timing) == ("failed", None)
    assert str(joined.reason).endswith(" 2 of 5: it crashed")
    assert joined.elapsed_s == 2 * 4.2


def test_the_reason_of_a_single_repetition_has_no_number() -> None:
    assert join([unmeasured("matmul", "failed", "it crashed")]).reason == "it crashed"


def test_a_skipped_point_stays_skipped() -> None:
    skipped = unmeasured("matmul", "skipped", "no such library")
    assert join([skipped], planned=3) == skipped


def test_a_repetition_skipped_after_a_measured_one_fails_the_point() -> None:
    joined = join([record("matmul"), unmeasured("matmul", "skipped", "no memory", round=2)], planned=3)
    assert joined.status == "failed"
    assert re.search(r" 2 of 3 .*skipped: no memory$", str(joined.reason))


def test_wall_times_and_counters_add_up_and_metrics_are_medians() -> None:
    joined = join(
        repetitions(
            *(
                {"telemetry": cpu_telemetry(steal_s=seconds), "metrics": {"spin": Metric(value, "s")}}
                for seconds, value in ((0.5, 3.0), (0.25, 1.0), (0.0, 2.0))
            )
        )
    )
    assert joined.elapsed_s == pytest.approx(3 * 4.2)
    assert joined.phases.first_call_s == pytest.approx(3 * 1.4)
    assert joined.telemetry is not None
    assert joined.telemetry.counters["cpu.steal_s"] == 0.75
    assert joined.telemetry.gauges == cpu_telemetry().gauges
    assert joined.metrics == {"spin": Metric(2.0, "s")}


def test_the_stopping_rule_is_the_weakest_of_the_repetitions() -> None:
    stops = ("relative spread", "time limit", "steady noise")
    joined = join(repetitions(*({"timing": timing(1e-3, stop=stop)} for stop in stops)))
    assert joined.timing is not None
    assert joined.timing.stop == "time limit"
    assert [found.stop for found in joined.rounds] == list(stops)


def test_a_disturbance_is_reported_once_with_its_repetitions() -> None:
    joined = join(repetitions({"noise": ["steal"]}, {"noise": []}, {"noise": ["steal", "other load"]}))
    assert [flag.partition(" ")[2] for flag in joined.noise] == ["1 and 3: steal", "3: other load"]
    assert [found.noise for found in joined.rounds] == [["steal"], [], ["steal", "other load"]]


def test_each_rank_has_the_disturbances_of_all_repetitions() -> None:
    ranks = [[RankRecord(rank=0, node=0), RankRecord(rank=1, node=0, noise=flags)] for flags in ([], ["steal"])]
    joined = join(repetitions(*({"ranks": found} for found in ranks)))
    first, second = joined.ranks
    assert first.noise == []
    assert [flag.partition(" ")[2] for flag in second.noise] == ["2: steal"]


def test_the_curves_are_from_the_first_repetition() -> None:
    joined = join(repetitions({"curves": {"loss": [3.0, 2.0]}}, {"curves": {"loss": [3.0, 1.0]}}))
    assert joined.curves == {"loss": [3.0, 2.0]}
