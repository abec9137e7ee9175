"""Tests of the progress display: short names, line widths, epoch and step, remaining time."""

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
from time import sleep

import pytest

from accelbench.execution.progress import Progress, short_names
from accelbench.execution.schedule import ScheduledRun
from accelbench.execution.time_left import WallTime
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


def test_short_names_contain_only_axes_that_differ() -> None:
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
    """Clock in seconds that tests set by hand."""

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


def begun(runs: list[ScheduledRun], past: dict[str, WallTime], width: int = 80) -> tuple[Progress, io.StringIO]:
    """Return a progress display on a terminal, and its output."""
    out = io.StringIO()
    progress = Progress(PlainConsole(file=out, width=width), past)
    progress.start(runs, runs, [])
    progress.started(runs[0])
    return progress, out


def live_lines(progress: Progress) -> list[str]:
    """Return the current live lines."""
    return progress._live_lines().plain.splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_lines_are_complete_on_a_terminal(width: int, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    runs = [ScheduledRun(point, number) for point in products() for number in (1, 2)]
    progress, out = begun(runs, {str(point): WallTime(8.0) for point in products()}, width)
    clock.now += 1
    assert live_lines(progress) == [
        "measurement 1 of 8: matmul impl=numba n=512, repetition 1 of 2",
        "elapsed 0:01, about 0:31 left",
    ]
    progress.finished(record("matmul", params=dict(runs[0].point.params), elapsed_s=3.2, round=1))
    progress.started(runs[1])
    assert live_lines(progress)[1] == "elapsed 0:01, about 0:28 left", "seven runs of 4 s"
    progress.stop()
    (line,) = [line for line in out.getvalue().splitlines() if "[1/8]" in line]
    assert "n=512, repetition 1 of 2" in line
    assert "(3.2 s)" in line
    assert "float64" not in out.getvalue(), "axes with one value are left out"


def test_remaining_time_of_a_training_run_is_estimated_from_its_steps(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    first, second = (ScheduledRun(Point("bilstm-har", "cpu", {"units": units}, "tensorflow"), 1) for units in (64, 512))
    progress, _ = begun([first, second], {})
    place = "point 1 of 2: bilstm-har units=64"
    assert progress.page is not None
    assert live_lines(progress) == [place, "elapsed 0:00"]
    progress.page.write(Position(1, 5, 0, 460))
    clock.now += 30
    assert live_lines(progress)[1] == "epoch 1 of 5, step 1 of 460, elapsed 0:30", "the first step compiles"
    progress.page.step(1)
    live_lines(progress)
    progress.page.write(Position(2, 5, 41, 460))
    clock.now += 50
    line = "epoch 2 of 5, step 42 of 460, elapsed 1:20, about 3:00 of training left"
    assert live_lines(progress) == [place, line], "500 steps took 50 s, 1,799 steps are left"
    assert len(line) <= 80
    progress.page.clear()
    assert live_lines(progress) == [place, "elapsed 1:20"], "the duration of the profile is unknown"
    progress.stop()


def test_step_rate_corrects_the_estimate_from_earlier_runs(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    first, second = (ScheduledRun(Point("bilstm-har", "cpu", {"units": units}, "tensorflow"), 1) for units in (64, 512))
    progress, _ = begun([first, second], {str(scheduled.point): WallTime(100.0, 20.0) for scheduled in (first, second)})
    assert progress.page is not None
    assert live_lines(progress)[1] == "elapsed 0:00, about 3:20 left"
    progress.page.write(Position(1, 1, 1, 101))
    live_lines(progress)
    progress.page.step(51)
    clock.now += 150
    assert live_lines(progress)[1].endswith("elapsed 2:30, about 4:30 left"), "150 s of steps, 20 s of profile, 100 s"
    progress.finished(record("bilstm-har", params=dict(first.point.params), backend="tensorflow", elapsed_s=320.0))
    progress.stop()


def test_a_file_has_a_line_for_each_finished_run() -> None:
    runs = [ScheduledRun(point, 1) for point in products()]
    progress, out = begun(runs, {})
    progress.finished(record("matmul", params=dict(runs[0].point.params)))
    progress.stop()
    (line,) = out.getvalue().splitlines()
    assert line.startswith("[1/4] matmul cpu impl=numba dtype=float64 n=512  ")
    assert "elapsed 0:00" in line


@pytest.mark.slow
def test_a_terminal_of_80_columns_shows_epoch_and_step_of_a_real_training_run(tmp_path: Path) -> None:
    terminal, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    arguments = ("run", "learn", "--device", "cpu", "--no-ceilings", "--param", "epochs=400", "--backend", "jax")
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
    matches = [
        re.fullmatch(r"epoch (\d+) of 400, step ([1-6]) of 6, elapsed \d+:\d\d(, about .* left)?", x) for x in lines
    ]
    epochs = [int(each[1]) for each in matches if each]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) > 1
    assert any(each and each[3] for each in matches), "remaining time from the step rate"
    assert "point 1 of 1: learn" in lines
    assert any(line.startswith("[1/1] learn  ") for line in lines)


def test_a_file_has_a_line_of_progress_every_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.execution.progress.LINE_EVERY_S", 0.02)
    training = ScheduledRun(Point("bilstm-har", "cpu", {}, "tensorflow"), 1)
    progress, out = begun([training], {str(training.point): WallTime(0.01)})
    assert progress.page is not None
    progress.page.write(Position(2, 5, 41, 460))
    sleep(0.2)
    progress.stop()
    line = out.getvalue().splitlines()[-1]
    assert line.startswith("… bilstm-har cpu backend=tensorflow: epoch 2 of 5, step 42 of 460, elapsed ")
    assert re.search(r"[1-9][\d.]+ times as long as expected$", line)
