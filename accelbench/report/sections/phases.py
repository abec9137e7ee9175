"""The section of the phases: how long compilation, warm-up and measurement of each point took."""

from __future__ import annotations

from accelbench.report.section import InPage, Section

section = Section(find=lambda run: run.groups, page=InPage(90, "phases", "Phases"))
