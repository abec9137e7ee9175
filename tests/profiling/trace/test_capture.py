"""Tests of tracing a window of steps; failures of the profiler do not affect the training."""

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


def test_the_disturbed_steps_are_listed(traces: Traced) -> None:
    # The profiler stops after the end of the last traced step, so the next step includes it.
    assert traces.outcomes["small"].disturbed == list(range(FIRST, FIRST + STEPS + 1))


def test_a_training_that_ends_early_ends_its_trace(traces: Traced) -> None:
    outcome = traces.outcomes["short"]
    assert outcome.file is not None
    assert outcome.steps == 2
    assert outcome.disturbed == [FIRST, FIRST + 1]


def test_a_training_of_one_step_has_no_trace_but_a_reason(traces: Traced) -> None:
    outcome = traces.outcomes["single step"]
    assert outcome.file is None
    assert "(step 7)" in str(outcome.reason)
    assert outcome.disturbed == []


def test_on_a_full_disk_only_the_trace_is_lost(traces: Traced) -> None:
    outcome = traces.outcomes["full"]
    assert outcome.file is None
    assert f"{traces.backend} did not stop" in str(outcome.reason)
    # PyTorch does not report a failed write.
    cause = "disk full" if traces.backend == "torch" else "File too large"
    assert cause in str(outcome.reason)
    assert traces.backend != "torch" or not list((traces.folder / "full").iterdir())


def test_after_a_failed_trace_the_next_one_works(traces: Traced) -> None:
    assert traces.outcomes["after a failure"].reason is None


def test_with_an_unwritable_folder_only_the_trace_is_lost(traces: Traced) -> None:
    outcome = traces.outcomes["taken"]
    assert outcome.file is None
    assert ": File exists" in str(outcome.reason)


def test_a_failing_training_stops_the_profiler_and_the_next_one_is_traced(traces: Traced) -> None:
    assert traces.outcomes["failing"].steps == 3
    assert traces.outcomes["after a failure"].steps == STEPS


def test_an_unknown_backend_is_a_reason(tmp_path: Path) -> None:
    profiler = Profiler(tmp_path, "no such framework")
    profiler.start()
    profiler.stop()
    assert not profiler.running
    assert profiler.file() is None
    assert "no such framework" in str(profiler.reason)
