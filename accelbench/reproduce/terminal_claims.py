"""Terminal output of claims: a table with verdicts and evidence, and the notes."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.export.terminal import WIDTH, ResultTable
from accelbench.output.console import HangingText
from accelbench.output.format import UNKNOWN, counted
from accelbench.reproduce.claim_verdict import ClaimVerdict
from accelbench.reproduce.judging import JudgedClaim, StudyVerdicts, title
from accelbench.reproduce.paper import Paper
from accelbench.reproduce.session import ComparedLimit

MOST_LINES = 3
"""Maximum number of lines of evidence per claim; the page has all."""
STYLES: dict[ClaimVerdict, str] = {
    "confirmed": "bold green",
    "refuted": "bold red",
    "predicted": "bold cyan",
    "inconclusive": "yellow",
}


def print_papers(papers: Sequence[Paper], console: Console) -> None:
    """Print the studies with the numbers of their claims and their suites."""
    for paper in papers:
        procs = f", in {paper.processes} processes" if paper.processes > 1 else ""
        console.print(HangingText(Text.assemble((paper.name, "bold"), f"  {paper.citation}"), 0, 4))
        console.print(HangingText(Text(str(paper.about)), 4, 4))
        suites = f"suite {paper.suite}, on two cores {paper.small}{procs}"
        notes = f" and {counted(len(paper.note), 'note')}" if paper.note else ""
        data = "".join(f"; 'accelbench data fetch {name}' for claims about quality" for name in paper.fetch)
        claims = f"{counted(len(paper.claim), 'claim')}{notes}; {suites}{data}"
        console.print(HangingText(Text(claims, style="dim"), 4, 4))


def print_judgement(judgement: StudyVerdicts, console: Console) -> None:
    """Print the study, the runs, each claim with its verdict, and the number of each verdict."""
    console.print()
    console.print(Text(str(judgement.paper.citation), style="bold"))
    for run in judgement.runs:
        console.print(Text(f"by {title(run)}", style="dim"))
    console.print(_table(judgement.claims), width=min(WIDTH, console.width))
    for note in judgement.paper.note:
        console.print(Text(f"{note.id}, {note.decision}. {note.says} Note: {note.note}", style="dim"))
    for line in judgement.notes:
        console.print(Text(line, style="yellow"))
    console.print(Text(f"{judgement.paper.name}: {judgement.sentence}", style="bold"))


def print_session(session: Sequence[ComparedLimit], console: Console) -> None:
    """Print the limits of a session in the study and on this machine."""
    for each in session:
        text = f"session, {each.limit}: {each.published or UNKNOWN} in the study, here {each.here}"
        console.print(Text(text, style="dim"))


def _table(claims: Sequence[JudgedClaim]) -> Table:
    table = ResultTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_lines=False, expand=True)
    table.add_column("", no_wrap=True, width=4)
    table.add_column("claim and evidence", ratio=5, overflow="fold")
    table.add_column("published\nours", ratio=2, overflow="fold")
    table.add_column("verdict", ratio=3, overflow="fold")
    for judged in claims:
        claim, finding = judged.claim, judged.finding
        text = Text(claim.says)
        for line in finding.evidence[:MOST_LINES]:
            text.append(f"\n{line}", style="dim")
        if len(finding.evidence) > MOST_LINES:
            text.append(f"\n{len(finding.evidence) - MOST_LINES} more on the page", style="dim")
        figures = Text(claim.published or UNKNOWN)
        figures.append(f"\n{finding.ours or UNKNOWN}", style="dim")
        verdict = Text.assemble(
            (finding.verdict, STYLES[finding.verdict]), f": {finding.reason}" if finding.reason else ""
        )
        verdict.append(f"\n{finding.why}")
        if claim.not_decided and finding.verdict != "inconclusive":
            verdict.append(f"\nNot decided: {claim.not_decided}", style="dim")
        table.add_row(Text(claim.id, style="bold"), text, figures, verdict)
        table.add_section()
    return table
