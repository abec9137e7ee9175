"""Sections of the report in the order of the page and the terminal; sections that are only a template."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from accelbench.report.bottleneck_text import bottleneck_text, shares_text
from accelbench.report.joined import Joined
from accelbench.report.plain_names import plain_name
from accelbench.report.section import InPage, Run, Section
from accelbench.report.sections import (
    benchmarks,
    comparison_with_references,
    costs,
    energy,
    failed_and_skipped,
    flags,
    matrices,
    measured_ceilings,
    needed_cores,
    scaling_of_trainings,
    sensor_readings,
    side_by_side,
    speed_of_runs,
    strategies_compared,
    the_answer,
    the_machine,
    the_runs,
    what_differs,
)
from accelbench.report.study import Study

MAX_IN_ROW = 4
"""Maximum number of cards in a single row."""
COLUMNS = (4, 3, 5)
"""Possible numbers of columns of more cards, the preferred one first."""


def _study_drawings(studies: Sequence[Study], joined: Joined) -> Mapping[str, Any]:
    from accelbench.report.study_plot import draw_studies

    return {"these_runs": "this run" if joined.single else "these runs", "drawn": draw_studies(studies)}


def _quoted(word: str) -> str:
    """Return the word quoted for a POSIX shell, with a leading `~/` unquoted."""
    home, found, rest = word.partition("~/")
    return f"~/{shlex.quote(rest)}" if found and not home and rest else shlex.quote(word)


def _command_line(found: Run, run: Run) -> Mapping[str, Any]:
    return {"whole_run": " ".join(map(_quoted, run.info.command))}


def _glance_texts(found: Any, run: Run) -> Mapping[str, Any]:
    return {
        "shares_text": shares_text,
        "bottleneck_text": bottleneck_text,
        "plain_name": plain_name,
        "columns": _columns,
    }


def _columns(cards: int) -> int:
    """Return the number of columns of a grid of cards, with a last row as full as possible."""
    return cards if cards <= MAX_IN_ROW else max(COLUMNS, key=lambda columns: (cards % columns or columns) / columns)


AT_A_GLANCE = Section(
    find=lambda run: run.groups, page=InPage("at_a_glance.html", "glance", "At a glance", _glance_texts)
)
STUDIES = Section(
    find_joined=lambda joined: joined.studies, page=InPage("studies.html", "studies", "Studies", _study_drawings)
)
PHASES = Section(find=lambda run: run.groups, page=InPage("phases.html", "phases", "Phases"))
METHOD = Section(find=lambda run: run, page=InPage("how_to_read.html", "method", "Method", _command_line))

FIRST = (the_answer.section, speed_of_runs.section, the_runs.section, what_differs.section, the_answer.left_out)
OVERVIEW = (
    AT_A_GLANCE,
    comparison_with_references.section,
    comparison_with_references.advice,
    measured_ceilings.section,
)
OF_STUDY = (STUDIES, strategies_compared.section, scaling_of_trainings.section, costs.section)
POINTS = (
    benchmarks.section,
    matrices.section,
    side_by_side.section,
    benchmarks.rounds,
    failed_and_skipped.section,
    flags.section,
    PHASES,
    energy.section,
    sensor_readings.section,
    the_machine.section,
    METHOD,
)
PAGE = (*FIRST, *OVERVIEW, *OF_STUDY, *POINTS)
"""Sections of the page, in order."""
PAGE_OF_STUDY = (*FIRST, *OF_STUDY, *OVERVIEW, *POINTS)
"""Sections of the page for the suite of a study, in order."""
TERMINAL = (
    the_runs.section,
    what_differs.section,
    benchmarks.section,
    matrices.section,
    side_by_side.section,
    benchmarks.rounds,
    flags.section,
    failed_and_skipped.section,
    energy.section,
    the_answer.left_out,
    speed_of_runs.section,
    the_answer.section,
    comparison_with_references.section,
    comparison_with_references.advice,
    the_answer.counts,
    needed_cores.section,
    strategies_compared.section,
    scaling_of_trainings.section,
    costs.section,
)
"""Sections of the terminal, in order; the summary is near the end, so that it is visible above the prompt."""
