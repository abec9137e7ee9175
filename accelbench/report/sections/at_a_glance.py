"""The section "at a glance": the best point of each benchmark, with its verdict and its flags."""

from __future__ import annotations

from accelbench.report.section import InPage, Section
from accelbench.report.verdict import shares_text, verdict

section = Section(
    find=lambda run: run.groups,
    page=InPage(10, "glance", "At a glance", lambda groups, run: {"shares_text": shares_text, "verdict": verdict}),
)
