"""Verdicts on all claims of a study, and notes on the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from accelbench.export.document import DocumentRow, ResultDocument, RowOutcome
from accelbench.report.joined import Joined
from accelbench.report.stored_run import Run
from accelbench.reproduce.claim_verdict import VERDICTS, ClaimVerdict, Finding, Inconclusive
from accelbench.reproduce.observations import LISTED, Observations, too_noisy
from accelbench.reproduce.paper import Claim, Paper

OF_CLAIM: dict[ClaimVerdict, RowOutcome] = {
    "confirmed": "passed",
    "predicted": "passed",
    "refuted": "failed",
    "inconclusive": "skipped",
}


@dataclass(frozen=True)
class JudgedClaim:
    """Claim with its verdict."""

    claim: Claim
    finding: Finding


@dataclass(frozen=True)
class StudyVerdicts:
    """Verdicts on all claims of a study."""

    paper: Paper
    runs: tuple[Run, ...]
    claims: tuple[JudgedClaim, ...]
    notes: tuple[str, ...]
    """Notes on differences between the runs, unfinished runs, and points that no claim uses."""

    @property
    def sentence(self) -> str:
        """Return the number of each verdict, by kind: `by measurement: 3 confirmed, 7 inconclusive; …`."""
        arithmetic = [note.arithmetic.verdict for note in self.paper.note if note.arithmetic]
        kinds = [
            ("by measurement", _counts([judged.finding.verdict for judged in self.claims])),
            ("by arithmetic on published numbers", _counts(arithmetic)),
        ]
        return "; ".join(f"{kind}: {counts}" for kind, counts in kinds if counts)


def _counts(verdicts: Sequence[ClaimVerdict]) -> str:
    """Return the number of each verdict, such as `3 confirmed, 1 refuted, 7 inconclusive`."""
    counts = Counter(verdicts)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def judge(paper: Paper, runs: Sequence[Run], include_noisy: bool = False) -> StudyVerdicts:
    """Return the verdict on each claim of the study."""
    observations = Observations(tuple(runs), include_noisy)
    claims = tuple(JudgedClaim(claim, judge_claim(claim, observations)) for claim in paper.claim)
    return StudyVerdicts(paper, observations.runs, claims, tuple(_notes(paper, runs)))


def judge_claim(claim: Claim, observations: Observations) -> Finding:
    """Return the verdict on one claim; the reason is `noisy` if only noisy points are missing."""
    try:
        return claim.rule.judge(claim.points, observations)
    except Inconclusive as found:
        noisy = observations.noisy(claim.points) if found.reason == "no such point" else None
        return too_noisy(noisy).finding if noisy and _decides_with_noisy(claim, observations) else found.finding


def _decides_with_noisy(claim: Claim, observations: Observations) -> bool:
    try:
        claim.rule.judge(claim.points, replace(observations, include_noisy=True))
    except Inconclusive as found:
        return found.reason != "no such point"
    return True


def title(run: Run) -> str:
    """Return the run's id, suite, device and day."""
    return f"{run.info.run_id} ({run.suite}, {run.info.device}, {run.created})"


def _notes(paper: Paper, runs: Sequence[Run]) -> Iterator[str]:
    for one in Joined(tuple(runs)).differences:
        yield f"{one.fact} is {one.first} in the first run, and {one.other} in {', '.join(one.labels)}"
    selections = [points for claim in paper.claim for points in claim.points]
    for run in runs:
        if run.unfinished:
            yield f"{run.info.run_id}: {run.unfinished}: {run.counts_text}"
        measured = [record for record in run.of_status("measured") if not record.ceiling]
        unused = [
            str(record.point)
            for record in measured
            if not any(record.point.device in points.devices and points.select(record.point) for points in selections)
        ]
        if unused:
            named = "; ".join(unused[:LISTED]) + f"; and {len(unused) - LISTED} more" * (len(unused) > LISTED)
            count = "all" if len(unused) == len(measured) else f"{len(unused)} of {len(measured)}"
            yield f"{title(run)}: {count} points are not used by claims of {paper.name}: {named}"


def document_of_judgement(judgement: StudyVerdicts) -> ResultDocument:
    """Return a document with a row for each claim: a refuted one is `failed`, an inconclusive one `skipped`."""
    facts = {
        "paper": judgement.paper.name,
        "citation": str(judgement.paper.citation),
        "runs": [run.info.run_id for run in judgement.runs],
        "verdicts": judgement.sentence,
        "unmeasured": [
            {"name": n.id, "claim": n.says, "decision": n.decision, "note": n.note} for n in judgement.paper.note
        ],
        "notes": judgement.notes,
    }
    rows = []
    for judged in judgement.claims:
        claim, finding = judged.claim, judged.finding
        values = {
            "claim": claim.says,
            "verdict": finding.verdict,
            "published": claim.published or None,
            "ours": finding.ours or None,
            "evidence": finding.evidence,
            "not_decided": claim.not_decided or None,
        }
        why = f"{finding.reason}: {finding.why}" if finding.reason else finding.why
        rows.append(DocumentRow(claim.id, values, OF_CLAIM[finding.verdict], why))
    return ResultDocument("reproduce", facts, rows)
