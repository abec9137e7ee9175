from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.timing.statistics import summarize
from accelbench.report.page import render_page
from accelbench.report.rows import make_rows
from accelbench.report.samples_plot import COURSE_SAMPLES, time_course
from accelbench.report.section import Run
from tests.fixtures.report_records import record
from tests.fixtures.report_runs import make_run

Values = NDArray[np.float64]

NOISE = np.exp(0.002 * np.random.default_rng(1).standard_normal(1000))
STEADY = NOISE
DRIFTING = np.linspace(1, 1.2, 1000) * NOISE
TWO_SPEEDS = np.repeat([1.0, 1.8], 500) * NOISE


def page_of(folder: Path, samples: Values) -> str:
    store = make_run(folder / "run", [measured(samples)])
    return render_page(Run.of(store))


def measured(samples: Values) -> Record:
    timing = Timing(samples=samples.tolist(), stop="time limit", timer="host", summary=summarize(samples))
    return record("matmul", timing=timing)


@pytest.mark.parametrize(("samples", "word"), [(DRIFTING, "drifts"), (TWO_SPEEDS, "two speeds")])
def test_an_unsteady_time_course_is_flagged_and_drawn(samples: Values, word: str, tmp_path: Path) -> None:
    (row,) = make_rows([measured(samples)])
    assert (word, row.course.sentence) in [(flag.word, flag.meaning) for flag in row.flags]
    page = page_of(tmp_path, samples)
    assert row.course.sentence in page
    assert 'aria-labelledby="course-1-title"' in page


def test_a_steady_time_course_is_neither_flagged_nor_drawn(tmp_path: Path) -> None:
    (row,) = make_rows([measured(STEADY)])
    assert not {"drifts", "two speeds"} & {flag.word for flag in row.flags}
    assert "Time course" not in page_of(tmp_path, STEADY)


def test_the_size_of_a_drawing_is_limited() -> None:
    (few,) = make_rows([measured(TWO_SPEEDS[250:750])])
    (many,) = make_rows([measured(np.repeat(TWO_SPEEDS, 20))])
    assert COURSE_SAMPLES < 1000
    assert len(time_course(many, "many")) < 2 * len(time_course(few, "few"))


def test_few_effective_samples_are_flagged() -> None:
    (row,) = make_rows([measured(np.linspace(1, 1.015, 1000) * NOISE)])
    meaning = next(flag.meaning for flag in row.flags if flag.word == "few samples")
    assert meaning.startswith("1000 samples, 2.")
