"""Patience of a run: its budget, and repetitions that are measured again because they are only bounds."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from accelbench.execution import runner
from accelbench.execution.patience import Patience, is_better, sampling_seconds
from accelbench.execution.progress import Progress
from accelbench.execution.schedule import ScheduledRun
from accelbench.execution.store import RunStore, Settings
from accelbench.execution.stored_file import json_of
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import Phases, Timing
from accelbench.profiling.timing.causes import CauseReading, choose_samples
from accelbench.profiling.timing.host import with_causes
from tests.fixtures.report_records import record, timing, unmeasured
from tests.fixtures.report_runs import make_run

SETTINGS = Settings(max_seconds=6, rounds=2)


def of_causes(plain: Timing, every: bool) -> Timing:
    """Return the timing with all samples disturbed, or none."""
    readings = [
        CauseReading(place, 1, sample, waited_s=every * sample, switches=1)
        for place, sample in enumerate(plain.samples)
    ]
    return with_causes(plain, choose_samples(readings, "schedstat"))


def measured(every: bool, median: float = 1e-3, **changes: Any) -> Record:
    phases = Phases(import_s=0.5)
    return record("stream", timing=of_causes(timing(median), every), phases=phases, elapsed_s=2.0, **changes)


def sampled_for(seconds: float, every: bool) -> Record:
    """Return a record whose samples take this time in total."""
    return measured(every).model_copy(
        update={"timing": of_causes(timing(1e-3).model_copy(update={"samples": [seconds / 40] * 40}), every)}
    )


POINT = measured(False).point
RUNS = [ScheduledRun(POINT, 1), ScheduledRun(POINT, 2)]


def test_the_default_is_half_of_the_planned_time() -> None:
    assert sampling_seconds(SETTINGS, POINT) == 3
    assert Patience(SETTINGS, RUNS).left_s == 3
    assert Patience(SETTINGS, RUNS).of(RUNS[0]) == 3
    given = Patience(Settings(max_seconds=6, rounds=2, patience_s=100), RUNS)
    assert (given.left_s, given.of(RUNS[0])) == (100, 3)
    assert Patience(Settings(patience_s=0), RUNS).of(RUNS[0]) == 0


def test_only_time_beyond_the_plan_is_subtracted() -> None:
    patience = Patience(SETTINGS, RUNS)
    patience.finished(RUNS[0], sampled_for(2.9, False))
    assert patience.left_s == 3
    patience.finished(RUNS[0], sampled_for(4.0, True))
    assert patience.left_s == pytest.approx(2)
    patience.finished(RUNS[1], record("stream", phases=Phases(measure_s=60)))  # unknown causes
    assert patience.left_s == pytest.approx(2)
    assert list(patience.again()) == []
    patience.finished(RUNS[0], sampled_for(60.0, False))
    assert patience.of(RUNS[1]) == 0


def test_bounds_are_measured_again_while_there_is_time() -> None:
    patience = Patience(Settings(max_seconds=6, rounds=2, patience_s=6), RUNS)
    bounds = [measured(True, round=number) for number in (1, 2)]
    for scheduled, bound in zip(RUNS, bounds, strict=True):
        patience.finished(scheduled, bound)
    found = []
    for scheduled, bound in patience.again():
        found.append((scheduled, bound))
        patience.repeated(measured(False).model_copy(update={"elapsed_s": 4.0}))
    assert found == [(RUNS[0], bounds[0])]
    assert patience.left_s == 1.5


def test_an_estimate_a_tighter_bound_and_a_failure_replace_a_bound() -> None:
    bound = measured(True)
    assert is_better(measured(False, median=2e-3), bound)
    assert is_better(measured(True, median=0.9e-3), bound)
    assert not is_better(measured(True, median=1.1e-3), bound)
    assert is_better(unmeasured("stream", "failed", "it crashed"), bound)


def run_with(
    path: Path, monkeypatch: pytest.MonkeyPatch, measure: Callable[[int, float], Record], **settings: Any
) -> RunStore:
    """Run the plan of one point in two repetitions, measured by `measure(number of the measurement, patience)`."""
    calls = 0

    def measure_scheduled(path: Path, info: object, scheduled: ScheduledRun, *rest: Any) -> tuple[Record, str]:
        nonlocal calls
        calls += 1
        found = measure(calls, rest[-1]).model_copy(update={"round": scheduled.round, "order": rest[-2]})
        return found, json_of(found)

    monkeypatch.setattr(runner, "measure_scheduled", measure_scheduled)
    monkeypatch.setattr(runner, "refuse_impossible", list)
    made = make_run(path, [], plan=[POINT], device="cpu", settings=Settings(max_seconds=6, rounds=2, **settings))
    made.lock()
    runner.run_plan(made, Progress(Console(file=io.StringIO())))
    made.close()
    return made


def test_a_run_measures_a_bound_again_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def measure(number: int, patience_s: float) -> Record:
        waits.append(patience_s)
        return measured(number == 1, median=2e-3 if number == 1 else 1e-3)

    store = run_with(tmp_path / "run", monkeypatch, measure)
    assert waits == [3, 3, 0]
    (joined,) = store.records()
    assert joined.timing is not None
    assert joined.timing.upper_bound is None
    assert [(part.number, part.order, part.upper_bound) for part in joined.rounds] == [(1, 3, None), (2, 2, None)]
    assert store.info().status == "finished"


def test_without_patience_nothing_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = run_with(tmp_path / "run", monkeypatch, lambda number, patience_s: measured(True), patience_s=0)
    assert [line.order for line in store.lines()] == [1, 2]
