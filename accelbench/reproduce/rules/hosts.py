"""Rules about hosts and what they hold: a cloud beside a machine of one's own, frameworks, and further devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Annotated, Literal

from pydantic import Field

from accelbench.compare.change import judge, same_band
from accelbench.format import digits, percent
from accelbench.reproduce.ceilings_apart import ceilings_of
from accelbench.reproduce.evidence import Evidence, Seen, by_machine, by_setting
from accelbench.reproduce.points import Points, value_of
from accelbench.reproduce.rules.rule import ONE, Rule
from accelbench.reproduce.times import Pair, above, in_words, matched
from accelbench.reproduce.verdict import CannotTell, Finding, Part, decided
from profiling.analysis.roofline import share_of_ceiling
from profiling.machine.environment.system import RUNTIME_VARIABLES
from profiling.timing.statistics import Estimate

HOSTED = set(RUNTIME_VARIABLES.values())
"""The hosted notebooks that the environment record knows."""
Share = Annotated[float, Field(gt=0, lt=1)]


class CloudAlike(Rule):
    """A cloud runtime is as fast as a dedicated machine, or reaches the same share of what its own device can do."""

    name: Literal["cloud-alike"]
    same_card: Share = 0.03
    """The difference within which times on the same card count as the same."""
    same_share: Share = 0.1
    """The difference within which shares of each one's own ceiling count as the same."""

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge each benchmark that both hosts measured."""
        found, notes = _cloud_pairs(asked, evidence)
        parts = [part for pair in found if (part := self._part(pair))]
        if not parts:
            raise CannotTell("other hardware class", "the hosts have other cards, and no share of a ceiling is known")
        return decided(parts, "the cloud is as fast as the dedicated machine", notes)

    def _part(self, pair: Pair) -> Part | None:
        ratio, within, of = pair.ratio(), self.same_card, "the time"
        if _card(pair.over[0]) != _card(pair.under[0]):
            shares = [_share(side[0]) for side in (pair.over, pair.under)]
            rates = [side[0].record.rate("flops") for side in (pair.over, pair.under)]
            if not (shares[0] and shares[1] and rates[0] and rates[1]):
                return None
            # Shares are rates over ceilings: the quotient of shares is that of the times, times a constant.
            factor = (shares[1] / shares[0]) / (rates[1] / rates[0])
            ratio = Estimate(ratio.low * factor, ratio.high * factor, ratio.confidence, ratio.value * factor)
            within, of = self.same_share, "the share of the own ceiling, dedicated over cloud,"
        return _alike(ratio, within, f"{pair.name}: {of} {in_words(ratio)}, the same within {percent(within)}")


class CloudSlower(Rule):
    """The cloud's card takes longer than the card of a machine of one's own."""

    name: Literal["cloud-slower"]

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge each point that both hosts measured, and tell the share of its own ceiling that each reached."""
        found, notes = _cloud_pairs(asked, evidence)
        finding = decided([pair.part() for pair in found], "the cloud takes longer", notes)
        shares = [
            f"{pair.name}: {_card(side[0])} reached {percent(share)} of its ceiling"
            for pair in found
            for side in (pair.over, pair.under)
            if (share := _share(side[0]))
        ]
        return replace(finding, evidence=(*finding.evidence, *shares))


class FrameworksApart(Rule):
    """Some two frameworks take different times for the same training on the same machine."""

    takes = ONE
    name: Literal["frameworks-apart"]
    within: Share = 0.03
    """The difference within which times count as the same."""

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge every two frameworks at equal settings: one pair apart confirms, and all the same refutes."""
        (points,) = asked
        parts = [self._part(pair) for pair in _framework_pairs(points, evidence)]
        if not parts:
            raise CannotTell("no such point", f"these runs have no {points} by two frameworks on one machine")
        lines = tuple(part.text for part in parts)
        ours = max(parts, key=lambda part: part.holds is True).figure
        apart = [part for part in parts if part.holds]
        if apart:
            why = f"frameworks differ by more than {percent(self.within)} in {len(apart)} of {len(parts)} comparisons"
            return Finding("confirmed", why, None, ours, lines)
        if all(part.holds is False for part in parts):
            why = f"all frameworks take the same time, within {percent(self.within)}"
            return Finding("refuted", why, None, ours, lines)
        first = next(part for part in parts if part.holds is None)
        return Finding("cannot tell", first.why, first.reason, ours, lines)

    def _part(self, pair: Pair) -> Part:
        try:
            ratio = pair.ratio()
        except CannotTell as found:
            return found.part()
        least, most = same_band(self.within)
        same = least <= ratio.low and ratio.high <= most
        apart = ratio.high < least or ratio.low > most
        ends = f"{digits(ratio.low)}–{digits(ratio.high)}"
        why = f"the intervals, such as {ends}, reach into what counts as the same: more rounds or runs narrow them"
        holds = True if apart else False if same else None
        return Part(f"{pair.name}: {in_words(ratio)}", holds, in_words(ratio), why=why)


class MoreDevices(Rule):
    """Further devices change nothing for a program that does not use them, and make one faster that does."""

    takes = ONE
    name: Literal["more-devices"]
    visible: str
    """The axis that says which devices a program sees."""
    alone: str
    """The value of that axis where the program sees only the device that it uses; with another value it sees all."""
    within: Share = 0.03
    """The difference within which times count as the same."""

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge one device seen alone beside one of several, and several used beside one, at equal settings."""
        (points,) = asked
        found = evidence.find_on_any(points)
        parts = []
        for setting, same in by_setting(found, points, self.visible, *_layout_axes(found)).items():
            for machine in by_machine(same).values():
                parts += self._parts(" ".join(setting), machine)
        if not parts:
            wanted = "on a device that is seen alone, on the same one beside others, and on several"
            raise CannotTell("no such point", f"no such points in these runs: {points.benchmark} {wanted}")
        what = "devices that are not used change nothing, and those that are used make it faster"
        return decided(parts, what, each_refutes=True)

    def _parts(self, name: str, same: Sequence[Seen]) -> list[Part]:
        """Return both comparisons of one machine; none where it lacks the points of one of them."""
        one = [seen for seen in same if seen.record.layout.computing_devices == 1]
        several = [seen for seen in same if seen.record.layout.computing_devices > 1]
        alone = tuple(seen for seen in one if self._is_alone(seen))
        beside = tuple(s for s in one if not self._is_alone(s) and len(s.run.info.environment.gpus) > 1)
        if not (alone and beside and several):
            return []
        ratio = Pair(name, beside, alone).ratio()
        return [_alike(ratio, self.within, f"{name}, others seen ÷ seen alone: {in_words(ratio)}")] + [
            above(
                Pair(name, beside, (seen,)).ratio(),
                1.0,
                f"{name}, one device ÷ {seen.record.layout.computing_devices} used",
            )
            for seen in several
        ]

    def _is_alone(self, seen: Seen) -> bool:
        return value_of(seen.record.point, self.visible) == self.alone


def is_cloud(seen: Seen) -> bool:
    """Tell whether the run was on a hosted notebook or a virtual machine."""
    environment = seen.run.info.environment
    return environment.system.runtime in HOSTED or environment.cpu.hypervisor is not None


def _cloud_pairs(asked: Sequence[Points], evidence: Evidence) -> tuple[list[Pair], list[str]]:
    """Return each point that a cloud and a dedicated machine measured, and notes on those that only one did."""
    found: list[Pair] = []
    missing: list[CannotTell] = []
    for points in asked:
        try:
            seen = evidence.find_on_any(points)
            cloud, dedicated = ([each for each in seen if is_cloud(each) is wanted] for wanted in (True, False))
            if not (cloud and dedicated):
                lacking = "dedicated machine beside the cloud" if cloud else "cloud beside the dedicated machine"
                raise CannotTell("no such host", f"these runs have no {lacking}")
            found += [
                pair
                for device in points.devices
                if (over := _on(device, cloud)) and (under := _on(device, dedicated))
                for pair in matched(points, over, under)
            ]
        except CannotTell as why:
            missing.append(why)
    if not found:
        raise missing[0] if missing else CannotTell("no such host", "the hosts measured on other devices")
    return found, [why.why for why in missing]


def _framework_pairs(points: Points, evidence: Evidence) -> Iterator[Pair]:
    """Yield every two frameworks at the same point of the same machine."""
    for seen in by_machine(evidence.find_on_any(points)).values():
        alike: dict[tuple[str, ...], dict[str, list[Seen]]] = {}
        for each in seen:
            point = each.record.point
            setting = tuple(word for word in each.setting(points) if word != point.backend)
            alike.setdefault((point.device, *setting), {}).setdefault(point.backend or "none", []).append(each)
        for setting, frameworks in alike.items():
            for one, other in combinations(sorted(frameworks), 2):
                name = f"{' '.join(setting[1:])} on {setting[0]}, {one} over {other}"
                yield Pair(name, tuple(frameworks[one]), tuple(frameworks[other]))


def _alike(ratio: Estimate, within: float, text: str) -> Part:
    """Return whether two times are the same within that share."""
    verdict, reason = judge(ratio, within)
    holds = True if verdict == "same" else None if verdict == "cannot tell" else False
    return Part(text, holds, in_words(ratio), why=reason or "")


def _on(device: str, found: Sequence[Seen]) -> list[Seen]:
    return [seen for seen in found if seen.record.point.device == device]


def _card(seen: Seen) -> str:
    """Return the name of what measured: the first GPU's, or the CPU's."""
    environment = seen.run.info.environment
    if seen.record.point.device == "gpu" and environment.gpus:
        return environment.gpus[0].name
    return seen.machine


def _share(seen: Seen) -> float | None:
    """Return the point's share of the ceiling of its own run."""
    return share_of_ceiling(seen.record, seen.run.ceilings).value if ceilings_of(seen) else None


def _layout_axes(found: Sequence[Seen]) -> set[str]:
    return {axis for seen in found for axis, of in seen.record.layout.axes.items() if of in ("devices", "strategy")}
