"""The section "at a glance": the best point of each benchmark."""

from __future__ import annotations

from accelbench.report.section import InPage, Section

section = Section(find=lambda run: run.groups, page=InPage(10, "glance", "At a glance"))
