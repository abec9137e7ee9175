"""The rule of `--fail-on`, and the points that break it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from accelbench.compare.runs import Comparison
from accelbench.errors import UserError
from accelbench.output.format import percent

REGRESSION_CONFIDENCE = 0.99
"""The confidence that a loss of speed is one, asked of a point that ends the command with status 3: many points are
compared, and each may err."""


@dataclass(frozen=True)
class FailOn:
    """The rule that says what a regression is: the loss of at least this share of the speed."""

    percent: float

    def __str__(self) -> str:
        return f"slower:{self.percent:g}%"


@dataclass(frozen=True)
class Regression:
    """A point that became worse, and how."""

    point: str
    reason: str


def parse_fail_on(text: str) -> FailOn:
    """Read `slower:5%`; `UserError` for anything else."""
    match = re.fullmatch(r"\s*slower\s*:\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", text)
    if match is None:
        raise UserError(f"--fail-on {text!r} is not understood: write it as slower:5%")
    percent = float(match[1])
    if percent >= 100:
        raise UserError(f"--fail-on {text!r}: nothing loses 100 % of its speed; slower:50% is twice the time")
    return FailOn(percent)


def regressions(comparison: Comparison, fail_on: FailOn) -> tuple[Regression, ...]:
    """Return the points that lost at least that share of their speed beyond doubt, or that B failed to measure.

    A share below the comparison's equivalence is obeyed too, whatever the verdict. A disturbed point is none.
    """
    slower = (
        Regression(change.point, f"{percent(1 - change.evidence.speed.value)} slower")
        for change in comparison.changes
        if change.evidence and change.is_slower_by(fail_on.percent / 100, REGRESSION_CONFIDENCE)
    )
    failed = (
        Regression(pair.point, f"measured in A, failed in B: {record.reason}")
        for pair in comparison.unmeasured
        if any(record.status == "measured" for record in pair.a)
        for record in [record for record in pair.b if record.status == "failed"][:1]
    )
    return (*slower, *failed)
