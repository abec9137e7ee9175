"""What a user sees while a run goes on: short names, whole lines at 80 columns, a training's step, the time left."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from accelbench.execution.progress import Progress, short_names
from accelbench.execution.schedule import Turn
from accelbench.execution.time_left import Took
from accelbench.output.console import PlainConsole
from accelbench.profiling.records.point import Point
from accelbench.profiling.timing.position import Position
from tests.conftest import command, environment
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


class Clock:
    """A clock that stands still until it is told otherwise, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("progress", "time_left"):
        monkeypatch.setattr(f"accelbench.execution.{module}.monotonic", clock)
    return clock


def begun(turns: list[Turn], past: dict[str, Took], width: int = 80) -> tuple[Progress, io.StringIO]:
    """Progress on what it takes for a terminal, and what is written there."""
    out = io.StringIO()
    progress = Progress(PlainConsole(file=out, width=width), past)
    progress.start(turns, turns, [])
    progress.started(turns[0])
    return progress, out


def live_lines(progress: Progress) -> list[str]:
    """The live lines as they would be drawn now."""
    return progress._now().plain.splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_lines_are_whole_on_a_terminal(width: int, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    turns = [Turn(point, number) for point in products() for number in (1, 2)]
    progress, out = begun(turns, {str(point): Took(8.0) for point in products()}, width)
    clock.now += 1
    assert live_lines(progress) == [
        "measurement 1 of 8: matmul impl=numba n=512, round 1 of 2",
        "elapsed 0:01, about 0:31 left",
    ]
    progress.finished(record("matmul", params=dict(turns[0].point.params), elapsed_s=3.2, round=1))
    progress.started(turns[1])
    assert live_lines(progress)[1] == "elapsed 0:01, about 0:28 left", "seven turns of four seconds, as they took"
    progress.stop()
    (told,) = [line for line in out.getvalue().splitlines() if "[1/8]" in line]
    assert "matmul impl=numba n=512, round 1 of 2" in told
    assert "(3.2 s)" in told
    assert "float64" not in out.getvalue(), "what all points share says nothing"


def test_a_training_says_where_it_is_and_its_steps_tell_the_time_that_is_left(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    first, second = (Turn(Point("bilstm-har", "cpu", {"units": units}, "tensorflow"), 1) for units in (64, 512))
    progress, _ = begun([first, second], {})
    place = "point 1 of 2: bilstm-har units=64"
    assert progress.page is not None
    assert live_lines(progress) == [place, "elapsed 0:00"]
    progress.page.write(Position(1, 5, 0, 460))
    clock.now += 30
    assert live_lines(progress)[1] == "epoch 1 of 5, step 1 of 460, elapsed 0:30", "it compiles, and tells nothing yet"
    progress.page.step(1)
    live_lines(progress)
    progress.page.write(Position(2, 5, 41, 460))
    clock.now += 50
    line = "epoch 2 of 5, step 42 of 460, elapsed 1:20, about 3:00 of training left"
    assert live_lines(progress) == [place, line], "500 steps took 50 s, and 1,799 are left"
    assert len(line) <= 80
    progress.page.clear()
    assert live_lines(progress) == [place, "elapsed 1:20"], "nobody knows how long its profile takes"
    progress.stop()


def test_the_steps_so_far_correct_what_earlier_runs_told(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    first, second = (Turn(Point("bilstm-har", "cpu", {"units": units}, "tensorflow"), 1) for units in (64, 512))
    progress, _ = begun([first, second], {str(turn.point): Took(100.0, 20.0) for turn in (first, second)})
    assert progress.page is not None
    assert live_lines(progress)[1] == "elapsed 0:00, about 3:20 left"
    progress.page.write(Position(1, 1, 1, 101))
    live_lines(progress)
    progress.page.step(51)
    clock.now += 150
    assert live_lines(progress)[1].endswith("elapsed 2:30, about 4:30 left"), "150 s of steps, 20 s of profile, 100 s"
    progress.finished(record("bilstm-har", params=dict(first.point.params), backend="tensorflow", elapsed_s=320.0))
    progress.stop()


def test_a_file_gets_finished_lines_only() -> None:
    turns = [Turn(point, 1) for point in products()]
    progress, out = begun(turns, {})
    assert progress.page is None
    progress.finished(record("matmul", params=dict(turns[0].point.params)))
    progress.stop()
    (line,) = out.getvalue().splitlines()
    assert line.startswith("[1/4] matmul cpu impl=numba dtype=float64 n=512  ")
    assert "elapsed 0:00" in line


@pytest.mark.slow
def test_a_terminal_of_80_columns_shows_the_epoch_and_the_step_of_a_real_training(tmp_path: Path) -> None:
    terminal, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    arguments = ("run", "learn", "--device", "cpu", "--no-ceilings", "--param", "epochs=400", "--backend", "tensorflow")
    variables = environment(COLUMNS=None, TERM="xterm-256color")
    process = subprocess.Popen(command(*arguments), cwd=tmp_path, env=variables, stdout=side, stderr=side)
    os.close(side)
    shown = b""
    with suppress(OSError):  # the terminal's other side is closed
        while piece := os.read(terminal, 65536):
            shown += piece
    os.close(terminal)
    assert process.wait(60) == 0, shown.decode()
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r", "\n").split("\n")
    seen = [
        re.fullmatch(r"epoch (\d+) of 400, step ([1-6]) of 6, elapsed \d+:\d\d(, about .* left)?", x) for x in lines
    ]
    epochs = [int(each[1]) for each in seen if each]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) > 1
    assert any(each and each[3] for each in seen), "its steps tell how long it will take"
    assert "point 1 of 1: learn" in lines
    assert any(line.startswith("[1/1] learn  ") for line in lines)
