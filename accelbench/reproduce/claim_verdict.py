"""Verdict on a claim: confirmed, refuted, predicted by a model, or inconclusive with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from accelbench.profiling.timing.statistics import Estimate

ClaimVerdict = Literal["confirmed", "refuted", "predicted", "inconclusive"]
VERDICTS: tuple[ClaimVerdict, ...] = get_args(ClaimVerdict)
InconclusiveReason = Literal[
    "no such device",
    "no such point",
    "no such host",
    "not measured",
    "noisy",
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
"""Reasons why a claim is inconclusive."""


@dataclass(frozen=True)
class Finding:
    """Verdict with its evidence."""

    verdict: ClaimVerdict
    why: str
    """Explanation in one sentence."""
    reason: InconclusiveReason | None = None
    """Kind of reason; None unless inconclusive."""
    ours: str = ""
    """Measured value, shown next to the published one."""
    evidence: tuple[str, ...] = ()
    """Results that the verdict is based on, one per line."""
    relative: tuple[Estimate, ...] = ()
    """Measured values relative to the published one or to the bound of the claim, one for each comparison."""


@dataclass(frozen=True)
class ClaimPart:
    """Single comparison of a claim."""

    text: str
    holds: bool | None
    """Whether the claim holds in this comparison; None if inconclusive."""
    value: str = ""
    """Measured value."""
    reason: InconclusiveReason = "interval too wide"
    why: str = ""
    """Explanation of `reason`, if inconclusive."""
    relative: Estimate | None = None
    """Measured value relative to the published one or to the bound; None if it is not a number."""


class Inconclusive(Exception):
    """Raised for an inconclusive claim or comparison; the message is the explanation."""

    def __init__(self, reason: InconclusiveReason, why: str, evidence: Sequence[str] = ()) -> None:
        super().__init__(why)
        self.reason, self.why, self.evidence = reason, why, tuple(evidence)

    @property
    def finding(self) -> Finding:
        return Finding("inconclusive", self.why, self.reason, evidence=self.evidence)

    @property
    def part(self) -> ClaimPart:
        return ClaimPart(self.why, None, "", self.reason, self.why)


def decided(
    parts: Sequence[ClaimPart], what: str, notes: Sequence[str] = (), needs: Literal["all", "each", "one"] = "all"
) -> Finding:
    """Return the verdict on the statement `what` from one or more comparisons; `notes` are appended to the sentence.

    All comparisons have to agree, except: with `each`, one failing comparison refutes; with `one`, one holding
    comparison confirms. With `all`, contradictory comparisons are inconclusive.
    """
    figures = list(dict.fromkeys(part.value for part in parts if part.value))
    ours = " … ".join([*figures[:1], *figures[1:][-1:]])
    lines = tuple(part.text for part in parts)
    relative = tuple(part.relative for part in parts if part.relative)
    count = len(parts)
    holds, against = (sum(part.holds is wanted for part in parts) for wanted in (True, False))

    def finding(verdict: ClaimVerdict, sentence: str, reason: InconclusiveReason | None = None) -> Finding:
        return Finding(verdict, "; ".join(dict.fromkeys([sentence, *notes])), reason, ours, lines, relative)

    def of(number: int) -> str:
        return f" ({number} of {count} comparisons)" if count > 1 else ""

    if holds == count or (holds and needs == "one"):
        return finding("confirmed", f"{what}{of(holds)}")
    if against == count or (against and needs == "each"):
        return finding("refuted", f"false{of(against)}: {what}")
    if holds and against:
        return finding("inconclusive", f"{what}{of(holds)}, but not in {against}", "the points disagree")
    first = next(part for part in parts if part.holds is None)
    return finding("inconclusive", f"{first.why}{of(count - holds - against)}", first.reason)
