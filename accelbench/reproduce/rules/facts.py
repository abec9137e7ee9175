"""Rules about facts: numbers that must be equal, arithmetic, vendors' figures, a runtime, and people in a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10, prod
from typing import Annotated, Any, Literal

from pydantic import Field

from accelbench.facts import Leaf, facts, in_words
from accelbench.format import counted
from accelbench.reproduce.evidence import Evidence
from accelbench.reproduce.points import Points
from accelbench.reproduce.rules.rule import NONE, Rule
from accelbench.reproduce.verdict import CannotTell, Finding, Part, decided
from accelbench.run.store import RunInfo
from profiling.machine.vendor_peaks import find_card
from profiling.records.stored import Stored

Tolerance = Annotated[float, Field(ge=0, lt=1)]
MANY = 1e8
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Exact(Rule):
    """A metric of the points is one of certain numbers, exactly."""

    name: Literal["exact"]
    metric: str
    values: tuple[float, ...]

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge each point that has the metric; that a point was disturbed changes no number."""
        parts: dict[str, Part] = {}
        for points in asked:
            for seen in evidence.find_on_any(points, for_time=False):
                if found := seen.record.metrics.get(self.metric):
                    figure = f"{found.value:,.0f}"
                    text = f"{seen.record.point}: {figure} {self.metric}"
                    parts[text] = Part(text, found.value in self.values, figure)
        if not parts:
            raise CannotTell("no such point", f"no such point of these runs says its {self.metric}")
        wanted = " or ".join(f"{value:,.0f}" for value in self.values)
        return decided(list(parts.values()), f"exactly {wanted} {self.metric}", each_refutes=True)


class Sum(Stored):
    """Numbers that are added or multiplied, and what was published as the result."""

    terms: tuple[float, ...]
    by: Literal["adding", "multiplying"]
    gives: float
    unit: str = ""
    within: Tolerance = 0.0
    """The relative difference that is a rounding of what was published."""


class Arithmetic(Rule):
    """The published numbers follow from each other."""

    takes = NONE
    name: Literal["arithmetic"]
    sums: tuple[Sum, ...]

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge each result by calculating it."""
        parts = []
        for each in self.sums:
            result = sum(each.terms) if each.by == "adding" else prod(each.terms)
            sign = " + " if each.by == "adding" else " × "
            figure = f"{_number(result)} {each.unit}".strip()
            text = f"{sign.join(map(_number, each.terms))} = {figure}, published {_number(each.gives)}"
            parts.append(Part(text, abs(result - each.gives) <= each.within * abs(each.gives), figure))
        return decided(parts, "the numbers follow from each other", each_refutes=True)


class Stated(Rule):
    """A published statement beside what another source states."""

    takes = NONE
    name: Literal["stated"]
    published: str
    known: str
    source: str

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Confirm where both are the same, and refute where not."""
        same = self.published == self.known
        why = f"by {self.source}, they are {self.known}{'' if same else f', and not {self.published}'}"
        return Finding("confirmed" if same else "refuted", why, ours=self.known)


class VendorFigure(Stored):
    """A vendor's figure by its place in the entry of `peaks.toml`, and what was published."""

    card: str
    """The card's name, as its driver has it."""
    at: str
    """The path in the entry: `board.flops.float32.plain`."""
    gives: float


class VendorStates(Rule):
    """The published figures of cards are those that their vendors state, by our table with its sources."""

    takes = NONE
    name: Literal["vendor-states"]
    figures: tuple[VendorFigure, ...]
    within: Tolerance = 0.005

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge each figure."""
        parts = []
        for each in self.figures:
            card = find_card(each.card)
            known = _at(card.model_dump(), each.at) if card else None
            if known is None:
                why = f"our table of vendors' figures has no {each.at} of {each.card}"
                parts.append(Part(why, None, "", "no such point", why))
            else:
                same = abs(known - each.gives) <= self.within * abs(each.gives)
                text = f"{each.card} {each.at}: {_number(known)}, published {_number(each.gives)}"
                parts.append(Part(text, same, _number(known)))
        return decided(parts, "the vendor states the same", each_refutes=True)


class RuntimeIs(Rule):
    """A hosted runtime has certain facts, or a number of GPUs."""

    takes = NONE
    name: Literal["runtime-is"]
    runtime: str
    """The hosted runtime, as the environment record names it."""
    facts: dict[str, str | float] = {}
    """The facts by their paths in `run.json`; of a text it is enough that it is a part."""
    gpus: int | None = None
    within: Tolerance = 0.1
    """The relative difference within which numbers are the same: what a system keeps back of memory, for example."""

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge every fact of every run that was on this runtime."""
        there = [run.info for run in evidence.runs if run.info.environment.system.runtime == self.runtime]
        if not there:
            raise CannotTell("other hardware class", f"none of these runs was on the runtime itself ({self.runtime})")
        parts = [part for info in there for part in self._parts(info)]
        return decided(parts, "the runtime is as described", each_refutes=True)

    def _parts(self, info: RunInfo) -> list[Part]:
        known = facts(info.environment)
        parts = [self._part(path, wanted, known.get(path)) for path, wanted in self.facts.items()]
        if self.gpus is not None:
            count = len(info.environment.gpus)
            if info.device == "gpu":
                parts.append(Part(counted(count, "GPU"), count == self.gpus, str(count)))
            else:
                why = f"the run measured {info.device}, and its runtime may have other devices"
                parts.append(Part(why, None, "", "no such device", why))
        return parts

    def _part(self, path: str, wanted: str | float, found: Leaf) -> Part:
        if found is None or isinstance(found, list):
            return Part(f"{path} is unknown", None, "", "not measured", f"{path} is unknown there")
        text = f"{path} is {in_words(path, found)}, published {in_words(path, wanted)}"
        if isinstance(wanted, str) or isinstance(found, str):
            return Part(text, str(wanted).casefold() in str(found).casefold())
        return Part(text, abs(found - wanted) <= self.within * abs(wanted))


class HarPeople(Rule):
    """UCI HAR has so many people, of whom some are trained on and the others held out, and so many activities."""

    takes = NONE
    name: Literal["har-people"]
    train: int
    held_out: int
    classes: int
    get: str
    """The command that fetches the set."""

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge the set that was fetched onto this machine; `CannotTell` where it was not."""
        from workloads.data import load_har
        from workloads.data.sources import SOURCES

        if not SOURCES["har"].present:
            raise CannotTell("no real data", f"the published set is not on this machine: {self.get}")
        har = load_har()
        counts = {
            "people trained on": (len(set(har.subjects_train.tolist())), self.train),
            "people held out": (len(set(har.subjects_test.tolist())), self.held_out),
            "activities": (len({*har.y_train.tolist(), *har.y_test.tolist()}), self.classes),
        }
        parts = [Part(f"{found} {what}", found == wanted, str(found)) for what, (found, wanted) in counts.items()]
        return decided(parts, "the set has these people and activities", each_refutes=True)


def _number(value: float) -> str:
    """Return a number as a reader checks it: in full below a hundred million, and else as `45.88·10¹²`."""
    if abs(value) < MANY:
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
    power = int(log10(abs(value))) // 3 * 3
    return f"{value / 10**power:.4g}·10{str(power).translate(SUPERSCRIPTS)}"


def _at(entry: Mapping[str, Any], path: str) -> float | None:
    """Return the number at a path of the entry; None where it has none."""
    found: Any = entry
    for word in path.split("."):
        found = found[word] if isinstance(found, Mapping) and word in found else None
    return found if isinstance(found, int | float) else None
