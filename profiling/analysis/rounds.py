"""Repetitions of a point joined to one record: the median over processes, with an interval that covers them.

A failed or skipped repetition decides the status of the point. Repetitions with too few clean samples, whose time is
only an upper bound, are left out of the statistics if others have an estimate; else the point has the lowest upper
bound. Counters (seconds, energy, throttled samples) are summed over the repetitions, gauges are their median, and facts
about the point (work, peak, profile) are the first one's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from accelbench.profiling.records.quality import Metric, Quality
from accelbench.profiling.records.record import RankRecord, Record
from accelbench.profiling.records.telemetry import Gauge, Telemetry
from accelbench.profiling.records.timing import CAUSE_COLUMNS, Phases, Repetition, SampleCauses, StopReason, Timing
from accelbench.profiling.timing.causes import joined_ranges

WEAKEST_FIRST: Sequence[StopReason] = (
    "time limit",
    "sample limit",
    "epochs done",
    "steady noise",
    "relative spread",
)
"""The stopping rules, from the one that guarantees the least precision."""


def join(records: Sequence[Record], planned: int = 1) -> Record:
    """Return one record of a point from the records of its repetitions (at least one, `planned` in total).

    A single measured record is returned unchanged. If repetitions failed, the result is the first failed record, and
    its reason contains the number of the repetition. Otherwise, if one was skipped, the result is that record; a
    repetition that is skipped after another was measured counts as failed.
    """
    repetitions = sorted(records, key=lambda record: record.round)
    for status in ("failed", "skipped"):
        for record in repetitions:
            if record.status == status:
                return _not_measured(record, repetitions, planned)
    first, *others = repetitions
    return _joined(repetitions) if others and first.timing else first


def _not_measured(record: Record, repetitions: Sequence[Record], planned: int) -> Record:
    """Return the point's record from its failed or skipped repetition `record`."""
    contradicts = record.status == "skipped" and any(other.status == "measured" for other in repetitions)
    if record.status == "skipped" and not contradicts:
        return record
    where = f"repetition {record.round} of {planned}" if planned > 1 else ""
    prefix = f"{where} was skipped" if contradicts else where
    reason = ": ".join(filter(None, (prefix, record.reason)))
    elapsed_s = sum(other.elapsed_s for other in repetitions)
    return record.model_copy(update={"status": "failed", "reason": reason, "elapsed_s": elapsed_s})


def _joined(repetitions: Sequence[Record]) -> Record:
    first = repetitions[0]
    timings = [record.timing for record in repetitions if record.timing]
    return first.model_copy(
        update={
            "elapsed_s": sum(record.elapsed_s for record in repetitions),
            "phases": _sum_phases([record.phases for record in repetitions]),
            "timing": _join_timings(timings),
            "metrics": _join_metrics([record.metrics for record in repetitions], first.qualities),
            "telemetry": _join_telemetry([record.telemetry for record in repetitions if record.telemetry]),
            "noise": _join_noise({record.round: record.noise for record in repetitions}),
            "ranks": _join_ranks(repetitions),
            "rounds": [
                Repetition(
                    number=record.round,
                    order=record.order,
                    started=record.started,
                    count=len(timing.samples),
                    loops=timing.loops,
                    stop=timing.stop,
                    summary=timing.summary,
                    clean_share=timing.clean_share,
                    upper_bound=timing.upper_bound,
                    placement=record.placement,
                    noise=record.noise,
                )
                for record, timing in zip(repetitions, timings, strict=True)
            ],
        }
    )


def _sum_phases(phases: Sequence[Phases]) -> Phases:
    return Phases(**{name: sum(getattr(each, name) for each in phases) for name in Phases.model_fields})


def _join_timings(timings: Sequence[Timing]) -> Timing:
    # They import NumPy and SciPy, which a run with single repetitions does not need.
    from accelbench.profiling.timing.statistics import summarize_repetitions
    from accelbench.profiling.timing.steady import join_repetitions

    first = timings[0]
    estimates = [timing for timing in timings if not timing.upper_bound]
    tightest = min(timings, key=lambda timing: timing.execution.seconds)
    batches = [timing.batch for timing in timings if timing.batch is not None]
    clocks = [timing.sm_clock for timing in timings if timing.sm_clock]
    steady = [timing.steady for timing in estimates or [tightest] if timing.steady]
    thirds = [timing.sm_clock_first_last for timing in timings if timing.sm_clock_first_last]
    return first.model_copy(
        update={
            "samples": [sample for timing in timings for sample in timing.samples],
            "loops": max(timing.loops for timing in timings),
            "stop": min((timing.stop for timing in timings), key=WEAKEST_FIRST.index),
            "batch": median(batches) if batches else None,
            "steady": join_repetitions(steady) if steady else None,
            "extended_s": sum(timing.extended_s for timing in timings),
            "discarded": sum(timing.discarded for timing in timings),
            "sm_clock": _join_gauges(clocks) if clocks else None,
            "sm_clock_first_last": (thirds[0][0], thirds[-1][1]) if thirds else None,
            "summary": summarize_repetitions([timing.used for timing in estimates]) if estimates else tightest.summary,
            "causes": _join_causes(timings),
            "upper_bound": None if estimates else tightest.upper_bound,
        }
    )


def _join_causes(timings: Sequence[Timing]) -> SampleCauses | None:
    """Return the causes of all samples, with the used samples of the estimates, or of all; None if all are unknown."""
    known = [timing.causes for timing in timings if timing.causes]
    if not known:
        return None
    only_bounds = all(timing.upper_bound for timing in timings)
    ranges: list[tuple[int, int]] = []
    columns: dict[str, list[float]] = {name: [] for name in CAUSE_COLUMNS}
    offset = 0
    for timing in timings:
        own = timing.causes.used if timing.causes else [(0, len(timing.samples))]
        if only_bounds or not timing.upper_bound:
            ranges += [(first + offset, end + offset) for first, end in own]
        disturbed = len(timing.causes.first) if timing.causes else 0
        for name in CAUSE_COLUMNS if disturbed else ():
            values = getattr(timing.causes, name) or [0] * disturbed  # older records lack some columns
            columns[name] += [value + offset for value in values] if name == "first" else values
        offset += len(timing.samples)
    return SampleCauses.model_validate({"source": known[0].source, "used": joined_ranges(ranges), **columns})


def _join_gauges(gauges: Sequence[Gauge]) -> Gauge:
    return Gauge(
        minimum=min(gauge.minimum for gauge in gauges),
        median=median(gauge.median for gauge in gauges),
        maximum=max(gauge.maximum for gauge in gauges),
        unit=gauges[0].unit,
    )


def _join_metrics(repetitions: Sequence[Mapping[str, Metric]], qualities: Sequence[Quality] = ()) -> dict[str, Metric]:
    """Return the median of each metric over its repetitions; for a `WorstQuality`, the worst value."""
    worst = {each.name: quality.worst_of for quality in qualities for each in quality.worst}
    metrics: dict[str, list[Metric]] = {}
    for found in repetitions:
        for name, metric in found.items():
            metrics.setdefault(name, []).append(metric)
    return {
        name: Metric(worst.get(name, median)([metric.value for metric in same]), same[0].unit)
        for name, same in metrics.items()
    }


def _join_telemetry(telemetries: Sequence[Telemetry]) -> Telemetry | None:
    if not telemetries:
        return None
    gauges = {name: None for telemetry in telemetries for name in telemetry.gauges}
    counters = {
        name: None
        for telemetry in telemetries
        for name in telemetry.counters
        if not name.endswith(".energy_j") or all(name in other.counters for other in telemetries)
    }  # the energy of some repetitions is not the energy of all
    return telemetries[0].model_copy(
        update={
            "gauges": {
                name: _join_gauges([t.gauges[name] for t in telemetries if name in t.gauges]) for name in gauges
            },
            "counters": {name: sum(t.counters.get(name, 0.0) for t in telemetries) for name in counters},
            "throttle_reasons": list(dict.fromkeys(reason for t in telemetries for reason in t.throttle_reasons)),
            "missing": list(dict.fromkeys(name for t in telemetries for name in t.missing)),
        }
    )


def _join_noise(noise: Mapping[int, Sequence[str]]) -> list[str]:
    """Return each disturbance once, with the numbers of its repetitions."""
    repetitions: dict[str, list[int]] = {}
    for number, flags in noise.items():
        for flag in flags:
            repetitions.setdefault(flag, []).append(number)
    return [f"{_numbered(numbers)}: {flag}" for flag, numbers in repetitions.items()]


def _numbered(numbers: Sequence[int]) -> str:
    """Return the numbers as text: `repetition 2`, `repetitions 1, 2 and 4`."""
    *others, last = map(str, numbers)
    return f"repetitions {', '.join(others)} and {last}" if others else f"repetition {last}"


def _join_ranks(repetitions: Sequence[Record]) -> list[RankRecord]:
    """Return the ranks of the first repetition, with the joined noise and metrics of each rank."""
    joined = []
    for rank in repetitions[0].ranks:
        same = {record.round: other for record in repetitions for other in record.ranks if other.rank == rank.rank}
        noise = _join_noise({number: other.noise for number, other in same.items()})
        metrics = _join_metrics([other.metrics for other in same.values()])
        joined.append(rank.model_copy(update={"noise": noise, "metrics": metrics}))
    return joined
