"""The user sees here how a run goes on: the point that is measured, k of n, elapsed and estimated time."""

from __future__ import annotations

from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from accelbench.format import headline
from profiling.records.point import Point
from profiling.records.record import Record

STYLES = {"measured": "green", "failed": "bold red", "skipped": "yellow"}


class Progress:
    """A live bar on a terminal, and one line per finished point everywhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def start(self, total: int, done: int) -> None:
        """Begin with that many points in all, of which some were measured before."""
        self._total, self._before, self._done = total, done, done
        self._begin = monotonic()
        self._task = self._bar.add_task("starting", total=total, completed=done, left="")
        self._bar.start()

    def started(self, point: Point) -> None:
        self._bar.update(self._task, description=str(point))

    def finished(self, record: Record) -> None:
        self._done += 1
        elapsed = monotonic() - self._begin
        left = elapsed / (self._done - self._before) * (self._total - self._done)
        self._bar.update(self._task, completed=self._done, left=f"about {_clock(left)} left")
        figure = headline(record) if record.status == "measured" else f"{record.status}: {record.reason}"
        line = Text.assemble(
            (f"[{self._done:>{len(str(self._total))}}/{self._total}] ", "dim"),
            f"{record.point}  ",
            (figure, STYLES[record.status]),
            (f"  ({record.elapsed_s:.1f} s; elapsed {_clock(elapsed)}, about {_clock(left)} left)", "dim"),
        )
        self._console.print(line, soft_wrap=True)

    def stop(self) -> None:
        self._bar.stop()


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02d}"
