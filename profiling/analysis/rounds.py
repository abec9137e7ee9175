"""Repetitions of a point joined to one record: the median over processes, with an interval that covers them.

A failed or skipped repetition decides the status of the point. Counters (seconds, energy, throttled samples) are summed
over the repetitions, gauges are their median, and facts about the point (work, peak, profile) are the first one's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from accelbench.profiling.records.quality import Metric, Quality
from accelbench.profiling.records.record import RankRecord, Record
from accelbench.profiling.records.telemetry import Gauge, Telemetry
from accelbench.profiling.records.timing import Phases, Round, StopReason, Timing

WEAKEST_FIRST: Sequence[StopReason] = (
    "time limit",
    "sample limit",
    "epochs done",
    "steady noise",
    "relative spread",
)
"""The rules that end a sampling, from the one that says least of how well the time is known."""


def join(records: Sequence[Record], planned: int = 1) -> Record:
    """Return one record of a point's rounds, at least one, of the `planned`; a single measured round stays as it is.

    Where rounds failed, the first of them is the record, and its reason names the round. Where none failed and one was
    skipped, that one is the record, but a round that is skipped after another was measured has failed.
    """
    rounds = sorted(records, key=lambda record: record.round)
    for status in ("failed", "skipped"):
        for record in rounds:
            if record.status == status:
                return _not_measured(record, rounds, planned)
    first, *others = rounds
    return _joined(rounds) if others and first.timing else first


def _not_measured(record: Record, rounds: Sequence[Record], planned: int) -> Record:
    """Return the record of a point of which this round failed or was skipped."""
    contradicts = record.status == "skipped" and any(other.status == "measured" for other in rounds)
    if record.status == "skipped" and not contradicts:
        return record
    where = f"round {record.round} of {planned}" if planned > 1 else ""
    said = f"{where} was skipped" if contradicts else where
    reason = ": ".join(filter(None, (said, record.reason)))
    elapsed_s = sum(other.elapsed_s for other in rounds)
    return record.model_copy(update={"status": "failed", "reason": reason, "elapsed_s": elapsed_s})


def _joined(rounds: Sequence[Record]) -> Record:
    first = rounds[0]
    timings = [record.timing for record in rounds if record.timing]
    return first.model_copy(
        update={
            "elapsed_s": sum(record.elapsed_s for record in rounds),
            "phases": _sum_phases([record.phases for record in rounds]),
            "timing": _join_timings(timings),
            "metrics": _join_metrics([record.metrics for record in rounds], first.qualities),
            "telemetry": _join_telemetry([record.telemetry for record in rounds if record.telemetry]),
            "noise": _join_noise({record.round: record.noise for record in rounds}),
            "ranks": _join_ranks(rounds),
            "rounds": [
                Round(
                    number=record.round,
                    order=record.order,
                    started=record.started,
                    count=len(timing.samples),
                    loops=timing.loops,
                    stop=timing.stop,
                    summary=timing.summary,
                    placement=record.placement,
                    noise=record.noise,
                )
                for record, timing in zip(rounds, timings, strict=True)
            ],
        }
    )


def _sum_phases(phases: Sequence[Phases]) -> Phases:
    return Phases(**{name: sum(getattr(each, name) for each in phases) for name in Phases.model_fields})


def _join_timings(timings: Sequence[Timing]) -> Timing:
    # NumPy and SciPy, which a run of single rounds spares
    from accelbench.profiling.timing.statistics import summarize_rounds
    from accelbench.profiling.timing.steady import join_rounds

    first = timings[0]
    batches = [timing.batch for timing in timings if timing.batch is not None]
    clocks = [timing.sm_clock for timing in timings if timing.sm_clock]
    steady = [timing.steady for timing in timings if timing.steady]
    thirds = [timing.sm_clock_first_last for timing in timings if timing.sm_clock_first_last]
    return first.model_copy(
        update={
            "samples": [sample for timing in timings for sample in timing.samples],
            "loops": max(timing.loops for timing in timings),
            "stop": min((timing.stop for timing in timings), key=WEAKEST_FIRST.index),
            "batch": median(batches) if batches else None,
            "steady": join_rounds(steady) if steady else None,
            "discarded": sum(timing.discarded for timing in timings),
            "sm_clock": _join_gauges(clocks) if clocks else None,
            "sm_clock_first_last": (thirds[0][0], thirds[-1][1]) if thirds else None,
            "summary": summarize_rounds([timing.samples for timing in timings]),
        }
    )


def _join_gauges(gauges: Sequence[Gauge]) -> Gauge:
    return Gauge(
        minimum=min(gauge.minimum for gauge in gauges),
        median=median(gauge.median for gauge in gauges),
        maximum=max(gauge.maximum for gauge in gauges),
        unit=gauges[0].unit,
    )


def _join_metrics(rounds: Sequence[Mapping[str, Metric]], qualities: Sequence[Quality] = ()) -> dict[str, Metric]:
    """Return the median of each metric over the rounds that have it; of what is the worst of something, the worst."""
    worst = {each.name: quality.worst_of for quality in qualities for each in quality.worst}
    metrics: dict[str, list[Metric]] = {}
    for found in rounds:
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
    counters = {name: None for telemetry in telemetries for name in telemetry.counters}
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
    """Return each disturbance once, with the numbers of the rounds that it was seen in."""
    seen: dict[str, list[int]] = {}
    for number, flags in noise.items():
        for flag in flags:
            seen.setdefault(flag, []).append(number)
    return [f"{_rounds(numbers)}: {flag}" for flag, numbers in seen.items()]


def _rounds(numbers: Sequence[int]) -> str:
    """Return these rounds in words: `round 2`, `rounds 1, 2 and 4`."""
    *others, last = map(str, numbers)
    return f"rounds {', '.join(others)} and {last}" if others else f"round {last}"


def _join_ranks(rounds: Sequence[Record]) -> list[RankRecord]:
    """Return the ranks of the first round, with their noise and their metrics over all rounds."""
    joined = []
    for rank in rounds[0].ranks:
        same = {record.round: other for record in rounds for other in record.ranks if other.rank == rank.rank}
        noise = _join_noise({number: other.noise for number, other in same.items()})
        metrics = _join_metrics([other.metrics for other in same.values()])
        joined.append(rank.model_copy(update={"noise": noise, "metrics": metrics}))
    return joined
