"""A window of steps is traced, and whatever goes wrong with the trace, the training does not see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelbench.profiling.trace.framework_profiler import Profiler
from tests.profiling.trace.conftest import Traced

pytestmark = pytest.mark.slow

FIRST, STEPS = 6, 8


def test_a_window_of_steady_steps_is_traced(traces: Traced) -> None:
    outcome = traces.outcomes["small"]
    assert outcome.reason is None
    assert outcome.file is not None
    assert (traces.folder / "small" / outcome.file).stat().st_size > 0
    assert (outcome.first_step, outcome.steps) == (FIRST, STEPS)


def test_the_steps_that_the_profiler_touched_are_named(traces: Traced) -> None:
    # The profiler stops after the last step's end is taken: the next step's time has that in it.
    assert traces.outcomes["small"].disturbed == list(range(FIRST, FIRST + STEPS + 1))


def test_a_training_that_ends_early_ends_its_trace(traces: Traced) -> None:
    outcome = traces.outcomes["short"]
    assert outcome.file is not None
    assert outcome.steps == 2
    assert outcome.disturbed == [FIRST, FIRST + 1]


def test_a_training_of_one_step_has_no_trace_and_says_so(traces: Traced) -> None:
    outcome = traces.outcomes["single step"]
    assert outcome.file is None
    assert outcome.reason == "the training ended after 1 steps, before the first to be traced (step 7)"
    assert outcome.disturbed == []


def test_a_full_disk_costs_the_trace_only(traces: Traced) -> None:
    outcome = traces.outcomes["full"]
    assert outcome.file is None
    assert f"the profiler of {traces.backend} did not stop" in str(outcome.reason)
    # PyTorch does not say that it could not write.
    said = "is the disk full?" if traces.backend == "torch" else "File too large"
    assert said in str(outcome.reason)
    assert traces.backend != "torch" or not list((traces.folder / "full").iterdir())


def test_after_a_trace_that_could_not_be_written_the_next_can_be(traces: Traced) -> None:
    assert traces.outcomes["after a failure"].reason is None


def test_a_folder_that_cannot_be_written_costs_the_trace_only(traces: Traced) -> None:
    outcome = traces.outcomes["taken"]
    assert outcome.file is None
    assert str(outcome.reason).startswith("the trace folder cannot be written: File exists")


def test_a_training_that_fails_stops_the_profiler_and_the_next_can_be_traced(traces: Traced) -> None:
    assert traces.outcomes["failing"].steps == 3
    assert traces.outcomes["after a failure"].steps == STEPS


def test_a_profiler_that_does_not_start_is_a_reason(tmp_path: Path) -> None:
    profiler = Profiler(tmp_path, "no such framework")
    profiler.start()
    profiler.stop()
    assert not profiler.running
    assert profiler.file() is None
    assert profiler.reason == "no profiler of no such framework is known"
