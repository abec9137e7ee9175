"""All claims of a study, judged by the runs that were given, and what of these runs decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from accelbench.report.joined import Joined
from accelbench.report.stored_run import Run
from accelbench.reproduce.evidence import MOST_TOLD, Evidence, was_disturbed
from accelbench.reproduce.paper import Claim, Paper
from accelbench.reproduce.verdict import WORDS, CannotTell, Finding


@dataclass(frozen=True)
class Judged:
    """A claim and the verdict on it."""

    claim: Claim
    finding: Finding


@dataclass(frozen=True)
class Judgement:
    """The verdicts on all claims of a study."""

    paper: Paper
    runs: tuple[Run, ...]
    claims: tuple[Judged, ...]
    notes: tuple[str, ...]
    """What is to be known of the runs: how they differ, unfinished ones, and points that decide no claim."""

    @property
    def sentence(self) -> str:
        """Return the verdicts counted: `3 confirmed, 1 refuted, 7 cannot tell`."""
        counts = Counter(judged.finding.word for judged in self.claims)
        return ", ".join(f"{counts[word]} {word}" for word in WORDS if counts[word])


def judge(paper: Paper, runs: Sequence[Run], even_if_disturbed: bool = False) -> Judgement:
    """Return the verdict on each claim of the study, by these runs."""
    evidence = Evidence(tuple(runs), even_if_disturbed)
    claims = tuple(Judged(claim, judge_claim(claim, evidence)) for claim in paper.claim)
    return Judgement(paper, evidence.runs, claims, tuple(_notes(paper, runs)))


def judge_claim(claim: Claim, evidence: Evidence) -> Finding:
    """Return the verdict on one claim; where it lacks points for the only reason that they were disturbed, say that."""
    try:
        return claim.rule.judge(claim.points, evidence)
    except CannotTell as found:
        left_out = evidence.left_out(claim.points) if found.reason == "no such point" else None
        return was_disturbed(left_out).finding() if left_out and _decides(claim, evidence) else found.finding()


def _decides(claim: Claim, evidence: Evidence) -> bool:
    """Tell whether no point is missing if disturbed ones count, too."""
    try:
        claim.rule.judge(claim.points, replace(evidence, even_if_disturbed=True))
    except CannotTell as found:
        return found.reason != "no such point"
    return True


def title(run: Run) -> str:
    """Return the run in words: its id, suite, device and day."""
    return f"{run.info.run_id} ({run.suite}, {run.info.device}, {run.created})"


def _notes(paper: Paper, runs: Sequence[Run]) -> Iterator[str]:
    for apart in Joined(tuple(runs)).apart:
        yield f"{apart.fact} is {apart.first} in the first run, and {apart.other} in {', '.join(apart.labels)}"
    asked = [points for claim in paper.claim for points in claim.points]
    for run in runs:
        if run.unfinished:
            yield f"{run.info.run_id}: {run.unfinished}: {run.counts_text}"
        measured = [record for record in run.of_status("measured") if not record.ceiling]
        unused = [
            str(record.point)
            for record in measured
            if not any(record.point.device in points.devices and points.ask_for(record.point) for points in asked)
        ]
        if unused:
            named = "; ".join(unused[:MOST_TOLD]) + f"; and {len(unused) - MOST_TOLD} more" * (len(unused) > MOST_TOLD)
            some = f"{len(unused)} of its {len(measured)} points decide{'s' * (len(unused) == 1)} no claim"
            told = "none of its points decides a claim" if len(unused) == len(measured) else some
            yield f"{title(run)}: {told} of {paper.name}: {named}"
