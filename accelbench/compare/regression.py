"""Rule of `--fail-on` and the points that violate it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from accelbench.compare.runs import Comparison
from accelbench.errors import UserError
from accelbench.output.format import percent

REGRESSION_CONFIDENCE = 0.99
"""Confidence required of a regression, which makes the command exit with status 3.

It is higher than the confidence of verdicts, and applies to the p value adjusted for the number of compared points.
"""


@dataclass(frozen=True)
class FailOn:
    """Threshold of a regression: a loss of at least `percent` of the speed."""

    percent: float

    def __str__(self) -> str:
        return f"slower:{self.percent:g}%"


@dataclass(frozen=True)
class Regression:
    """Point with a regression, and its reason."""

    point: str
    reason: str


def parse_fail_on(text: str) -> FailOn:
    """Parse `slower:5%`; raise `UserError` for anything else."""
    match = re.fullmatch(r"\s*slower\s*:\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", text)
    if match is None:
        raise UserError(f"--fail-on: invalid value {text!r} (expected slower:PERCENT%, such as slower:5%)")
    percent = float(match[1])
    if percent >= 100:
        raise UserError(f"--fail-on {text!r}: must be less than 100 %; slower:50% is twice the time")
    return FailOn(percent)


def regressions(comparison: Comparison, fail_on: FailOn) -> tuple[Regression, ...]:
    """Return the points that are significantly slower by at least the threshold, or that failed in B only.

    The threshold may be below the comparison's equivalence. Noisy points are never regressions.
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
