"""Trainings as the published studies show them: run time and quality against an axis that the points sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accelbench.report.joined import Joined
from accelbench.report.section import InPage, Section
from accelbench.report.study import Study


def _content(studies: Sequence[Study], joined: Joined) -> Mapping[str, Any]:
    from accelbench.report.study_plot import draw_studies

    return {"these_runs": "this run" if joined.alone else "these runs", "drawn": draw_studies(studies)}


section = Section(
    find_joined=lambda joined: joined.studies, page=InPage(40, "studies", "Studies", _content, study=True)
)
