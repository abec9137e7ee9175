"""The user sees here how a run goes on: the point and its round, k of n, elapsed and estimated time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from accelbench.format import headline
from accelbench.plain_text import one_line
from accelbench.run.schedule import Turn
from profiling.records.record import Record

STYLES = {"measured": "green", "failed": "bold red", "skipped": "yellow"}


class Progress:
    """A live bar on a terminal, and one line per finished turn everywhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
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
        self._rounds = max((turn.round for turn in schedule), default=1)
        self._seconds = {str(record.point): _wall(record) for record in before}
        self._begin = monotonic()
        done = self._total - len(self._left)
        self._task = self._bar.add_task("starting", total=self._total, completed=done, left="")
        self._bar.start()

    def started(self, turn: Turn) -> None:
        self._bar.update(self._task, description=f"{turn.point}{self._round(turn.round)}")

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
            f"{record.point}{self._round(record.round)}  ",
            (figure, STYLES[record.status]),
            (f"  ({record.elapsed_s:.1f} s; elapsed {_clock(elapsed)}, about {_clock(left)} left)", "dim"),
        )
        self._console.print(line, soft_wrap=True)

    def _round(self, number: int) -> str:
        """Return which round it is, where there are several."""
        return f", round {number} of {self._rounds}" if self._rounds > 1 else ""

    def _seconds_left(self) -> float:
        """Return the seconds of the turns that are left: a point's as in its last round, or the mean of the others."""
        mean = fmean(self._seconds.values())
        return sum(self._seconds.get(str(turn.point), mean) for turn in self._left)

    def stop(self) -> None:
        self._bar.stop()


def _wall(record: Record) -> float:
    """Return the wall time of a turn in seconds, the start of its process included."""
    return record.elapsed_s + record.phases.import_s


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02d}"
