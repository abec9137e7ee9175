"""Pairs of observations, and the ratios of their times with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accelbench.compare.change import compare_point
from accelbench.compare.runs import EQUIVALENCE
from accelbench.output.format import digits
from accelbench.profiling.records.record import Record
from accelbench.profiling.timing.statistics import Estimate
from accelbench.reproduce.claim_verdict import ClaimPart, Inconclusive
from accelbench.reproduce.observations import (
    Observation,
    Observations,
    PointSelection,
    by_machine,
    by_setting,
    differing,
    value_of,
)

ObservationSide = tuple[Observation, ...]
"""Observations of one point on one machine, from one or more runs."""


@dataclass(frozen=True)
class ObservationPair:
    """Two sides of a ratio: the time of `over` divided by the time of `under`."""

    shared: str
    """Setting common to both sides, without the swept axis."""
    over: ObservationSide
    under: ObservationSide
    axis: str | None = None
    """Swept axis."""
    at: int | None = None
    """Value of the swept axis."""

    @property
    def devices(self) -> str:
        return f"{self.over[0].point.device} ÷ {self.under[0].point.device}"

    @property
    def name(self) -> str:
        at = f" {self.axis}={self.at}" * bool(self.axis)
        return f"{self.shared}{at}"

    def ratio(self) -> Estimate:
        """Return the ratio of the times of a steady training step or of one execution."""
        seeds = sorted({each.point.seed for each in (*self.over, *self.under)})
        if len(seeds) > 1:
            raise Inconclusive("other seeds", f"{self.name} has several seeds: {', '.join(map(str, seeds))}")
        over, under = ([_timed(each.record) for each in side] for side in (self.over, self.under))
        change = compare_point(over, under, EQUIVALENCE, include_noisy=True)
        if change.evidence is None:
            raise Inconclusive("too few samples", f"{self.name}: {change.reason}")
        return change.evidence.speed

    def ceiling_ratios(self) -> dict[str, float]:
        """Return the ratio of the second device's to the first device's empirical peak, by kind of work."""
        over, under = self.over[0].ceilings, self.under[0].ceilings
        return {kind: under[kind] / value for kind, value in over.items() if kind in under}


def _timed(record: Record) -> Record:
    """Return the record without its work, so that times and not rates are compared."""
    return record.model_copy(update={"work": None, "figure": "time"})


def above(ratio: Estimate, bound: float, name: str) -> ClaimPart:
    """Return the comparison of a ratio with a bound; it holds if the whole interval is above the bound."""
    holds = True if ratio.low > bound else False if ratio.high < bound else None
    why = f"the interval {digits(ratio.low)}–{digits(ratio.high)} contains {digits(bound)}: give more runs"
    relative = scaled(ratio, 1 / bound) if bound > 0 else None
    return ClaimPart(f"{name}: {as_text(ratio)}", holds, as_text(ratio), why=why, relative=relative)


def as_text(ratio: Estimate) -> str:
    """Return a ratio with its interval, such as `× 8.30 (7.10–9.60)`."""
    return f"× {digits(ratio.value)} ({digits(ratio.low)}–{digits(ratio.high)})"


def scaled(ratio: Estimate, factor: float) -> Estimate:
    """Return the estimate multiplied by a number."""
    return Estimate(ratio.low * factor, ratio.high * factor, ratio.confidence, ratio.value * factor)


def divided(a: Estimate, b: Estimate) -> Estimate:
    """Return the quotient of two estimates with the widest interval."""
    return Estimate(a.low / b.high, a.high / b.low, min(a.confidence, b.confidence), a.value / b.value)


def device_pairs(points: PointSelection, observations: Observations) -> tuple[list[ObservationPair], list[str]]:
    """Return a pair for every point measured on the first device and another one, and notes on missing devices."""
    first, *others = points.devices
    found: list[ObservationPair] = []
    missing: list[Inconclusive] = []
    for device in others:
        try:
            under = observations.find(points, device)  # first: a missing device is the reason before a noisy point
            found += _matched(points, observations.find(points, first), under)
        except Inconclusive as why:
            missing.append(why)
    if not found:
        raise missing[0]
    return found, [why.why for why in missing]


def host_pairs(points: PointSelection, observations: Observations) -> tuple[list[ObservationPair], list[str]]:
    """Return a pair for every point measured in a cloud and on a dedicated machine."""
    found = observations.find_on_any(points)
    hosts: dict[str, list[Observation]] = {}
    for each in found:
        hosts.setdefault(each.value("host"), []).append(each)
    if len(hosts) < 2:
        lacking = "dedicated machine to compare the cloud with" if "cloud" in hosts else "cloud"
        raise Inconclusive("no such host", f"these runs have no {lacking}")
    pairs: list[ObservationPair] = []
    for device in points.devices:
        over, under = ([s for s in hosts[host] if s.point.device == device] for host in ("cloud", "dedicated"))
        if over and under:
            pairs += _matched(points, over, under)
    if not pairs:
        raise Inconclusive("no such host", "the hosts measured on different devices")
    return pairs, []


def _matched(
    points: PointSelection, over: Sequence[Observation], under: Sequence[Observation]
) -> list[ObservationPair]:
    """Return a pair for each point and each combination of machines of both sides."""
    sides = [_by_point(points, side) for side in (over, under)]
    several = any(len(by_machine(side)) > 1 for side in (over, under))
    found = [
        ObservationPair(
            " ".join(setting) + f" ({machine_a} ÷ {machine_b})" * several, tuple(a), tuple(b), points.swept, at
        )
        for (setting, at), many in sides[0].items()
        for machine_a, a in by_machine(many).items()
        for machine_b, b in by_machine(sides[1].get((setting, at), [])).items()
    ]
    if not found:
        raise differing(over, under, points)
    return found


def _by_point(
    points: PointSelection, found: Sequence[Observation]
) -> dict[tuple[tuple[str, ...], int | None], list[Observation]]:
    by: dict[tuple[tuple[str, ...], int | None], list[Observation]] = {}
    for each in found:
        at = value_of(each.point, points.swept) if points.swept else None
        by.setdefault((each.setting(points), at if isinstance(at, int) else None), []).append(each)
    return by


def facet_groups(
    found: Sequence[Observation], points: PointSelection, facet: str
) -> dict[str, dict[str, list[Observation]]]:
    """Group observations by machine and setting (without the facet), and then by the value of the facet."""
    ignored = {facet}
    if facet == "devices":
        ignored |= {"visible", *(a for o in found for a, of in o.record.layout.axes.items() if of in DEVICES)}
    groups: dict[str, dict[str, list[Observation]]] = {}
    for setting, alike in by_setting(found, points, *ignored).items():
        for machine, many in by_machine(alike).items():
            values = groups.setdefault(f"{' '.join(setting)} on {machine}", {})
            for each in many:
                values.setdefault(each.value(facet), []).append(each)
    return groups


DEVICES = ("devices", "strategy")
"""Fields of a layout that follow from the number of devices."""


@dataclass(frozen=True)
class ObservationSweep:
    """Points of one machine that differ only in the swept axis, in ascending order."""

    name: str
    sides: dict[int, ObservationSide]

    def ratio(self, over: int, under: int) -> Estimate:
        """Return the ratio of the times at two values of the axis."""
        return ObservationPair(f"{self.name}, {over} over {under}", self.sides[over], self.sides[under]).ratio()


def sweeps(points: PointSelection, found: Sequence[Observation]) -> Iterator[ObservationSweep]:
    """Yield a sweep for each machine, device and setting."""
    for name, values in facet_groups(found, points, points.swept or "").items():
        sides = {int(at): tuple(side) for at, side in values.items() if at.isdecimal() and int(at) > 0}
        yield ObservationSweep(name, dict(sorted(sides.items())))
