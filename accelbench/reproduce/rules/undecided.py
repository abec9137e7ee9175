"""Rules of claims that nothing measured here decides: what was described only, opinions, and what is not measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from accelbench.format import headline, percent
from accelbench.reproduce.evidence import Evidence, Seen
from accelbench.reproduce.points import Points
from accelbench.reproduce.rules.rule import NONE, Rule
from accelbench.reproduce.verdict import CannotTell, Finding
from profiling.analysis.scaling import scalings


class Shown(Rule):
    """The document states no figure to compare with: what these runs measured is shown beside it."""

    name: Literal["shown"]
    because: str
    """The sentence that says what was not published."""

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Show the points that the claim is about."""
        lines: list[str] = []
        for points in asked:
            try:
                lines += _figures(evidence.find_on_any(points, for_time=False))
            except CannotTell as found:
                lines.append(found.why)
        raise CannotTell("no published figure", self.because, lines)


class Undecided(Rule):
    """No measurement decides it, for a reason that the claim's file states."""

    takes = NONE
    name: Literal["undecided"]
    reason: Literal["opinion", "not measured here"]
    because: str

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Say why nothing decides it."""
        raise CannotTell(self.reason, self.because)


def _figures(found: list[Seen]) -> list[str]:
    """Return the efficiency of trainings on growing numbers of replicas, and the figure of everything else."""
    scaled = [one for run in {id(seen.run): seen.run for seen in found}.values() for one in scalings(run.records)]
    wanted = {id(seen.record) for seen in found}
    lines: list[str] = []
    told: set[int] = set()
    for one in scaled:
        if any(id(step.record) in wanted for step in one.steps):
            steps = ", ".join(f"{percent(step.efficiency)} on {step.replicas}" for step in one.steps)
            engine = " ".join(filter(None, [one.backend, one.strategy]))
            lines.append(f"{one.benchmark} {one.device} {engine}, efficiency over replicas: {steps}")
            told |= {id(step.record) for step in one.steps}
    for seen in found:
        if id(seen.record) not in told:
            system = seen.run.info.environment.system
            lines.append(f"{seen.record.point}: {headline(seen.record)}, {system.container or 'outside containers'}")
    return lines
