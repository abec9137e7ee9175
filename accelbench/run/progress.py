"""The user sees here how a run goes on: the point and its round, k of n, elapsed and estimated time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from accelbench.format import clip, headline
from accelbench.plain_text import one_line
from accelbench.run.schedule import Turn
from profiling.records.point import Point
from profiling.records.record import Record

ROOMY = 100
"""The columns from which on there is room for a bar."""
BESIDE = 40
"""The columns that the counts, the elapsed time and the estimate take beside a point's name."""
LEAST_NAME = 20
STYLES = {"measured": "green", "failed": "bold red", "skipped": "yellow"}


class Progress:
    """A live bar on a terminal, and one line per finished turn everywhere."""

    def __init__(self, console: Console, past: Mapping[str, float] | None = None) -> None:
        """Show it on that console; `past` is the seconds that points took on this machine before, by their names."""
        self._console, self._past = console, past or {}
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            *([BarColumn(bar_width=20)] if console.width >= ROOMY else []),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def start(self, schedule: Sequence[Turn], left: Sequence[Turn], before: Iterable[Record]) -> None:
        """Begin with what is left of the schedule, and with the records of what was measured before."""
        self._total, self._left = len(schedule), list(left)
        self._turns = Counter(str(turn.point) for turn in schedule)
        self._names = short_names(turn.point for turn in schedule)
        self._rounds = max((turn.round for turn in schedule), default=1)
        self._seconds = {str(record.point): _wall(record) for record in before}
        self._begin = monotonic()
        done = self._total - len(self._left)
        self._task = self._bar.add_task("starting", total=self._total, completed=done, left="")
        self._bar.start()

    def started(self, turn: Turn) -> None:
        room = self._console.width - BESIDE - (20 if self._console.width >= ROOMY else 0)
        name = f"{self._name(turn.point)}{self._round(turn.round)}"
        self._bar.update(self._task, description=clip(name, max(LEAST_NAME, room)))

    def finished(self, record: Record) -> None:
        """Show the record, and what is left: the point is not measured again if it failed or was skipped."""
        ended = record.status != "measured"
        self._left = [
            turn
            for turn in self._left
            if str(turn.point) != str(record.point) or (turn.round > record.round and not ended)
        ]
        self._seconds[str(record.point)] = _wall(record)
        left, elapsed, done = self._seconds_left(), monotonic() - self._begin, self._total - len(self._left)
        self._bar.update(self._task, completed=done, left=f"about {_clock(left)} left")
        figure = headline(record) if record.status == "measured" else f"{record.status}: {one_line(str(record.reason))}"
        line = Text.assemble(
            (f"[{done:>{len(str(self._total))}}/{self._total}] ", "dim"),
            f"{self._name(record.point)}{self._round(record.round)}  ",
            (figure, STYLES[record.status]),
            (f"  ({record.elapsed_s:.1f} s; elapsed {_clock(elapsed)}, about {_clock(left)} left)", "dim"),
        )
        # A terminal breaks lines between words; what is written to a file has a line for each point.
        self._console.print(line, soft_wrap=not self._console.is_terminal)

    def _name(self, point: Point) -> str:
        """Return the point's name, on a terminal by what tells it from the others of this run."""
        return self._names.get(str(point), str(point)) if self._console.is_terminal else str(point)

    def _round(self, number: int) -> str:
        """Return which round it is, where there are several."""
        return f", round {number} of {self._rounds}" if self._rounds > 1 else ""

    def _seconds_left(self) -> float:
        """Return the seconds of the turns that are left: a point's as in its last round, as before, or the mean."""
        mean = fmean(self._seconds.values())
        before = {name: self._past[name] / turns for name, turns in self._turns.items() if name in self._past}
        names = [str(turn.point) for turn in self._left]
        return sum(self._seconds.get(name, before.get(name, mean)) for name in names)

    def stop(self) -> None:
        self._bar.stop()


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


def _wall(record: Record) -> float:
    """Return the wall time of a turn in seconds, the start of its process included."""
    return record.elapsed_s + record.phases.import_s


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02d}"
