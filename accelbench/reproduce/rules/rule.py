"""What every rule is: its name and parameters as a claim's file has them, and the judgement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from accelbench.reproduce.evidence import Evidence
from accelbench.reproduce.points import Points
from accelbench.reproduce.verdict import Finding
from profiling.records.stored import Stored

NONE, ONE, SOME = range(1), range(1, 2), range(1, 1000)
"""How many benchmarks' points a rule takes."""


class Rule(Stored, ABC):
    """A rule with its parameters; a subclass has its name as the field `name`."""

    takes: ClassVar[range] = SOME
    """The numbers of benchmarks whose points it takes."""
    devices: ClassVar[int] = 1
    """The least number of devices that it takes: two where the time on one is divided by that on another."""
    needs_swept: ClassVar[bool] = False
    """Whether points have to name a swept axis."""

    def misfit(self, asked: Sequence[Points]) -> str | None:
        """Return why the rule cannot be asked about these points; None where it can."""
        if len(asked) not in self.takes:
            most = "none" if self.takes == NONE else "one" if self.takes == ONE else "one or more"
            return f"the rule takes {most} of [[claim.points]], and there are {len(asked)}"
        if any(len(points.devices) < self.devices for points in asked):
            return f"the rule takes {self.devices} devices"
        return "the rule takes a swept axis" if self.needs_swept and not all(points.swept for points in asked) else None

    @abstractmethod
    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Return the verdict that the evidence gives; `CannotTell` where it gives none."""
