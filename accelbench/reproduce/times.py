"""Ratios of times, with the intervals of `accelbench.compare`: of a training's steady step, or of one execution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accelbench.compare.change import Change, compare_point
from accelbench.compare.runs import EQUIVALENCE
from accelbench.format import digits
from accelbench.reproduce.evidence import Evidence, Seen, by_machine, by_setting, unlike
from accelbench.reproduce.points import Points, value_of
from accelbench.reproduce.verdict import CannotTell, Part
from profiling.records.record import Record
from profiling.timing.statistics import Estimate


@dataclass(frozen=True)
class Pair:
    """The same point on two devices or hosts: the time of the first is divided by that of the second."""

    shared: str
    """What both share besides the value of a swept axis, in words."""
    over: tuple[Seen, ...]
    """The runs of the point whose time is divided, all of one machine."""
    under: tuple[Seen, ...]
    """The runs of the point by whose time it is divided, all of one machine."""
    axis: str | None = None
    """The swept axis, where there is one."""
    at: int | None = None
    """The value of the swept axis."""

    @property
    def name(self) -> str:
        """Return what both share, in words."""
        return f"{self.shared} {self.axis}={self.at}" if self.axis else self.shared

    @property
    def devices(self) -> str:
        """Return both devices in words: `cpu ÷ gpu`."""
        return f"{self.over[0].record.point.device} ÷ {self.under[0].record.point.device}"

    def change(self) -> Change:
        """Return the comparison of both times; `CannotTell` where seeds differ or samples are too few."""
        seeds = sorted({seen.record.point.seed for seen in (*self.over, *self.under)})
        if len(seeds) > 1:
            raise CannotTell("other seeds", f"{self.name} was measured with other seeds: {', '.join(map(str, seeds))}")
        over, under = ([timed(seen.record) for seen in side] for side in (self.over, self.under))
        change = compare_point(over, under, EQUIVALENCE, even_if_disturbed=True)
        if change.evidence is None:
            raise CannotTell("too few samples", f"{self.name}: {change.reason}")
        return change

    def ratio(self) -> Estimate:
        """Return the ratio of the times with its interval; raises what `change` does."""
        evidence = self.change().evidence
        assert evidence is not None
        return evidence.speed

    def part(self, least: float = 1.0) -> Part:
        """Return whether the ratio is above that least one."""
        try:
            ratio = self.ratio()
        except CannotTell as found:
            return found.part()
        return above(ratio, least, f"{self.name}, {self.devices}")


def timed(record: Record) -> Record:
    """Return the record without its work, so that the time of an execution is compared and not the rate."""
    return record.model_copy(update={"work": None, "figure": "time"})


def above(ratio: Estimate, least: float, name: str) -> Part:
    """Return whether a ratio is above the least, which its whole interval has to be, or has to be below it."""
    holds = True if ratio.low > least else False if ratio.high < least else None
    figure = in_words(ratio)
    why = f"the interval {digits(ratio.low)}–{digits(ratio.high)} holds {digits(least)}: more rounds or runs narrow it"
    return Part(f"{name}: {figure}", holds, figure, why=why)


def in_words(ratio: Estimate) -> str:
    """Return a ratio with its interval: `× 8.30 (7.10–9.60)`."""
    return f"× {digits(ratio.value)} ({digits(ratio.low)}–{digits(ratio.high)})"


def divided(a: Estimate, b: Estimate) -> Estimate:
    """Return the quotient of two estimates, from the worst to the best of both intervals."""
    return Estimate(a.low / b.high, a.high / b.low, min(a.confidence, b.confidence), a.value / b.value)


def pairs(points: Points, evidence: Evidence) -> tuple[list[Pair], list[str]]:
    """Return every point that was measured on the first device and on another, and notes on devices that are missing.

    Each machine of the first device is paired with each of the other. `CannotTell` where there is no pair: before all
    else because no run has the other device, whatever disturbed the first.
    """
    first, *others = points.devices
    found: list[Pair] = []
    missing: list[CannotTell] = []
    for device in others:
        try:
            under = evidence.find(points, device)
            found += matched(points, evidence.find(points, first), under)
        except CannotTell as why:
            missing.append(why)
    if not found:
        raise missing[0]
    return found, [why.why for why in missing]


def matched(points: Points, over: Sequence[Seen], under: Sequence[Seen]) -> list[Pair]:
    """Return the points that both sides have, by machine; `CannotTell` where they have none in common."""
    sides = [_by_point(points, side) for side in (over, under)]
    several = any(len(by_machine(side)) > 1 for side in (over, under))
    found = [
        Pair(
            " ".join(setting) + (f" ({machine_a} ÷ {machine_b})" if several else ""),
            tuple(a),
            tuple(b),
            points.swept,
            at,
        )
        for (setting, at), many in sides[0].items()
        for machine_a, a in by_machine(many).items()
        for machine_b, b in by_machine(sides[1].get((setting, at), [])).items()
    ]
    if not found:
        raise unlike(over, under, points)
    return found


def _by_point(points: Points, found: Sequence[Seen]) -> dict[tuple[tuple[str, ...], int | None], list[Seen]]:
    by: dict[tuple[tuple[str, ...], int | None], list[Seen]] = {}
    for setting, many in by_setting(found, points).items():
        for seen in many:
            at = value_of(seen.record.point, points.swept) if points.swept else None
            by.setdefault((setting, at if isinstance(at, int) else None), []).append(seen)
    return by


@dataclass(frozen=True)
class Sweep:
    """The points of one machine that differ in the swept axis alone, in the order of its values."""

    name: str
    points: dict[int, tuple[Seen, ...]]

    def pair(self, over: int, under: int) -> Pair:
        """Return the time at one value over that at another."""
        return Pair(f"{self.name}, {over} over {under}", self.points[over], self.points[under])


def sweeps(points: Points, found: Sequence[Seen]) -> Iterator[Sweep]:
    """Yield the sweeps among these points, one for each machine, device and choice of the other axes."""
    for setting, many in by_setting(found, points).items():
        for same in by_machine(many).values():
            values: dict[int, list[Seen]] = {}
            for seen in same:
                value = value_of(seen.record.point, points.swept or "")
                if isinstance(value, int) and value > 0:
                    values.setdefault(value, []).append(seen)
            name = f"{' '.join(setting)} on {same[0].record.point.device}"
            yield Sweep(name, {value: tuple(values[value]) for value in sorted(values)})
