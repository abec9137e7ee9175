"""Progress of a run in the terminal: point, repetition, epoch and step, elapsed and remaining time."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from threading import Event, Thread
from time import monotonic

from rich.console import Console
from rich.live import Live
from rich.text import Text

from accelbench.execution.schedule import ScheduledRun
from accelbench.execution.time_left import TimeLeft, WallTime
from accelbench.output.format import clock, headline
from accelbench.output.plain_text import one_line
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.timing.position import Page, Position

REFRESHES_PER_SECOND = 2
"""Refresh rate of the live lines, in hertz."""
LINE_EVERY_S = 60.0
"""Seconds between two lines of progress where standard output is not a terminal."""
LATE = 3.0
"""Ratio of the elapsed to the expected time from which a scheduled run is reported as late."""
STYLES = {"measured": "green", "failed": "bold red", "skipped": "yellow"}


class Progress:
    """Progress display: one line per finished scheduled run, and two live lines on a terminal or a line per minute."""

    def __init__(self, console: Console, past: Mapping[str, WallTime] | None = None) -> None:
        """Print to `console`; `past` has the wall times of points in earlier runs on this machine, by name."""
        self._console, self._past = console, past or {}
        self.page: Page | None = None
        """Shared-memory page with the progress of a training run; None before the start, or if refused."""

    def start(self, schedule: Sequence[ScheduledRun], left: Sequence[ScheduledRun], before: Iterable[Record]) -> None:
        """Start the display with the scheduled runs that are left and the records measured before."""
        self._total, self._left = len(schedule), list(left)
        self._names = short_names(scheduled.point for scheduled in schedule)
        self._rounds = max((scheduled.round for scheduled in schedule), default=1)
        self._time_left = TimeLeft(self._past, schedule, before)
        self._begin = monotonic()
        self._scheduled: ScheduledRun | None = None
        self._live = Live(
            get_renderable=self._live_lines,
            console=self._console,
            transient=True,
            refresh_per_second=REFRESHES_PER_SECOND,
        )
        self._expected_s: float | None = None
        self.page = None
        if sys.platform == "linux":
            with suppress(OSError):  # where a sandbox refuses shared memory, the position of a training is unknown
                self.page = Page.shared()
        self._ended = Event()
        self._lines = Thread(target=self._print_lines, daemon=True)
        if self._console.is_terminal:
            self._live.start()
        else:
            self._lines.start()

    def started(self, scheduled: ScheduledRun) -> None:
        if self.page:
            self.page.clear()
        self._expected_s = self._time_left.seconds([scheduled])
        self._started = monotonic()
        self._time_left.started(scheduled)
        self._scheduled = scheduled

    def finished(self, record: Record) -> None:
        """Print the record's line; the other repetitions of a failed or skipped point are dropped."""
        ended = record.status != "measured"
        self._scheduled = None
        self._left = [
            scheduled
            for scheduled in self._left
            if str(scheduled.point) != str(record.point) or (scheduled.round > record.round and not ended)
        ]
        self._time_left.finished(record)
        done = self._total - len(self._left)
        text = headline(record) if record.status == "measured" else f"{record.status}: {one_line(str(record.reason))}"
        # On a terminal the live lines show the time.
        time = "" if self._console.is_terminal else f"; {self._time()}"
        line = Text.assemble(
            (f"[{done:>{len(str(self._total))}}/{self._total}] ", "dim"),
            f"{self._name(record.point)}{self._round(record.round)}  ",
            (text, STYLES[record.status]),
            (f"  ({record.elapsed_s:.1f} s{time})", "dim"),
        )
        # A terminal wraps lines between words; a file has one line per point.
        self._console.print(line, soft_wrap=not self._console.is_terminal)

    def _live_lines(self) -> Text:
        """Return the live lines: the current point and its progress."""
        scheduled = self._scheduled  # the live lines are drawn by a thread of their own
        if scheduled is None:
            return Text(self._time())
        what = "measurement" if self._rounds > 1 else "point"
        place = f"{what} {self._total - len(self._left) + 1} of {self._total}"
        return Text(f"{place}: {self._current(scheduled)}")

    def _current(self, scheduled: ScheduledRun, separator: str = "\n") -> str:
        """Return the name, position and times of the current scheduled run."""
        found = self.page.read() if self.page else None
        self._time_left.pace.update(found, monotonic())
        at = f"epoch {found.epoch} of {found.epochs}, {_step(found)}, " if found else ""
        times = (monotonic() - self._started) / self._expected_s if self._expected_s else 0.0
        late = f"; it takes {times:.1f} times as long as expected" if times > LATE else ""
        return f"{self._name(scheduled.point)}{self._round(scheduled.round)}{separator}{at}{self._time()}{late}"

    def _print_lines(self) -> None:
        while not self._ended.wait(LINE_EVERY_S):
            if (scheduled := self._scheduled) is not None:
                self._console.print(Text(f"… {self._current(scheduled, ': ')}", style="dim"), soft_wrap=True)

    def _time(self) -> str:
        """Return the elapsed time, and the remaining time if it can be estimated."""
        elapsed = f"elapsed {clock(monotonic() - self._begin)}"
        if (left := self._time_left.seconds(self._left)) is not None:
            return f"{elapsed}, about {clock(left)} left"
        if (training_s := self._time_left.pace.left_s) is not None:
            return f"{elapsed}, about {clock(training_s)} of training left"
        return elapsed

    def _name(self, point: Point) -> str:
        """Return the point's name; on a terminal, the short name."""
        return self._names.get(str(point), str(point)) if self._console.is_terminal else str(point)

    def _round(self, number: int) -> str:
        return f", repetition {number} of {self._rounds}" if self._rounds > 1 else ""

    def stop(self) -> None:
        self._live.stop()
        self._ended.set()
        if self._lines.is_alive():
            self._lines.join()
        if self.page:
            self.page.close()
            self.page = None


def short_names(points: Iterable[Point]) -> dict[str, str]:
    """Return short names by full name: the benchmark, and the axes in which its points differ.

    Example: `matmul impl=numba n=1024`. The short name of a benchmark's only point is the benchmark.
    """
    by_benchmark: dict[str, dict[str, Point]] = {}
    for point in points:
        by_benchmark.setdefault(point.benchmark, {})[str(point)] = point
    names = {}
    for benchmark, alike in by_benchmark.items():
        words = {name: {"backend": point.backend, **point.values} for name, point in alike.items()}
        axes = dict.fromkeys(axis for values in words.values() for axis in values)
        varying = [axis for axis in axes if len({values.get(axis) for values in words.values()}) > 1]
        for name, values in words.items():
            own = [f"{axis}={values[axis]}" for axis in varying if values.get(axis) is not None]
            names[name] = " ".join([benchmark, *own])
    return names


def _step(position: Position) -> str:
    """Return the current step as "step k of n"."""
    if not position.steps:
        return f"step {position.step + 1}"
    return f"step {min(position.step + 1, position.steps)} of {position.steps}"
