"""Rules about one device's time along a swept axis: its slope, whether it rises, and by how much between two values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Literal

from accelbench.format import digits
from accelbench.reproduce.evidence import Evidence, Seen
from accelbench.reproduce.points import Points
from accelbench.reproduce.rules.rule import ONE, Rule
from accelbench.reproduce.times import Sweep, above, sweeps
from accelbench.reproduce.verdict import CannotTell, Finding, Part, decided
from profiling.timing.statistics import Interval


class Steeper(Rule):
    """The time grows faster above a value of the swept axis than below it, by the slopes in logarithms."""

    takes = ONE
    needs_swept = True
    name: Literal["steeper"]
    above: int
    """The value from which on the time is to grow faster."""

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge both slopes of each sweep: from the least value to this one, and from this one to the most."""
        (points,) = asked
        swept = [sweep for sweep in _sweeps(asked, evidence) if self._reaches_over(sweep)]
        if not swept:
            raise CannotTell("no such point", f"no sweep of {points.swept} has {self.above} and values on both sides")
        return decided([self._part(sweep) for sweep in swept], f"the time grows faster from {self.above} on")

    def _reaches_over(self, sweep: Sweep) -> bool:
        return self.above in sweep.points and min(sweep.points) < self.above < max(sweep.points)

    def _part(self, sweep: Sweep) -> Part:
        least, most = min(sweep.points), max(sweep.points)
        try:
            below, over = slope(sweep, least, self.above), slope(sweep, self.above, most)
        except CannotTell as found:
            return found.part()
        figure = f"slope {_middle(below):.2f} below, {_middle(over):.2f} above"
        ends = f"{below.low:.2f} to {below.high:.2f} and {over.low:.2f} to {over.high:.2f}"
        text = f"{sweep.name}: {figure} (intervals {ends}, from {least} to {most})"
        holds = True if over.low > below.high else False if over.high < below.low else None
        return Part(text, holds, figure, why=f"the slopes' intervals {ends} overlap")


class Rises(Rule):
    """The time rises along the swept axis: it is longer at the end, and at no value shorter than at the one before."""

    needs_swept = True
    name: Literal["rises"]

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge each sweep of each benchmark that was measured."""
        parts: list[Part] = []
        missing: list[CannotTell] = []
        for points in asked:
            try:
                swept = [sweep for sweep in _sweeps((points,), evidence) if len(sweep.points) > 1]
                if not swept:
                    raise CannotTell("no such point", f"no such point in these runs: {points}")
                parts += [self._part(sweep, points) for sweep in swept]
            except CannotTell as found:
                missing.append(found)
        notes = [found.why for found in missing]
        if not parts:
            raise CannotTell(missing[0].reason, "; ".join(dict.fromkeys(notes)))
        return decided(parts, "the time rises with the parameters", notes)

    @staticmethod
    def _part(sweep: Sweep, points: Points) -> Part:
        values = list(sweep.points)
        try:
            whole = sweep.pair(values[-1], values[0]).ratio()
            steps = [sweep.pair(after, before).ratio() for before, after in itertools.pairwise(values)]
        except CannotTell as found:
            return found.part()
        part = above(whole, 1.0, f"{sweep.name}, {points.swept} {values[-1]} over {values[0]}")
        if any(step.high < 1 for step in steps):
            return Part(f"{part.text}; it falls on the way", False, part.figure)
        return part


class Between(Rule):
    """The time at one value of the swept axis is at most so many times that at another."""

    takes = ONE
    needs_swept = True
    name: Literal["between"]
    over: int
    """The value whose time is divided."""
    under: int
    at_most: float

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge each sweep that has both values."""
        (points,) = asked
        parts = []
        for sweep in _sweeps(asked, evidence):
            if {self.over, self.under} <= sweep.points.keys():
                ratio = sweep.pair(self.over, self.under).ratio()
                part = above(ratio, self.at_most, f"{sweep.name}, {points.swept} {self.over} over {self.under}")
                holds = None if part.holds is None else not part.holds
                parts.append(replace(part, holds=holds))
        if not parts:
            wanted = f"{points.swept} {self.over} and {self.under}"
            raise CannotTell("no such point", f"no such points in these runs: {points.benchmark} with {wanted}")
        return decided(parts, f"the time is at most {digits(self.at_most)} times as long")


def slope(sweep: Sweep, first: int, last: int) -> Interval:
    """Return the slope of the logarithm of the time over that of the swept value, with its interval."""
    ratio, grown = sweep.pair(last, first).ratio(), log(last / first)
    return Interval(log(ratio.low) / grown, log(ratio.high) / grown, ratio.confidence)


def _middle(of: Interval) -> float:
    return (of.low + of.high) / 2


def _sweeps(asked: Sequence[Points], evidence: Evidence) -> list[Sweep]:
    found: list[Sweep] = []
    for points in asked:
        seen: list[Seen] = evidence.find_on_any(points)
        found += sweeps(points, seen)
    return found
