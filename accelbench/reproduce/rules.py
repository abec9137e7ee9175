"""Predicates that decide claims; a paper's file names one with its parameters.

Confirmed and refuted both require the whole interval on one side.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import hypot, log
from typing import ClassVar, Literal, TypeVar

from accelbench.compare.change import judge, same_band
from accelbench.environment.fields import facts, in_words
from accelbench.output.format import digits, headline, percent
from accelbench.profiling.analysis.roofline import share_of_ceiling
from accelbench.profiling.analysis.scaling import scalings
from accelbench.profiling.analysis.uncertain_quality import quality_interval
from accelbench.profiling.records.quality import Quality
from accelbench.profiling.records.stored import Share, Stored
from accelbench.profiling.timing.statistics import CONFIDENCE, Estimate, Interval, median_interval
from accelbench.reproduce.claim_verdict import ClaimPart, Finding, Inconclusive, InconclusiveReason, decided
from accelbench.reproduce.observations import Observation, Observations, PointSelection, by_setting, require_axes
from accelbench.reproduce.pairs import (
    ObservationPair,
    ObservationSweep,
    above,
    as_text,
    device_pairs,
    divided,
    facet_groups,
    host_pairs,
    scaled,
    sweeps,
)

T = TypeVar("T")


class Rule(Stored, ABC):
    """Base class of predicates; the field `name` of a subclass identifies it in a paper's file."""

    needs_points: ClassVar[bool] = True
    needs_swept: ClassVar[bool] = False
    needs_all: bool = True
    """Whether every benchmark of the claim must be measured; otherwise missing ones become notes."""

    @property
    def least_devices(self) -> int:
        """Return the minimum number of devices in each selection of points."""
        return 1

    def misfit(self, selections: Sequence[PointSelection]) -> str | None:
        """Return the reason why the rule does not apply to these points; None if it does."""
        if self.needs_points and not selections:
            return "the rule requires [[claim.points]]"
        if any(len(points.devices) < self.least_devices for points in selections):
            return f"the rule requires {self.least_devices} devices"
        needs = self.needs_swept and not all(points.swept for points in selections)
        return "the rule requires a swept axis" if needs else None

    @abstractmethod
    def judge(self, selections: Sequence[PointSelection], observations: Observations) -> Finding:
        """Return the verdict; raise `Inconclusive` without evidence."""

    def collect(
        self, selections: Sequence[PointSelection], find: Callable[[PointSelection], tuple[list[T], list[str]]]
    ) -> tuple[list[T], list[str]]:
        """Return the combined results of `find` for each benchmark, and notes on missing ones."""
        found: list[T] = []
        notes: list[str] = []
        missing: list[Inconclusive] = []
        for points in selections:
            try:
                own, more = find(points)
            except Inconclusive as why:
                if self.needs_all:
                    raise
                missing.append(why)
                own, more = [], [why.why]
            found += own
            notes += more
        if missing and not found:
            raise Inconclusive(missing[0].reason, "; ".join(dict.fromkeys(notes)))
        return found, notes


class RatioRule(Rule):
    """Claim that the ratio of two times is above a bound, at most a bound, 1 (the same), or different from 1."""

    name: Literal["ratio"]
    by: str = "device"
    """Difference between the sides: `device` (the first over each other), `host` (cloud over dedicated), `backend` (all
    pairs), `devices` (`one alone`, `one of several`, `several`), or an axis."""
    over: str = ""
    """Value of `by` in the numerator, unless `by` is device, host or backend."""
    under: str = ""
    """Value of `by` in the denominator."""
    same_as: str = ""
    """Second value of `by`, whose time must equal the time at `over`; empty for none."""
    must_be: Literal["above", "at most", "same", "different", "within ceilings"]
    """Condition; `within ceilings` never confirms: the devices' empirical peaks may explain the ratio."""
    bound: float = 1.0
    within: Share = 0.03
    """Relative difference within which times are the same."""
    within_of_ceiling: Share = 0.0
    """Relative difference within which shares of each device's empirical peak are the same; used if GPUs differ."""
    failed_is_slower: bool = False
    """Whether a failed point counts as slower than any other."""

    @property
    def least_devices(self) -> int:
        return 2 if self.by == "device" else 1

    def misfit(self, selections: Sequence[PointSelection]) -> str | None:
        """Return the reason why the rule does not apply; raise ValueError if `by` is not an axis of the benchmark."""
        if self.by not in ("device", "host", "backend", "devices"):
            for points in selections:
                require_axes(points.benchmark, [self.by])
        return super().misfit(selections)

    def judge(self, selections: Sequence[PointSelection], observations: Observations) -> Finding:
        """Return the verdict from all pairs; one different pair is enough for `different`."""
        pairs, notes = self.collect(selections, lambda points: self._pairs(points, observations))
        parts = [part for pair in pairs if (part := self._part(pair, self.must_be))]
        if not parts:
            reason: InconclusiveReason = "other hardware class" if self.by == "host" else "no such point"
            raise Inconclusive(reason, "these runs have no ceilings, which this comparison of devices requires")
        if self.must_be == "different":
            parts.sort(key=lambda part: not part.holds)
        what = f"the ratio of times is {self.must_be} {digits(self.bound) * (self.must_be in ('above', 'at most'))}"
        needs: Literal["all", "one", "each"] = "one" if self.must_be == "different" else "all"
        if self.same_as:
            same = self._within_machine(selections[0], observations, self.same_as)
            parts, needs = [part for pair in same if (part := self._part(pair, "same"))] + parts, "each"
        finding = decided(parts, what.rstrip(), notes, needs)
        return replace(finding, evidence=(*finding.evidence, *_hardware(pairs, self.by)))

    def _pairs(self, points: PointSelection, observations: Observations) -> tuple[list[ObservationPair], list[str]]:
        if self.by == "device":
            return device_pairs(points, observations)
        if self.by == "host":
            return host_pairs(points, observations)
        if found := list(self._within_machine(points, observations, self.under)):
            return found, []
        sides = ", ".join(filter(None, [self.over, self.under, self.same_as])) or "several"
        why = f"no such points of one machine in these runs: {points.benchmark} with {self.by} {sides}"
        raise Inconclusive("no such point", why)

    def _within_machine(
        self, points: PointSelection, observations: Observations, under: str
    ) -> Iterator[ObservationPair]:
        found = observations.find_on_any(points)
        if self.failed_is_slower:
            found += [each for each in observations.all if each.failed and points.select(each.point)]
        for name, sides in facet_groups(found, points, self.by).items():
            wanted = {self.over, self.under, *filter(None, [self.same_as])}
            named = [(self.over, under)] if wanted <= sides.keys() else []
            for a, b in named if self.over else itertools.combinations(sorted(sides), 2):
                each = [(one,) for one in sides[b]] if b == "several" else [tuple(sides[b])]
                for side in each:
                    yield ObservationPair(f"{name}, {self.by} {a} over {b}", tuple(sides[a]), side)

    def _part(self, pair: ObservationPair, must_be: str) -> ClaimPart | None:
        failed = [side for side in (pair.over, pair.under) if any(each.failed for each in side)]
        if failed:
            reason = next(each.record.reason for each in failed[0] if each.failed)
            which = self.over if failed[0] is pair.over else self.under
            holds = (which == self.over) if len(failed) == 1 else None
            value = f"failed with {self.by} {which}" if len(failed) == 1 else ""
            return ClaimPart(f"{pair.name}: failed: {reason}", holds, value, "not measured", f"both failed: {reason}")
        try:
            ratio = pair.ratio()
        except Inconclusive as found:
            return found.part
        name = f"{pair.name}, {pair.devices}" if self.by == "device" else pair.name
        if must_be == "within ceilings":
            return _ceilings_part(pair, ratio, name)
        if must_be in ("above", "at most"):
            part = above(ratio, self.bound, name)
            return part if must_be == "above" or part.holds is None else replace(part, holds=not part.holds)
        within = self.within
        if self.by == "host" and _card(pair.over[0]) != _card(pair.under[0]):
            shares = [_share(side[0]) for side in (pair.over, pair.under)]
            rates = [side[0].record.rate("flops") for side in (pair.over, pair.under)]
            if not (shares[0] and shares[1] and rates[0] and rates[1]):
                return None
            # The ratio of shares is the ratio of times, scaled by the ratio of the peaks.
            factor = (shares[1] / shares[0]) / (rates[1] / rates[0])
            ratio = scaled(ratio, factor)
            within, name = self.within_of_ceiling, f"{name}, share of its own ceiling, dedicated over cloud"
        text = f"{name}: {as_text(ratio)}, the same within {percent(within)}"
        if must_be == "same":
            verdict, reason = judge(ratio, within)
            holds = True if verdict == "same" else None if verdict == "inconclusive" else False
            return ClaimPart(text, holds, as_text(ratio), why=reason or "", relative=ratio)
        least, most = same_band(within)
        different = ratio.high < least or ratio.low > most
        holds = True if different else False if least <= ratio.low and ratio.high <= most else None
        ends = f"{digits(ratio.low)}–{digits(ratio.high)}"
        why = f"the interval {ends} includes both same and different times"
        return ClaimPart(text, holds, as_text(ratio), why=why, relative=ratio)


class GrowthRule(Rule):
    """Claim that the ratio of times, first device over another, grows along the swept axis or between groups."""

    name: Literal["growth"]
    first: str = ""
    """Value of the swept axis, or group, with the lower ratio; default: the lowest measured value."""
    last: str = ""
    """Value of the swept axis, or group, with the higher ratio; default: the highest measured value."""
    crosses: bool = False
    """Whether the ratio must grow from below 1 to above 1."""

    @property
    def least_devices(self) -> int:
        return 2

    def judge(self, selections: Sequence[PointSelection], observations: Observations) -> Finding:
        """Return the verdict from the first and the last ratio of each series."""
        courses: dict[str, dict[str, list[Estimate]]] = {}
        notes: list[str] = []
        lines: list[str] = []
        for points in selections:
            pairs, more = device_pairs(points, observations)
            notes += more
            for pair in pairs:
                key = pair.devices if points.group else f"{pair.shared}, {pair.devices}"
                at = points.group or str(pair.at)
                ratio = pair.ratio()
                courses.setdefault(key, {}).setdefault(at, []).append(ratio)
                lines.append(f"{at}: {pair.name}, {pair.devices}: {as_text(ratio)}")
        parts = []
        for name, course in courses.items():
            numbers = sorted((at for at in course if at.isdecimal()), key=int) or [""]
            first, last = (self.first, self.last) if self.first else (numbers[0], numbers[-1])
            if first != last and {first, last} <= course.keys():
                parts.append(self._part(name, course, first, last))
        if not parts:
            wanted = f"{self.first} and {self.last}" if self.first else "several values"
            raise Inconclusive("no such point", f"no device was measured at {wanted} on both sides")
        finding = decided(parts, "the ratio grows" + " and crosses 1" * self.crosses, notes)
        return replace(finding, evidence=(*finding.evidence, *lines))

    def _part(self, name: str, course: dict[str, list[Estimate]], first: str, last: str) -> ClaimPart:
        low, high = (_hull(course[at]) for at in (first, last))
        grown = divided(high, low)
        value = f"{_span(course[first])} at {first}, {_span(course[last])} at {last}"
        if not self.crosses:
            value += f", growth {as_text(grown)}"
        text = f"{name}: {value}"
        if self.crosses:
            holds = low.high < 1 < high.low
            fails = high.high < 1 or low.low > 1 or grown.high < 1
        else:
            holds, fails = grown.low > 1, grown.high < 1
        why = f"the growth {digits(grown.low)}–{digits(grown.high)} or the ratio at an end contains 1"
        relative = high if self.crosses else grown
        return ClaimPart(text, True if holds else False if fails else None, value, why=why, relative=relative)


class SlopeRule(Rule):
    """Claim that the time increases along the swept axis, or increases more steeply above a value than below it."""

    needs_swept = True
    name: Literal["slope"]
    steeper_above: int | None = None
    """Value above which the log–log slope must be greater than below it."""

    def judge(self, selections: Sequence[PointSelection], observations: Observations) -> Finding:
        """Return the verdict from each sweep of each benchmark."""

        def find(points: PointSelection) -> tuple[list[ObservationSweep], list[str]]:
            every = list(sweeps(points, observations.find_on_any(points)))
            found = [sweep for sweep in every if self._suits(sweep)]
            if not found:
                wanted = f", with {self.steeper_above} and values on both sides" * bool(self.steeper_above)
                raise Inconclusive("no such point", f"no such point in these runs: {points}{wanted}")
            return found, []

        found, notes = self.collect(selections, find)
        at = self.steeper_above
        what = "the time increases" if at is None else f"the time increases faster above {at}"
        return decided([self._part(sweep) for sweep in found], what, notes)

    def _suits(self, sweep: ObservationSweep) -> bool:
        at = self.steeper_above
        return len(sweep.sides) > 1 and (at is None or (min(sweep.sides) < at < max(sweep.sides) and at in sweep.sides))

    def _part(self, sweep: ObservationSweep) -> ClaimPart:
        values = list(sweep.sides)
        least, at, most = values[0], self.steeper_above, values[-1]
        try:
            if at is None:
                steps = [sweep.ratio(after, before) for before, after in itertools.pairwise(values)]
                part = above(sweep.ratio(most, least), 1.0, f"{sweep.name}, {most} over {least}")
                falls = any(step.high < 1 for step in steps)
                return replace(part, text=f"{part.text}; it decreases in between", holds=False) if falls else part
            below, over = _slope(sweep, least, at), _slope(sweep, at, most)
        except Inconclusive as found:
            return found.part
        middles = [(slope.low + slope.high) / 2 for slope in (below, over)]
        value = f"slope {middles[0]:.2f} below, {middles[1]:.2f} above"
        ends = f"{below.low:.2f} to {below.high:.2f} and {over.low:.2f} to {over.high:.2f}"
        holds = True if over.low > below.high else False if over.high < below.low else None
        text = f"{sweep.name}: {value} (intervals {ends}, from {least} to {most})"
        return ClaimPart(text, holds, value, why=f"the intervals {ends} overlap")


class QualityRule(Rule):
    """Claim that the quality of trained models on real data equals a published value, or is best at certain values."""

    name: Literal["quality"]
    equals: float | None = None
    """Published quality; without it, the best quality must be at `best_at`."""
    best_at: dict[str, int] = {}
    """Values by axis at which the quality must be best."""
    examples: tuple[int, int] | None = None
    """Numbers of training and held-out examples of the published data set."""
    get: str
    """Command that fetches the data."""

    def judge(self, selections: Sequence[PointSelection], observations: Observations) -> Finding:
        """Return the verdict from the interval of each quality, or from the spread over repeated training runs."""
        parts: list[ClaimPart] = []
        for points in selections:
            found = observations.find_on_any(points, for_time=False)
            for each in found:
                self._require_data(each)
            if self.equals is not None:
                parts += [self._equal(each, self.equals) for each in found]
            else:
                for setting, many in by_setting(found, points, *self.best_at).items():
                    if {self._is_best(each) for each in many} == {True, False}:
                        parts.append(self._best(" ".join(setting), many))
        at = ", ".join(f"{axis} {value}" for axis, value in self.best_at.items())
        if not parts:
            raise Inconclusive("no such point", f"these runs lack points with {at} and points with other values")
        return decided(parts, f"the quality is {self.equals}" if self.equals else f"the best quality is at {at}")

    def _is_best(self, each: Observation) -> bool:
        return all(each.value(axis) == str(value) for axis, value in self.best_at.items())

    def _require_data(self, each: Observation) -> None:
        data = each.record.data
        if data is None or data.synthetic:
            source = data.source if data else "unknown data"
            raise Inconclusive("synthetic data", f"trained on {source}, not on the published data: {self.get}")
        if self.examples and (data.train, data.held_out) != self.examples:
            of = f"{data.train:,} + {data.held_out:,} of {data.source}"
            published = " + ".join(f"{count:,}" for count in self.examples)
            raise Inconclusive("no real data", f"trained on {of}, not on the published {published}: {self.get}")

    @staticmethod
    def _equal(each: Observation, wanted: float) -> ClaimPart:
        quality = _headline(each)
        ends, value = quality_interval(each.record, quality), _metric(each, quality.name)
        if ends is None or value is None:
            raise Inconclusive("no such point", f"{quality.name} is not a share of held-out examples")
        text = f"{digits(value)} ({digits(ends[0])}–{digits(ends[1])})"
        relative = scaled(Estimate(*ends, CONFIDENCE, value), 1 / wanted) if wanted > 0 else None
        return ClaimPart(f"{each.point}: {text}", ends[0] <= wanted <= ends[1], text, relative=relative)

    def _best(self, name: str, many: Sequence[Observation]) -> ClaimPart:
        quality = _headline(many[0])
        ranked = sorted(many, key=lambda each: -(_metric(each, quality.name) or 0.0))
        claimed, rival = (next(each for each in ranked if self._is_best(each) is best) for best in (True, False))
        mine, other = (_metric(each, quality.name) or 0.0 for each in (claimed, rival))
        deviations = [_metric(each, quality.deviation) for each in (claimed, rival)]
        where = " ".join(f"{axis}={rival.value(axis)}" for axis in self.best_at)
        value = f"{digits(mine, 4)} compared with {digits(other, 4)} at {where}"
        if deviations[0] is None or deviations[1] is None:
            return ClaimPart(f"{name}: {value}", None, value, "too few samples", "a point has no known spread")
        difference, spread = abs(mine - other), hypot(*filter(None, deviations))
        why = f"the best two differ by {difference:.2g}, within the spread of {spread:.2g}"
        text = f"{name}: {quality.name} {value}, spread {spread:.2g}"
        return ClaimPart(text, None if difference <= spread else mine > other, value, why=why)


class EqualRule(Rule):
    """Claim that facts of a hosted runtime equal the published ones."""

    needs_points = False
    name: Literal["equal"]
    of: str
    """Name of the hosted runtime in the environment record."""
    facts: dict[str, str | float]
    """Published facts by path in `run.json` (text is compared as a substring), and `GPUs`."""
    within: Share = 0.1
    """Relative tolerance, such as for memory that the system reserves."""

    def judge(self, selections: Sequence[PointSelection], observations: Observations) -> Finding:
        """Return the verdict from all facts; a single different fact refutes."""
        parts = []
        for info in (run.info for run in observations.runs if run.info.environment.system.runtime == self.of):
            known = facts(info.environment)
            if info.device == "gpu":
                known["GPUs"] = len(info.environment.gpus)
            parts += [self._part(name, wanted, known.get(name)) for name, wanted in self.facts.items()]
        if not parts:
            raise Inconclusive("other hardware class", f"none of these runs is from the runtime {self.of}")
        return decided(parts, "the runtime is as described", needs="each")

    def _part(self, name: str, wanted: str | float, found: object) -> ClaimPart:
        if not isinstance(found, str | float | int):
            reason: InconclusiveReason = "no such device" if name == "GPUs" else "not measured"
            return ClaimPart(f"{name} is unknown", None, "", reason, f"{name} is unknown in these runs")
        text = f"{name} is {in_words(name, found)}, published {in_words(name, wanted)}"
        value = "" if "." in name else str(found)
        if isinstance(wanted, str) or isinstance(found, str):
            return ClaimPart(text, str(wanted).casefold() in str(found).casefold())
        ratio = found / wanted if wanted > 0 and found > 0 else None
        relative = Estimate(ratio, ratio, CONFIDENCE, ratio) if ratio else None
        return ClaimPart(text, abs(found - wanted) <= self.within * abs(wanted), value, relative=relative)


class OverheadRule(Rule):
    """Claim that a step of several processes has overhead: exchange, waiting for other ranks, and input."""

    name: Literal["overhead"]

    def judge(self, selections: Sequence[PointSelection], observations: Observations) -> Finding:
        """Return the verdict from each training workload with known parts of a step."""
        found = [each for points in selections for each in observations.find_on_any(points)]
        parts = [part for each in found if (part := self._part(each))]
        if not parts:
            raise Inconclusive("no such point", f"these runs have no breakdown of a step of {selections[0]}")
        return decided(parts, "a part of the step is overhead")

    @staticmethod
    def _part(each: Observation) -> ClaimPart | None:
        record, parts = each.record, each.record.parts
        first = record.seen or next((rank.seen for rank in record.ranks if rank.seen), None)
        if parts is None or first is None or record.timing is None or not first.apart_s:
            return None
        step, isolated = record.timing.summary, median_interval(first.apart_s)
        low = (step.ci_low - (isolated.high - parts.input_s)) / parts.step_s
        high = (step.ci_high - (isolated.low - parts.input_s)) / parts.step_s
        shares = {"exchange": parts.exposed_s, "waiting for the slowest": parts.wait_s, "input": parts.input_s}
        largest = max(shares, key=lambda name: shares[name])
        value = f"{percent(sum(shares.values()) / parts.step_s)} ({percent(low)} to {percent(high)})"
        most = f"the largest is {largest} with {percent(shares[largest] / parts.step_s)}"
        holds = True if low > 0 else False if high <= 0 else None
        why = f"the interval of the overhead, {percent(low)} to {percent(high)} of a step, includes 0"
        return ClaimPart(f"{record.point}: overhead {value} of a step; {most}", holds, value, why=why)


class OpenRule(Rule):
    """Claim that no measurement decides, for a stated reason; the results of its points are evidence."""

    needs_points = False
    name: Literal["open"]
    reason: Literal["opinion", "not measured here", "no published figure"]
    because: str

    def judge(self, selections: Sequence[PointSelection], observations: Observations) -> Finding:
        """Raise `Inconclusive` with the reason and the measured values."""
        lines: list[str] = []
        for points in selections:
            try:
                lines += _figures(observations.find_on_any(points, for_time=False))
            except Inconclusive as found:
                lines.append(found.why)
        raise Inconclusive(self.reason, self.because, lines)


def _figures(found: Sequence[Observation]) -> Iterator[str]:
    """Yield the scaling efficiency of training workloads, and the main result of every other point."""
    wanted = {id(each.record) for each in found}
    shown: set[int] = set()
    for one in (one for run in {id(o.run): o.run for o in found}.values() for one in scalings(run.records)):
        records = {id(step.record) for step in one.steps}
        if records & wanted:
            steps = ", ".join(f"{percent(step.efficiency)} on {step.replicas}" for step in one.steps)
            engine = " ".join(filter(None, [one.backend, one.strategy]))
            yield f"{one.benchmark} {one.device} {engine}, efficiency over replicas: {steps}"
            shown |= records
    for each in found:
        if id(each.record) not in shown:
            container = each.run.info.environment.system.container or "outside containers"
            yield f"{each.point}: {headline(each.record)}, {container}"


def _ceilings_part(pair: ObservationPair, ratio: Estimate, name: str) -> ClaimPart | None:
    ceilings = pair.ceiling_ratios()
    if not ceilings:
        return None
    text = ", ".join(f"{kind} × {digits(value)}" for kind, value in ceilings.items())
    if ratio.low <= max(ceilings.values()):
        why = "a ratio not above the ratio of the ceilings is consistent with the claim, but does not prove it"
    else:
        why = "the ratio exceeds the ratio of the ceilings, which does not explain it"
    return ClaimPart(f"{name}: {as_text(ratio)}; ceilings: {text}", None, "", "proves nothing", why)


def _hardware(pairs: Sequence[ObservationPair], by: str) -> Iterator[str]:
    """Yield each ratio relative to the ratio of the devices' ceilings, and each host's share of its ceiling."""
    for pair in pairs:
        if by == "device":
            for kind, value in pair.ceiling_ratios().items():
                try:
                    times = digits(pair.ratio().value / value)
                except Inconclusive:
                    continue
                yield f"{pair.name}, {pair.devices}: {times}× the ratio of the {kind} ceilings, × {digits(value)}"
        for side in (pair.over, pair.under) if by == "host" else ():
            if share := _share(side[0]):
                yield f"{pair.name}: {_card(side[0])} reached {percent(share)} of its ceiling"


def _card(each: Observation) -> str:
    """Return the name of the first GPU, or of the machine."""
    gpus = each.run.info.environment.gpus
    return gpus[0].name if each.point.device == "gpu" and gpus else each.machine


def _share(each: Observation) -> float | None:
    """Return the point's share of its ceiling in its own run."""
    return share_of_ceiling(each.record, each.run.ceilings).value if each.ceilings else None


def _slope(sweep: ObservationSweep, first: int, last: int) -> Interval:
    """Return the log–log slope of the time over the swept value."""
    ratio, grown = sweep.ratio(last, first), log(last / first)
    return Interval(log(ratio.low) / grown, log(ratio.high) / grown, ratio.confidence)


def _hull(ratios: Sequence[Estimate]) -> Estimate:
    """Return the estimate that spans all intervals."""
    middle = sum(ratio.value for ratio in ratios) / len(ratios)
    low, high = min(ratio.low for ratio in ratios), max(ratio.high for ratio in ratios)
    return Estimate(low, high, min(ratio.confidence for ratio in ratios), middle)


def _span(ratios: Sequence[Estimate]) -> str:
    low, high = min(ratio.value for ratio in ratios), max(ratio.value for ratio in ratios)
    return f"× {digits(low)}" if low == high else f"× {digits(low)} to {digits(high)}"


def _headline(each: Observation) -> Quality:
    """Return the headline quality metric of the benchmark."""
    found = next((quality for quality in each.record.qualities if quality.headline), None)
    if found is None:
        raise Inconclusive("no such point", f"{each.point.benchmark} declares no headline quality")
    return found


def _metric(each: Observation, name: str | None) -> float | None:
    metric = each.record.metrics.get(name or "")
    return metric.value if metric else None
