"""The verdict on a claim: confirmed, refuted, predicted by a stated law, or that it cannot be told, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Word = Literal["confirmed", "refuted", "predicted", "cannot tell"]
WORDS: tuple[Word, ...] = get_args(Word)
Reason = Literal[
    "no such device",
    "no such point",
    "no such host",
    "not measured",
    "disturbed",
    "too few samples",
    "interval too wide",
    "the points disagree",
    "other seeds",
    "other parameters",
    "other hardware class",
    "synthetic data",
    "no real data",
    "no published figure",
    "proves nothing",
    "opinion",
    "not measured here",
]
"""The reasons why a claim cannot be told."""


@dataclass(frozen=True)
class Finding:
    """A verdict with what it rests on."""

    word: Word
    why: str
    """The sentence that says what decided, or why nothing does."""
    reason: Reason | None = None
    """The kind of reason, where it cannot be told."""
    ours: str = ""
    """Our figure as it stands beside the published one; empty where there is none."""
    evidence: tuple[str, ...] = ()
    """The figures that it rests on, one a line."""


class CannotTell(Exception):
    """A claim, or a part of one, cannot be told; the message says why."""

    def __init__(self, reason: Reason, why: str, evidence: Sequence[str] = ()) -> None:
        super().__init__(why)
        self.reason, self.why, self.evidence = reason, why, tuple(evidence)

    def finding(self) -> Finding:
        """Return the verdict that it cannot be told."""
        return Finding("cannot tell", self.why, self.reason, evidence=self.evidence)

    def part(self) -> Part:
        """Return the comparison that cannot be told."""
        return Part(self.why, None, "", self.reason, self.why)


@dataclass(frozen=True)
class Part:
    """One of the comparisons that a claim rests on."""

    text: str
    """The comparison and its figure, in words."""
    holds: bool | None
    """Whether the claim holds there; None where that cannot be told."""
    figure: str = ""
    """The figure alone."""
    reason: Reason = "interval too wide"
    why: str = "its interval reaches to both sides"
    """The reason why it cannot be told, where `holds` is None."""


def decided(parts: Sequence[Part], what: str, notes: Sequence[str] = (), each_refutes: bool = False) -> Finding:
    """Return the verdict of parts, at least one, that all have to agree; `what` says in words what they compare.

    `notes` are added to the sentence: what the parts do not cover. Of facts that were claimed together, each that is
    wrong refutes by itself (`each_refutes`); of comparisons, some for a claim and some against it leave it open.
    """
    lines = tuple(part.text for part in parts)
    ours = _ours([part.figure for part in parts if part.figure])
    holds, against = (sum(part.holds is wanted for part in parts) for wanted in (True, False))
    undecided = [part for part in parts if part.holds is None]
    if holds == len(parts):
        return Finding("confirmed", _sentence(f"{what}{_in_all(holds, parts)}", notes), None, ours, lines)
    if against == len(parts) or (each_refutes and against):
        return Finding("refuted", _sentence(f"not so{_in_all(against, parts)}: {what}", notes), None, ours, lines)
    if holds and against:
        why = f"{what} in {holds} of {len(parts)} cases, and not in {against}"
        return Finding("cannot tell", _sentence(why, notes), "the points disagree", ours, lines)
    first = undecided[0]
    of = f"in {len(undecided)} of {len(parts)} cases " if len(parts) > 1 else ""
    return Finding("cannot tell", _sentence(f"{of}{first.why}", notes), first.reason, ours, lines)


def _in_all(count: int, parts: Sequence[Part]) -> str:
    """Return in how many of several cases something is so; nothing of a single one."""
    if len(parts) == 1:
        return ""
    return f" in all {count} cases" if count == len(parts) else f" in {count} of {len(parts)} cases"


def _sentence(text: str, notes: Sequence[str]) -> str:
    return "; ".join([text, *dict.fromkeys(notes)])


def _ours(figures: Sequence[str]) -> str:
    """Return the one figure, or the first and the last of several, which stand in the order of the points."""
    several = list(dict.fromkeys(figures))
    return " … ".join([*several[:1], *several[1:][-1:]])
