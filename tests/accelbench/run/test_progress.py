"""What a user sees while a run goes on: short names, whole lines at 80 columns, an estimate by what was seen before."""

from __future__ import annotations

import io

import pytest

from accelbench.plain_console import PlainConsole
from accelbench.run.progress import Progress, short_names
from accelbench.run.schedule import Turn
from profiling.records.point import Point
from tests.fixtures.report_records import record


def products() -> list[Point]:
    return [
        Point("matmul", "cpu", {"impl": impl, "dtype": "float64", "n": n})
        for impl in ("numba", "vendor")
        for n in (512, 1024)
    ]


def test_a_point_is_named_by_what_tells_it_from_the_others_of_the_run() -> None:
    lone = Point("cnn-mnist", "cpu", {"batch": 128}, "tensorflow")
    names = short_names([*products(), lone])
    assert list(names.values()) == [
        "matmul impl=numba n=512",
        "matmul impl=numba n=1024",
        "matmul impl=vendor n=512",
        "matmul impl=vendor n=1024",
        "cnn-mnist",
    ]
    assert list(names) == [str(point) for point in [*products(), lone]]


@pytest.mark.parametrize("width", [80, 120])
def test_finished_lines_are_short_on_a_terminal_and_break_no_word(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = io.StringIO()
    console = PlainConsole(file=out, width=width)
    turns = [Turn(point, number) for point in products() for number in (1, 2)]
    progress = Progress(console, past={str(point): 8.0 for point in products()})
    progress.start(turns, turns, [])
    progress.started(turns[0])
    point = turns[0].point
    progress.finished(record("matmul", params=dict(point.params), elapsed_s=3.0, round=1))
    progress.stop()
    shown = out.getvalue()
    assert "matmul impl=numba n=512, round 1 of 2" in shown
    assert "float64" not in shown, "what all points share says nothing"
    assert "about 0:28 left" in shown, "seven turns of four seconds, as they took before"
    told = next(line for line in shown.splitlines() if "[1/8]" in line)
    assert "elapsed" in told
