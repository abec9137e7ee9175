"""The user sees here how a run goes on: the point and its round, k of n, a training's epoch and step, and the time."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic

from rich.console import Console
from rich.live import Live
from rich.text import Text

from accelbench.execution.schedule import Turn
from accelbench.execution.time_left import TimeLeft, Took
from accelbench.output.format import clock, headline
from accelbench.output.plain_text import one_line
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.timing.position import Page, Position

LOOKS_PER_SECOND = 2
"""The times a second at which the live lines are drawn anew, by the process that waits for what is measured."""
STYLES = {"measured": "green", "failed": "bold red", "skipped": "yellow"}


class Progress:
    """Two live lines on a terminal, and one line per finished turn everywhere."""

    def __init__(self, console: Console, past: Mapping[str, Took] | None = None) -> None:
        """Show it on that console; `past` is what points took on this machine before, by their names."""
        self._console, self._past = console, past or {}
        self.page: Page | None = None
        """Where a training shows how far it is; None where nobody looks."""

    def start(self, schedule: Sequence[Turn], left: Sequence[Turn], before: Iterable[Record]) -> None:
        """Begin with what is left of the schedule, and with the records of what was measured before."""
        self._total, self._left = len(schedule), list(left)
        self._names = short_names(turn.point for turn in schedule)
        self._rounds = max((turn.round for turn in schedule), default=1)
        self._time_left = TimeLeft(self._past, schedule, before)
        self._begin = monotonic()
        self._turn: Turn | None = None
        self._live = Live(
            get_renderable=self._now, console=self._console, transient=True, refresh_per_second=LOOKS_PER_SECOND
        )
        if self._console.is_terminal:
            self.page = Page.shared() if sys.platform == "linux" else None
            self._live.start()

    def started(self, turn: Turn) -> None:
        if self.page:
            self.page.clear()
        self._time_left.started(turn)
        self._turn = turn

    def finished(self, record: Record) -> None:
        """Show the record, and what is left: the point is not measured again if it failed or was skipped."""
        ended = record.status != "measured"
        self._turn = None
        self._left = [
            turn
            for turn in self._left
            if str(turn.point) != str(record.point) or (turn.round > record.round and not ended)
        ]
        self._time_left.finished(record)
        done = self._total - len(self._left)
        figure = headline(record) if record.status == "measured" else f"{record.status}: {one_line(str(record.reason))}"
        # Live lines tell the time where there are any.
        time = "" if self._console.is_terminal else f"; {self._time()}"
        line = Text.assemble(
            (f"[{done:>{len(str(self._total))}}/{self._total}] ", "dim"),
            f"{self._name(record.point)}{self._round(record.round)}  ",
            (figure, STYLES[record.status]),
            (f"  ({record.elapsed_s:.1f} s{time})", "dim"),
        )
        # A terminal breaks lines between words; what is written to a file has a line for each point.
        self._console.print(line, soft_wrap=not self._console.is_terminal)

    def _now(self) -> Text:
        """Return the live lines: which point it is, and how far it is."""
        turn = self._turn  # the live lines are drawn by a thread of their own
        if turn is None:
            return Text(self._time())
        what = "measurement" if self._rounds > 1 else "point"
        place = f"{what} {self._total - len(self._left) + 1} of {self._total}"
        found = self.page.read() if self.page else None
        self._time_left.pace.see(found, monotonic())
        at = f"epoch {found.epoch} of {found.epochs}, {_step(found)}, " if found else ""
        name = f"{self._name(turn.point)}{self._round(turn.round)}"
        return Text(f"{place}: {name}\n{at}{self._time()}")

    def _time(self) -> str:
        """Return the time since the run began, and the time that is left as far as it can be told."""
        elapsed = f"elapsed {clock(monotonic() - self._begin)}"
        if (left := self._time_left.seconds(self._left)) is not None:
            return f"{elapsed}, about {clock(left)} left"
        if (of_training := self._time_left.pace.left_s) is not None:
            return f"{elapsed}, about {clock(of_training)} of training left"
        return elapsed

    def _name(self, point: Point) -> str:
        """Return the point's name, on a terminal by what tells it from the others of this run."""
        return self._names.get(str(point), str(point)) if self._console.is_terminal else str(point)

    def _round(self, number: int) -> str:
        """Return which round it is, where there are several."""
        return f", round {number} of {self._rounds}" if self._rounds > 1 else ""

    def stop(self) -> None:
        self._live.stop()
        if self.page:
            self.page.close()
            self.page = None


def short_names(points: Iterable[Point]) -> dict[str, str]:
    """Return for the name of each point the benchmark and the axes in which the points of that benchmark differ.

    `matmul impl=numba n=1024`; of a benchmark's single point that is the benchmark alone.
    """
    of_benchmark: dict[str, dict[str, Point]] = {}
    for point in points:
        of_benchmark.setdefault(point.benchmark, {})[str(point)] = point
    names = {}
    for benchmark, alike in of_benchmark.items():
        words = {name: {"backend": point.backend, **point.values} for name, point in alike.items()}
        axes = dict.fromkeys(axis for values in words.values() for axis in values)
        varying = [axis for axis in axes if len({values.get(axis) for values in words.values()}) > 1]
        for name, values in words.items():
            own = [f"{axis}={values[axis]}" for axis in varying if values.get(axis) is not None]
            names[name] = " ".join([benchmark, *own])
    return names


def _step(position: Position) -> str:
    """Return the step that goes on, of those of an epoch."""
    if not position.steps:
        return f"step {position.step + 1}"
    return f"step {min(position.step + 1, position.steps)} of {position.steps}"
