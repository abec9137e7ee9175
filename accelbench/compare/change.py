"""The comparison of one point on two sides: B is faster or slower than A, the same, or it cannot be told.

A side is one run or several. Where all of them were disturbed they decide nothing. A disturbed run among others is left
out, unless the point is compared by its fastest samples, which are hardly touched by it: then it counts as any does. On
pairs of three runs of the same code, a third of them disturbed, that called 3 of 96 points different, and leaving them
out 2; a tenth more work was found at 31 of 56 points, and at 10 without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean
from typing import Literal

from accelbench.compare.evidence import (
    Evidence,
    from_intervals,
    from_repetitions,
    with_assumed_spread,
    with_history,
)
from accelbench.history.spread import Spread
from accelbench.output.format import percent
from accelbench.profiling.analysis.cost import by_fastest, cost, costs_of_rounds, execution_seconds
from accelbench.profiling.analysis.course import disturbances
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Figure
from accelbench.profiling.timing.statistics import CONFIDENCE, Estimate

SpeedVerdict = Literal["slower", "faster", "same", "cannot tell"]

CLOCK_TOLERANCE = 0.03


@dataclass(frozen=True)
class PointChange:
    """Change of one point between the sides."""

    a: tuple[Record, ...]
    """The records of A that decide; disturbed ones where there are no others."""
    b: tuple[Record, ...]
    """The records of B that decide."""
    verdict: SpeedVerdict
    reason: str | None
    """The reason why it cannot be told; None where it can."""
    evidence: Evidence | None
    """The ratio of the speeds and its interval; None where the records do not tell."""
    barred: bool
    """Whether a side was disturbed, so that nothing is decided, however clear it looks."""
    notes: tuple[str, ...]
    """The circumstances to keep in mind: what is not known, noise, other clocks, other work."""
    qualities: dict[str, tuple[Metric, Metric]]
    """The metrics that say how good the trained model is, by their means in A and in B."""

    @property
    def point(self) -> str:
        return str(self.a[0].point)

    def is_slower_by(self, share: float, confidence: float) -> bool:
        """Tell whether B lost at least that share of the speed, and any of it beyond doubt of that confidence."""
        if self.evidence is None or self.barred:
            return False
        speed = self.evidence.speed_at(confidence)
        return speed.value <= 1 - share and speed.high < 1


def compare_point(
    a: Sequence[Record],
    b: Sequence[Record],
    equivalence: float,
    normal: tuple[Spread | None, Spread | None] = (None, None),
    even_if_disturbed: bool = False,
) -> PointChange:
    """Return how the speed changed between measured records of the same point, those of A and those of B.

    `normal` is the spread of the point from run to run on the machine of A, and on that of B, where it is known.
    """
    kept_a, told_a, only_disturbed_a = _undisturbed("A", a, even_if_disturbed)
    kept_b, told_b, only_disturbed_b = _undisturbed("B", b, even_if_disturbed)
    barred = bool(only_disturbed_a or only_disturbed_b)
    evidence, reason = _evidence(kept_a, kept_b, normal)
    verdict: SpeedVerdict = "cannot tell"
    if evidence:
        verdict, reason = judge(evidence.speed, equivalence)
        if evidence.error == 0 and verdict in ("faster", "slower"):
            verdict, reason = "cannot tell", f"it looks {verdict}, but no two figures of a side differ by anything"
    if barred:
        verdict, reason = "cannot tell", "; ".join(filter(None, [only_disturbed_a, only_disturbed_b]))
    unknown = [evidence.unknown] if evidence and evidence.unknown else []
    notes = (*unknown, *told_a, *told_b, *_notes(kept_a[0], kept_b[0]))
    return PointChange(kept_a, kept_b, verdict, reason, evidence, barred, notes, _qualities(kept_a, kept_b))


def judge(speed: Estimate, equivalence: float) -> tuple[SpeedVerdict, str | None]:
    """Return the verdict on the speed of B over that of A, and the reason where it cannot be told.

    The same: the interval lies within the band of what counts as the same. Faster or slower: the interval lies on one
    side of 1, and the ratio is outside that band.
    """
    least, most = same_band(equivalence)
    if least <= speed.low and speed.high <= most:
        return "same", None
    if speed.low <= 1 <= speed.high:
        return "cannot tell", "the interval reaches from slower to faster"
    side: SpeedVerdict = "slower" if speed.high < 1 else "faster"
    if least <= speed.value <= most:
        return "cannot tell", f"{side}, but perhaps by no more than the {percent(equivalence)} that count as the same"
    return side, None


def same_band(equivalence: float) -> tuple[float, float]:
    """Return the least and the greatest ratio that count as the same: one band, seen from either side."""
    return 1 - equivalence, 1 / (1 - equivalence)


def _undisturbed(
    name: str, records: Sequence[Record], even_if_disturbed: bool
) -> tuple[tuple[Record, ...], list[str], str | None]:
    """Return the records that decide, notes on disturbances, and the reason why nothing is decided if all have some."""
    numbered = [f"{name}{number}" if len(records) > 1 else name for number in range(1, len(records) + 1)]
    found = {which: disturbances(record) for which, record in zip(numbered, records, strict=True)}
    quiet = tuple(record for record, flags in zip(records, found.values(), strict=True) if not flags)
    disturbed = [f"{which} is disturbed: {'; '.join(flags)}" for which, flags in found.items() if flags]
    if even_if_disturbed or not disturbed:
        return tuple(records), disturbed, None
    if not quiet:
        return tuple(records), disturbed, f"{name} was disturbed"
    if all(record.timing and by_fastest(record.timing) for record in records):
        return tuple(records), disturbed, None
    return quiet, [f"{note}; it is left out" for note in disturbed], None


def _evidence(
    a: Sequence[Record], b: Sequence[Record], normal: tuple[Spread | None, Spread | None]
) -> tuple[Evidence | None, str | None]:
    """Return what the records tell, by the highest level that was repeated, or the reason why they tell nothing."""
    costs_a, costs_b = _costs(a, b)
    if len(costs_a) < len(a) or len(costs_b) < len(b):
        return None, "a record without usable samples"
    if evidence := from_repetitions(costs_a, costs_b, "runs", normal):
        return evidence, None
    rounds_a, rounds_b = costs_of_rounds(a[0], costs_a[0]), costs_of_rounds(b[0], costs_b[0])
    repeated = len(rounds_a) > 1 and len(rounds_b) > 1
    if repeated:
        evidence = from_repetitions(rounds_a, rounds_b, "rounds of one run each")
    else:
        evidence = from_intervals(a[0], b[0], log(costs_a[0] / costs_b[0]))
    if evidence is None:
        counts = " and ".join(str(side[0].timing.summary.count) for side in (a, b) if side[0].timing)
        return None, f"too few samples ({counts}) for an interval that covers {CONFIDENCE:.0%}"
    normal_a, normal_b = normal
    if normal_a and normal_b:
        return with_history(evidence, normal_a, normal_b), None
    return with_assumed_spread(evidence, "runs" if repeated else "processes"), None


def _costs(a: Sequence[Record], b: Sequence[Record]) -> tuple[list[float], list[float]]:
    """Return the costs of both sides, without those that are not known.

    They are the seconds per unit of work, or per execution where not all records know their work.
    """
    figure = a[0].figure
    rated = all(cost(record, figure) for record in (*a, *b)) and len({_counts_work(r, figure) for r in (*a, *b)}) == 1
    found = [[cost(record, figure) if rated else execution_seconds(record) for record in side] for side in (a, b)]
    costs_a, costs_b = ([seconds for seconds in side if seconds is not None] for side in found)
    return costs_a, costs_b


def _counts_work(record: Record, figure: Figure) -> bool:
    return record.work is not None and bool(record.work.items if figure == "time" else record.work.amount(figure))


def _notes(a: Record, b: Record) -> Iterator[str]:
    work_a, work_b = _amount(a, a.figure), _amount(b, a.figure)
    if work_a and work_b and work_a != work_b:
        yield f"one execution is {work_a:.4g} {a.figure} in A and {work_b:.4g} in B, so the rates are compared"
    elif bool(work_a) != bool(work_b):
        yield "the work of one execution is known on one side only, so the times are compared as they are"
    if a.timing and b.timing and a.timing.timer != b.timing.timer:
        yield f"timed by {a.timing.timer} in A and by {b.timing.timer} in B"
    gauges_a, gauges_b = (r.telemetry.gauges if r.telemetry else {} for r in (a, b))
    for name in sorted(gauges_a.keys() & gauges_b.keys()):
        clock_a, clock_b = gauges_a[name], gauges_b[name]
        apart = abs(clock_a.median - clock_b.median) > CLOCK_TOLERANCE * max(clock_a.median, clock_b.median)
        if name.endswith("clock") and apart:
            yield f"{name} was {clock_a.median:.4g} {clock_a.unit} in A and {clock_b.median:.4g} {clock_b.unit} in B"


def _amount(record: Record, figure: Figure) -> float | None:
    """Return the flops, bytes or items that one execution is rated by; None of a time, or where they are unknown."""
    return record.work.amount(figure) if record.work and figure != "time" else None


def _qualities(a: Sequence[Record], b: Sequence[Record]) -> dict[str, tuple[Metric, Metric]]:
    """Return the mean of each declared quality that all records have, in A and in B."""
    names = [quality.name for quality in a[0].qualities]
    shared = [name for name in names if all(name in record.metrics for record in (*a, *b))]
    return {name: (_mean(a, name), _mean(b, name)) for name in shared}


def _mean(records: Sequence[Record], name: str) -> Metric:
    metrics = [record.metrics[name] for record in records]
    return Metric(fmean(metric.value for metric in metrics), metrics[0].unit)
