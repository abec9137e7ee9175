"""Rules about one device's time over another's: above 1, ordered by groups, growing, crossing 1, or explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from accelbench.format import digits
from accelbench.reproduce.ceilings_apart import ceiling_ratios
from accelbench.reproduce.evidence import Evidence
from accelbench.reproduce.points import Points
from accelbench.reproduce.rules.rule import ONE, Rule
from accelbench.reproduce.times import Pair, above, divided, in_words, pairs
from accelbench.reproduce.verdict import CannotTell, Finding, Part, decided
from profiling.timing.statistics import Estimate


class Slower(Rule):
    """The first device takes longer than each other one: every ratio of times is above 1."""

    devices = 2
    name: Literal["slower"]

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge every point that was measured on both devices."""
        found, notes = all_pairs(asked, evidence)
        parts = [pair.part() for pair in found]
        finding = decided(parts, "the time is longer", notes)
        return replace(finding, evidence=(*finding.evidence, *_beside_ceilings(found, parts)))


class Ordered(Rule):
    """The ratios of one group of points are all below those of the other."""

    devices = 2
    name: Literal["ordered"]
    lower: str
    """The group whose ratios are the lower ones."""
    upper: str

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge the groups on each device by the highest ratio of the lower one and the lowest of the upper one."""
        grouped: dict[str, dict[str, list[tuple[Pair, Estimate]]]] = {}
        notes: list[str] = []
        for points in asked:
            found, more = pairs(points, evidence)
            notes += more
            for pair in found:
                grouped.setdefault(pair.devices, {}).setdefault(points.group, []).append((pair, pair.ratio()))
        both = {devices: groups for devices, groups in grouped.items() if {self.lower, self.upper} <= groups.keys()}
        if not both:
            raise CannotTell("no such point", f"no device has points of both groups: {self.lower} and {self.upper}")
        parts = [self._part(devices, groups[self.lower], groups[self.upper]) for devices, groups in both.items()]
        lines = tuple(
            f"{group}: {pair.name}, {devices}: {in_words(ratio)}"
            for devices, groups in both.items()
            for group, several in groups.items()
            for pair, ratio in several
        )
        finding = decided(parts, f"every ratio of {self.lower} is below every one of {self.upper}", notes)
        return replace(finding, evidence=(*finding.evidence, *lines))

    def _part(self, devices: str, lower: list[tuple[Pair, Estimate]], upper: list[tuple[Pair, Estimate]]) -> Part:
        below, over = [ratio for _, ratio in lower], [ratio for _, ratio in upper]
        figure = f"{_span(below)} / {_span(over)}"
        text = f"{devices}: {self.lower} {_span(below)}, {self.upper} {_span(over)}"
        if max(ratio.high for ratio in below) < min(ratio.low for ratio in over):
            return Part(text, True, figure)
        if min(ratio.low for ratio in below) > max(ratio.high for ratio in over):
            return Part(text, False, figure)
        return Part(text, None, figure, why=f"the ratios of {self.lower} and {self.upper} overlap")


class RatioGrows(Rule):
    """The ratio of times at one value of the swept axis is above that at another."""

    takes = ONE
    devices = 2
    needs_swept = True
    name: Literal["ratio-grows"]
    first: int
    last: int

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge the quotient of both ratios, wherever both were measured."""
        (points,) = asked
        found, notes = pairs(points, evidence)
        parts = []
        for name, course in courses(found).items():
            if {self.first, self.last} <= course.keys():
                first, last = course[self.first].ratio(), course[self.last].ratio()
                part = above(divided(last, first), 1.0, f"{name}, {points.swept} {self.last} over {self.first}")
                figure = f"{in_words(last)}, × {digits(last.value / first.value)} of that at {self.first}"
                parts.append(Part(part.text, part.holds, figure, why=part.why))
        if not parts:
            wanted = f"{points.swept} {self.first} and {self.last} on both sides"
            raise CannotTell("no such point", f"no such points in these runs: {points.benchmark} with {wanted}")
        return decided(parts, f"the ratio at {self.last} is above that at {self.first}", notes)


class Crosses(Rule):
    """The ratio of times rises along the swept axis, from below 1 to above 1."""

    takes = ONE
    devices = 2
    needs_swept = True
    name: Literal["crosses"]

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge the ratios at both ends of each sweep, and their quotient."""
        (points,) = asked
        found, notes = pairs(points, evidence)
        parts = []
        for name, course in courses(found).items():
            if len(course) > 1:
                parts.append(self._part(name, {at: pair.ratio() for at, pair in sorted(course.items())}))
        if not parts:
            raise CannotTell("no such point", f"both devices share one value of {points.swept}, and a course takes two")
        return decided(parts, "the ratio rises and crosses 1", notes)

    @staticmethod
    def _part(name: str, ratios: dict[int, Estimate]) -> Part:
        (least, first), *_, (most, last) = ratios.items()
        figure = f"× {digits(first.value)} at {least}, × {digits(last.value)} at {most}"
        text = f"{name}: " + ", ".join(f"{in_words(ratio)} at {at}" for at, ratio in ratios.items())
        if first.high < 1 < last.low:
            return Part(text, True, figure)
        if last.high < 1 or first.low > 1 or divided(last, first).high < 1:
            return Part(text, False, figure)
        return Part(text, None, figure, why="an end of the course has 1 in its interval")


class Explained(Rule):
    """The ratio of times is no more than the larger of the ratios of both devices' ceilings, which proves nothing."""

    devices = 2
    name: Literal["explained"]

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Say whether the ratios agree with the ceilings; that is never a verdict."""
        found, notes = all_pairs(asked, evidence)
        lines: list[str] = []
        within: list[bool] = []
        for pair in found:
            ratio, of_ceilings = pair.ratio(), ceiling_ratios(pair)
            if of_ceilings:
                most = max(of_ceilings.values())
                within.append(ratio.low <= most)
                told = ", ".join(f"{kind} × {digits(value)}" for kind, value in of_ceilings.items())
                lines.append(f"{pair.name}, {pair.devices}: {in_words(ratio)}; ceilings: {told}")
        if not lines:
            raise CannotTell("no such point", "these runs have no ceilings that both devices were measured at")
        if all(within):
            why = "the ratios are no larger than those of the ceilings: consistent with the claim, and no proof"
        else:
            exceed = within.count(False)
            why = f"{exceed} of {len(within)} ratios exceed those of the ceilings, which do not explain them"
        raise CannotTell("proves nothing", "; ".join([why, *notes]), lines)


def all_pairs(asked: Sequence[Points], evidence: Evidence) -> tuple[list[Pair], list[str]]:
    """Return the pairs of every benchmark that is asked for, and notes on what is missing."""
    found: list[Pair] = []
    notes: list[str] = []
    for points in asked:
        own, more = pairs(points, evidence)
        found += own
        notes += more
    return found, notes


def courses(found: list[Pair]) -> dict[str, dict[int, Pair]]:
    """Return the pairs by what they share besides the swept axis, and in each by its value."""
    by: dict[str, dict[int, Pair]] = {}
    for pair in found:
        if pair.at is not None:
            by.setdefault(f"{pair.shared}, {pair.devices}", {})[pair.at] = pair
    return by


def _span(ratios: list[Estimate]) -> str:
    low, high = min(r.value for r in ratios), max(r.value for r in ratios)
    return f"× {digits(low)}" if low == high else f"× {digits(low)} to {digits(high)}"


def _beside_ceilings(found: Sequence[Pair], parts: Sequence[Part]) -> list[str]:
    """Return what each ratio that was found is beside the ratio of the devices' own ceilings."""
    return [
        f"{pair.name}, {pair.devices}: {digits(pair.ratio().value / value)} times the ratio of the ceilings of {kind}, "
        f"× {digits(value)}"
        for pair, part in zip(found, parts, strict=True)
        if part.figure
        for kind, value in ceiling_ratios(pair).items()
    ]
