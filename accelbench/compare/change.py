"""Comparison of one point on two sides: B is faster than A, slower, the same, or the result is inconclusive.

A side is one or several runs. If all of them are noisy, the result is inconclusive. A noisy run among quiet ones is
left out, unless the point is compared by its fastest samples, which noise hardly affects. Measured on pairs of three
runs, a third of them noisy: with the noisy runs, 3 of 96 points of the same code were called different and 10 % more
work was detected at 31 of 56 points; without them, these were 2 of 96 and 10 of 56.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import fmean
from typing import Literal

from accelbench.compare.evidence import (
    ROUNDED_CONFIDENCE,
    Evidence,
    from_processes,
    from_repetitions,
    with_assumed_spread,
    with_history,
    with_memory_drift,
)
from accelbench.compare.placements import from_placements
from accelbench.history.spread import Spread
from accelbench.output.format import percent
from accelbench.profiling.analysis.cost import by_fastest, cost, costs_of_processes, execution_seconds
from accelbench.profiling.analysis.course import course_of, disturbances
from accelbench.profiling.analysis.roofline import core_kind
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import MainMetric
from accelbench.profiling.timing.statistics import CONFIDENCE, Estimate

SpeedVerdict = Literal["slower", "faster", "same", "inconclusive"]

CLOCK_TOLERANCE = 0.03


@dataclass(frozen=True)
class PastSpeeds:
    """Speeds of a point in past runs on the machines of A and of B."""

    spreads: tuple[Spread | None, Spread | None] = (None, None)
    """Spread between past runs on A's machine and on B's machine, each None if unknown."""
    costs: Sequence[float] = ()
    """Cost of each past process, if A and B are of one machine."""


@dataclass(frozen=True)
class ComparedResults:
    """Compared results of A and B, the operands of the speed ratio: rates, or times if the unit is `s`.

    CPU kernels are compared by their fastest samples instead of medians (see `accelbench.profiling.analysis.cost`).
    """

    a: float
    b: float
    unit: str


@dataclass(frozen=True)
class PointChange:
    """Change of one point between the sides."""

    a: tuple[Record, ...]
    """Records of A that are compared; noisy ones only if there are no others."""
    b: tuple[Record, ...]
    """Records of B that are compared."""
    verdict: SpeedVerdict
    reason: str | None
    """Reason for an inconclusive verdict; None for any other."""
    evidence: Evidence | None
    """Ratio of the speeds with its interval; None if the records have too few samples."""
    only_noisy: bool
    """Whether all runs of a side are noisy, which makes the verdict inconclusive."""
    notes: tuple[str, ...]
    """Caveats: assumptions, noise, different clocks, different work."""
    qualities: dict[str, tuple[Metric, Metric]]
    """Means in A and in B of the metrics of the trained model's quality."""
    compared: ComparedResults | None
    """Compared results; None without evidence, or if the speed combines several ratios."""
    p: float
    """The p value of equal speeds, adjusted for the number of compared points; 1 without evidence."""

    @property
    def point(self) -> str:
        return str(self.a[0].point)

    def is_slower_by(self, share: float, confidence: float) -> bool:
        """Return whether B lost at least `share` of the speed and is significantly slower at that confidence."""
        if self.evidence is None or self.evidence.undecided or self.only_noisy:
            return False
        return self.evidence.shift <= log(1 - share) and self.evidence.shift < 0 and self.p <= 1 - confidence


def compare_point(
    a: Sequence[Record],
    b: Sequence[Record],
    equivalence: float,
    past: PastSpeeds | None = None,
    include_noisy: bool = False,
    virtual: bool = False,
) -> PointChange:
    """Return the change of speed between the measured records of one point on side A and on side B.

    `virtual` is whether one of the machines is a virtual one, on which other guests share the memory.
    """
    kept_a, noise_a, only_noisy_a = _usable("A", a, include_noisy)
    kept_b, noise_b, only_noisy_b = _usable("B", b, include_noisy)
    only_noisy = bool(only_noisy_a or only_noisy_b)
    evidence, reason = _evidence(kept_a, kept_b, past or PastSpeeds())
    if evidence and virtual and _memory_drifts(kept_a, kept_b):
        evidence = with_memory_drift(evidence)
    verdict: SpeedVerdict = "inconclusive"
    if evidence and evidence.undecided:
        reason = evidence.undecided
    elif evidence:
        verdict, reason = judge(evidence.speed, equivalence)
        if evidence.error == 0 and verdict in ("faster", "slower"):
            verdict, reason = "inconclusive", f"B looks {verdict}, but all results of a side are identical"
    if only_noisy:
        verdict, reason = "inconclusive", "; ".join(filter(None, [only_noisy_a, only_noisy_b]))
    assumed = [evidence.assumption] if evidence and evidence.assumption else []
    notes = (*assumed, *noise_a, *noise_b, *_notes(kept_a[0], kept_b[0]))
    p = evidence.p if evidence else 1.0
    qualities, compared = _qualities(kept_a, kept_b), _compared(kept_a, kept_b, evidence)
    return PointChange(kept_a, kept_b, verdict, reason, evidence, only_noisy, notes, qualities, compared, p)


def adjusted(changes: Sequence[PointChange]) -> list[PointChange]:
    """Return the changes with their p values adjusted for their number; differences that chance explains are dropped.

    Of the same code, 5 % of single points may be called different, and of twenty points one. The adjustment bounds the
    expected share of wrong ones among all differences: Benjamini & Hochberg, "Controlling the false discovery rate",
    J. R. Statist. Soc. B 57 (1995). Points without a possible verdict do not count.
    """
    judged = [change for change in changes if change.evidence and not (change.evidence.undecided or change.only_noisy)]
    found, largest = {}, 1.0
    for rank, change in reversed([*enumerate(sorted(judged, key=lambda change: change.p), start=1)]):
        largest = min(largest, change.p * len(judged) / rank)
        found[change.point] = largest
    return [_by_chance(replace(change, p=found.get(change.point, change.p)), len(judged)) for change in changes]


def _by_chance(change: PointChange, count: int) -> PointChange:
    """Return an inconclusive change in place of a difference that is not significant among `count` points."""
    if change.verdict not in ("faster", "slower") or change.p <= 1 - CONFIDENCE:
        return change
    reason = f"{change.verdict}, but one of {count} points may be so by chance"
    return replace(change, verdict="inconclusive", reason=reason)


def judge(speed: Estimate, equivalence: float) -> tuple[SpeedVerdict, str | None]:
    """Return the verdict on B's speed relative to A's, and the reason if it is inconclusive.

    `same`: the interval lies within the equivalence band. `faster` or `slower`: the interval excludes 1, and the ratio
    lies outside the band.
    """
    least, most = same_band(equivalence)
    if least <= speed.low and speed.high <= most:
        return "same", None
    if speed.low <= 1 <= speed.high:
        return "inconclusive", "the interval includes both slower and faster"
    side: SpeedVerdict = "slower" if speed.high < 1 else "faster"
    if least <= speed.value <= most:
        return "inconclusive", f"{side}, but the ratio is within the equivalence of {percent(equivalence)}"
    return side, None


def same_band(equivalence: float) -> tuple[float, float]:
    """Return the lowest and the highest ratio that count as the same; each is the inverse of the other."""
    return 1 - equivalence, 1 / (1 - equivalence)


def _usable(
    name: str, records: Sequence[Record], include_noisy: bool
) -> tuple[tuple[Record, ...], list[str], str | None]:
    """Return the records to compare, notes on noise, and the reason for no verdict if all records are noisy."""
    numbered = [f"{name}{number}" if len(records) > 1 else name for number in range(1, len(records) + 1)]
    found = {which: _noise(record) for which, record in zip(numbered, records, strict=True)}
    quiet = tuple(record for record, flags in zip(records, found.values(), strict=True) if not flags)
    noisy = [f"{which} is noisy: {'; '.join(flags)}" for which, flags in found.items() if flags]
    if include_noisy or not noisy:
        return tuple(records), noisy, None
    if not quiet:
        return tuple(records), noisy, f"{name} is noisy"
    if all(record.timing and by_fastest(record.timing) and not record.timing.upper_bound for record in records):
        return tuple(records), noisy, None
    return quiet, [f"{note}; left out" for note in noisy], None


def _noise(record: Record) -> list[str]:
    """Return the disturbances of a record, except two speeds of its processes, which are compared by placement."""
    course = course_of(record)
    return record.noise if course.between_processes else disturbances(record, course)


def _evidence(a: Sequence[Record], b: Sequence[Record], past: PastSpeeds) -> tuple[Evidence | None, str | None]:
    """Return the evidence from the highest level that was repeated, or None and the reason."""
    if kinds := _different_cores(a, b):
        return None, kinds
    costs_a, costs_b = _costs(a, b)
    if len(costs_a) < len(a) or len(costs_b) < len(b):
        return None, "a record has no usable samples"
    processes_a, processes_b = (
        [costs_of_processes(record, whole) for record, whole in zip(side, costs, strict=True)]
        for side, costs in ((a, costs_a), (b, costs_b))
    )
    runs = from_repetitions(costs_a, costs_b, "runs", past.spreads)
    if runs:
        return _placed(runs, from_placements(processes_a, processes_b, past.costs)), None
    (of_a,), (of_b,) = processes_a, processes_b
    repetitions = from_repetitions(of_a, of_b, "repetitions of one run each") if min(len(of_a), len(of_b)) > 1 else None
    if repetitions is None:
        timings = [record.timing for record in (*a, *b) if record.timing]
        if min(timing.execution.confidence for timing in timings) < ROUNDED_CONFIDENCE:
            counts = " and ".join(str(timing.summary.count) for timing in timings)
            return None, f"too few samples ({counts}) for a {CONFIDENCE:.0%} interval"
        return from_processes(costs_a[0], costs_b[0]), None
    placements = from_placements([[each] for each in of_a], [[each] for each in of_b], past.costs)
    evidence = _placed(repetitions, placements)
    normal_a, normal_b = past.spreads
    if normal_a and normal_b:
        return with_history(evidence, normal_a, normal_b), None
    return with_assumed_spread(evidence, "runs"), None


def _memory_drifts(a: Sequence[Record], b: Sequence[Record]) -> bool:
    """Return whether a point is bounded by the host's memory, and all of several runs of a side precede the other's."""
    if min(len(a), len(b)) < 2 or a[0].point.device != "cpu" or a[0].bound.resource != "memory":
        return False
    times_a, times_b = ([record.started for record in side] for side in (a, b))
    return max(times_a) <= min(times_b) or max(times_b) <= min(times_a)


def _different_cores(a: Sequence[Record], b: Sequence[Record]) -> str | None:
    """Return the kinds of core as text if points of one core ran on different kinds; else None."""
    in_a, in_b = ({core_kind(record) for record in side} for side in (a, b))
    if len(in_a | in_b) < 2:
        return None
    names_a, names_b = (", ".join(sorted(kind or "an unknown kind" for kind in side)) for side in (in_a, in_b))
    return f"A ran on one core of {names_a}, B on one of {names_b}: use taskset to select CPUs of the same kind"


def _placed(evidence: Evidence, placements: Evidence | str | None) -> Evidence:
    """Return the evidence by placement if the processes have two speeds; else the other evidence."""
    return replace(evidence, undecided=placements) if isinstance(placements, str) else placements or evidence


def _costs(a: Sequence[Record], b: Sequence[Record]) -> tuple[list[float], list[float]]:
    """Return the known costs of both sides: seconds per unit of work, or per execution if some work is unknown."""
    metric, rated = a[0].figure, _by_rate(a, b)
    found = [[cost(record, metric) if rated else execution_seconds(record) for record in side] for side in (a, b)]
    costs_a, costs_b = ([seconds for seconds in side if seconds is not None] for side in found)
    return costs_a, costs_b


def _by_rate(a: Sequence[Record], b: Sequence[Record]) -> bool:
    """Return whether the work of all records is known, or of none, so that their costs per unit are comparable."""
    metric, every = a[0].figure, (*a, *b)
    return all(cost(record, metric) for record in every) and len({_counts_work(r, metric) for r in every}) == 1


def _compared(a: Sequence[Record], b: Sequence[Record], evidence: Evidence | None) -> ComparedResults | None:
    if evidence is None or evidence.costs is None:
        return None
    of_a, of_b = evidence.costs
    if a[0].figure == "time" or not _by_rate(a, b):
        return ComparedResults(of_a, of_b, "s")
    return ComparedResults(1 / of_a, 1 / of_b, a[0].unit)


def _counts_work(record: Record, metric: MainMetric) -> bool:
    return record.work is not None and bool(record.work.items if metric == "time" else record.work.amount(metric))


def _notes(a: Record, b: Record) -> Iterator[str]:
    work_a, work_b = _amount(a, a.figure), _amount(b, a.figure)
    if work_a and work_b and work_a != work_b:
        yield f"rates are compared: one execution is {work_a:.4g} {a.figure} in A and {work_b:.4g} in B"
    elif bool(work_a) != bool(work_b):
        yield "times are compared: the work of one execution is known on one side only"
    if a.timing and b.timing and a.timing.timer != b.timing.timer:
        yield f"timed by {a.timing.timer} in A and by {b.timing.timer} in B"
    gauges_a, gauges_b = (r.telemetry.gauges if r.telemetry else {} for r in (a, b))
    for name in sorted(gauges_a.keys() & gauges_b.keys()):
        clock_a, clock_b = gauges_a[name], gauges_b[name]
        apart = abs(clock_a.median - clock_b.median) > CLOCK_TOLERANCE * max(clock_a.median, clock_b.median)
        if name.endswith("clock") and apart:
            yield f"{name} was {clock_a.median:.4g} {clock_a.unit} in A and {clock_b.median:.4g} {clock_b.unit} in B"


def _amount(record: Record, metric: MainMetric) -> float | None:
    """Return the flops, bytes or items of one execution; None if the metric is a time or the work is unknown."""
    return record.work.amount(metric) if record.work and metric != "time" else None


def _qualities(a: Sequence[Record], b: Sequence[Record]) -> dict[str, tuple[Metric, Metric]]:
    """Return the means in A and in B of each declared quality metric that all records have."""
    names = [quality.name for quality in a[0].qualities]
    shared = [name for name in names if all(name in record.metrics for record in (*a, *b))]
    return {name: (_mean(a, name), _mean(b, name)) for name in shared}


def _mean(records: Sequence[Record], name: str) -> Metric:
    metrics = [record.metrics[name] for record in records]
    return Metric(fmean(metric.value for metric in metrics), metrics[0].unit)
