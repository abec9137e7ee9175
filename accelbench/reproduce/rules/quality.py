"""Rules about how good a trained model is: they need real data and whole trainings."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from typing import Literal

from accelbench.format import digits
from accelbench.reproduce.evidence import Evidence, Seen, by_setting
from accelbench.reproduce.points import Points, value_of
from accelbench.reproduce.rules.rule import ONE, Rule
from accelbench.reproduce.verdict import CannotTell, Finding, Part, decided
from profiling.analysis.uncertain_quality import quality_interval
from profiling.records.point import Scalar
from profiling.records.quality import Quality
from profiling.records.stored import Stored


class WholeData(Stored):
    """The data that a claim about quality is decided on, and how to get it."""

    train: int
    """The number of examples of the published set that are trained on."""
    held_out: int
    get: str
    """The command that fetches it."""


class BestAt(Rule):
    """The best quality is at certain values of some axes, by more than the spread over repeated trainings."""

    takes = ONE
    name: Literal["best-at"]
    at: dict[str, int]
    """The axes, and the values at which the best quality is claimed to be."""
    data: WholeData

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge the best beside the runner-up, wherever all but these axes is equal."""
        (points,) = asked
        found = evidence.find_on_any(points, for_time=False)
        for seen in found:
            _require_whole(seen, self.data)
        parts = [
            self._part(" ".join(setting), many)
            for setting, many in by_setting(found, points, *self.at).items()
            if {self._is_at(seen) for seen in many} == {True, False}
        ]
        if not parts:
            at = ", ".join(f"{axis} {value}" for axis, value in self.at.items())
            raise CannotTell("no such point", f"these runs have no trainings with {at} beside others")
        return decided(parts, "the best quality is there")

    def _is_at(self, seen: Seen) -> bool:
        return all(value_of(seen.record.point, axis) == value for axis, value in self.at.items())

    def _part(self, name: str, many: Sequence[Seen]) -> Part:
        headline = _headline(many[0])
        ranked = sorted(many, key=lambda seen: -(_metric(seen, headline.name) or 0.0))
        claimed = next(seen for seen in ranked if self._is_at(seen))
        rival = next(seen for seen in ranked if not self._is_at(seen))
        (mine, mine_sd), (other, other_sd) = (
            (_metric(seen, headline.name) or 0.0, _metric(seen, headline.deviation)) for seen in (claimed, rival)
        )
        figure = f"{digits(mine, 4)} against {digits(other, 4)} at {self._where(rival)}"
        if mine_sd is None or other_sd is None:
            why = "one training tells nothing of the spread"
            return Part(f"{name}: {figure}", None, figure, "too few samples", why)
        apart, spread = abs(mine - other), hypot(mine_sd, other_sd)
        return Part(
            f"{name}: {headline.name} {figure}, spread {spread:.2g}",
            None if apart <= spread else mine > other,
            figure,
            why=f"the best and the next differ by {apart:.2g}, within the spread of {spread:.2g}",
        )

    def _where(self, seen: Seen) -> str:
        values: dict[str, Scalar | None] = {axis: value_of(seen.record.point, axis) for axis in self.at}
        return " ".join(f"{axis}={value}" for axis, value in values.items())


class QualityHolds(Rule):
    """The published quality lies in the interval of ours, by the number of held-out examples."""

    takes = ONE
    name: Literal["quality-holds"]
    quality: float
    """The published quality."""
    get: str
    """How to get real data."""

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge each training on real data."""
        (points,) = asked
        parts = []
        for seen in evidence.find_on_any(points, for_time=False):
            _require_real(seen, self.get)
            quality = _headline(seen)
            ends, value = quality_interval(seen.record, quality), _metric(seen, quality.name)
            if ends is None or value is None:
                raise CannotTell("no such point", f"{quality.name} is no share of held-out examples")
            figure = f"{digits(value)} ({digits(ends[0])}–{digits(ends[1])})"
            parts.append(Part(f"{seen.record.point}: {figure}", ends[0] <= self.quality <= ends[1], figure))
        return decided(parts, f"the interval holds {digits(self.quality)}")


def _require_real(seen: Seen, get: str) -> None:
    """Raise `CannotTell` for data that was drawn by rule: it decides nothing about quality."""
    data = seen.record.data
    if data is None or data.synthetic:
        source = data.source if data else "unknown data"
        raise CannotTell("synthetic data", f"trained on {source}, which says nothing about quality: {get}")


def _require_whole(seen: Seen, wanted: WholeData) -> None:
    """Raise `CannotTell` for other data than the whole published set."""
    _require_real(seen, wanted.get)
    data = seen.record.data
    assert data is not None
    if (data.train, data.held_out) != (wanted.train, wanted.held_out):
        of = f"{data.train:,} + {data.held_out:,} of {data.source}"
        whole = f"{wanted.train:,} + {wanted.held_out:,} that were published"
        raise CannotTell("no real data", f"trained on {of}, not on the {whole}: {wanted.get}")


def _headline(seen: Seen) -> Quality:
    """Return the quality that the benchmark is judged by."""
    found = next((quality for quality in seen.record.qualities if quality.headline), None)
    if found is None:
        raise CannotTell("no such point", f"{seen.record.point.benchmark} declares no quality that it is judged by")
    return found


def _metric(seen: Seen, name: str | None) -> float | None:
    metric = seen.record.metrics.get(name or "")
    return metric.value if metric else None
