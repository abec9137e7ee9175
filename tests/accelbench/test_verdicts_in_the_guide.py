"""The user guide explains every verdict and flag that the code can give."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from accelbench.compare.change import SpeedVerdict
from accelbench.doctor.check import CheckStatus
from accelbench.gate.answer import GateStatus, GateVerdict
from accelbench.pair.result import PairVerdict
from accelbench.profiling.analysis.course import Condition, Kind
from accelbench.profiling.records.bottleneck import Bound
from accelbench.profiling.records.record import Status
from accelbench.references.comparison import ReferenceVerdict
from accelbench.report.bottleneck_text import UNKNOWN_BOUND
from accelbench.report.rows import FlagWord
from accelbench.reproduce.claim_verdict import ClaimVerdict, InconclusiveReason
from tests.conftest import ROOT

HEADING = "\n## Verdicts and flags\n"
KINDS = {
    "condition": Condition,
    "flag": FlagWord,
    "bottleneck": Bound,
    "speed": SpeedVerdict,
    "pair": PairVerdict,
    "reference": ReferenceVerdict,
    "claim": ClaimVerdict,
    "inconclusive claim": InconclusiveReason,
    "gate": GateVerdict,
    "gate's check": GateStatus,
    "doctor": CheckStatus,
}


def section() -> str:
    _, _, rest = (ROOT / "docs/guide.md").read_text(encoding="utf-8").partition(HEADING)
    return rest.partition("\n## ")[0]


def explained() -> dict[str, list[str]]:
    """Return the explanations by name: the first and the second column of the section's tables."""
    found: dict[str, list[str]] = {}
    for name, meaning in re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", section(), flags=re.MULTILINE):
        found.setdefault(name, []).append(meaning.strip())
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_each_verdict_is_explained(kind: str) -> None:
    alternatives: Any = KINDS[kind]
    assert not set(get_args(alternatives)) - explained().keys()


def test_an_unknown_bottleneck_and_each_status_of_a_point_are_explained() -> None:
    assert UNKNOWN_BOUND in explained()
    assert all(f"`{status}`" in section() for status in get_args(Status))


def test_the_guide_explains_no_verdict_that_the_code_cannot_give() -> None:
    known = {name for kind in KINDS.values() for name in get_args(kind)}
    assert explained().keys() - known == {UNKNOWN_BOUND, "odd"}


def test_time_courses_are_flags() -> None:
    assert set(get_args(Kind)) - {"steady"} <= set(get_args(FlagWord))
