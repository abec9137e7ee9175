"""List of stored runs: the table of `accelbench runs`, and the page `index.html`, with a trend per machine."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from accelbench.errors import RunBroken
from accelbench.execution.store import RUNS
from accelbench.export.terminal import new_table
from accelbench.output.atomic_file import write_atomically
from accelbench.output.console import say
from accelbench.output.format import counted, read
from accelbench.profiling.files import read_regular
from accelbench.report.page import templates
from accelbench.report.run_entries import Rate, RunEntry, find_entries
from accelbench.report.stored_run import LIGHT_STYLES, Run

MOST_READ = 20
"""Maximum number of runs that an update at the end of a run reads; `accelbench runs` reads all."""
BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH, HEIGHT, EDGE = 160, 28, 3
"""Size of a trend in pixels, and its margin."""
FILTER = Path(__file__).with_name("filter.js")


@dataclass(frozen=True)
class MachineTrend:
    """Runs of a machine on one device, and the results of the point that most of them have measured."""

    machine: str
    device: str
    runs: int
    point: str
    """The point; empty if no point was measured without noise in two runs."""
    rates: tuple[Rate, ...]
    """Its results, oldest first."""

    @property
    def range(self) -> str:
        """Return the lowest and the highest result as text; a time is marked as such."""
        values = [rate.value for rate in self.rates]
        low, high = (read(value, self.rates[0].unit).quantity for value in (min(values), max(values)))
        return f"{low} to {high}{' (lower is faster)' * (self.rates[0].unit == 's')}"

    @property
    def blocks(self) -> str:
        """Return the results as a line of block characters."""
        return "".join(BLOCKS[round(place * (len(BLOCKS) - 1))] for place in self._places())

    @property
    def drawing(self) -> Markup:
        """Return the results as an SVG line with a dot at the latest one."""
        places, step = self._places(), (WIDTH - 2 * EDGE) / (len(self.rates) - 1)
        points = [
            (round(EDGE + number * step, 1), round(HEIGHT - EDGE - place * (HEIGHT - 2 * EDGE), 1))
            for number, place in enumerate(places)
        ]
        return Markup(
            '<svg class="spark" width="{}" height="{}" role="img" aria-label="{}"><polyline points="{}"/>'
            '<circle cx="{}" cy="{}" r="3"/></svg>'
        ).format(
            WIDTH,
            HEIGHT,
            f"{self.point} over {counted(len(self.rates), 'run')}: {self.range}",
            " ".join(f"{x},{y}" for x, y in points),
            *points[-1],
        )

    def _places(self) -> list[float]:
        """Return the height of each result between 0 and 1; changes of less than a fifth do not fill the height."""
        values = [rate.value for rate in self.rates]
        low, high = min(values), max(values)
        span = max(high - low, 0.2 * high)
        return [0.5 + (value - (low + high) / 2) / span for value in values]


def machine_trends(entries: Sequence[RunEntry]) -> list[MachineTrend]:
    """Return the trend of each machine and device; the entries are newest first, and so are the machines."""
    of_machine: dict[tuple[str, str], list[RunEntry]] = {}
    for entry in entries:
        of_machine.setdefault((entry.machine, entry.device), []).append(entry)
    return [_trend(*key, found) for key, found in of_machine.items()]


def _trend(machine: str, device: str, entries: Sequence[RunEntry]) -> MachineTrend:
    counts = Counter(point for entry in entries for point in entry.rates)
    point, most = max(counts.items(), key=lambda item: item[1], default=("", 0))
    rates = tuple(entry.rates[point] for entry in reversed(entries) if point in entry.rates) if most > 1 else ()
    return MachineTrend(machine, device, len(entries), point if rates else "", rates)


def has_words(entry: RunEntry, words: Sequence[str]) -> bool:
    """Return whether directory, id, label, machine, suite and device of a run contain all words, ignoring case."""
    return all(word.casefold() in entry.text for word in words)


def print_index(entries: Sequence[RunEntry], console: Console) -> None:
    """Print a table of the runs (directory, outcome, label, suite, device, time, results, machine), then the trends."""
    table = new_table("run", "outcome, results and machine")
    for entry in entries:
        what = Text.assemble(("● ", LIGHT_STYLES[entry.light]), entry.outcome)
        leads = ", ".join(f"{lead.benchmark} {lead.result}" for lead in entry.leads)
        for line in filter(None, [entry.words, f"{entry.suite} on {entry.device}, {entry.created_text}", leads]):
            what.append(f"\n{line}")
        what.append(f"\n{entry.machine}", style="dim")
        table.add_row(Text(entry.folder, style="bold"), what)
    console.print(table)
    for trend in machine_trends(entries):
        if trend.rates:
            runs = f"{counted(trend.runs, 'run')} on {trend.device}"
            console.print(Text.assemble((trend.machine, "bold"), f": {runs}; {trend.point}"))
            console.print(Text(f"  {trend.blocks} {trend.range}"))


def write_index(entries: Sequence[RunEntry], folder: Path, unread: int = 0) -> Path:
    """Write `index.html` with these runs into the folder, and return its path; `unread` runs are left out."""
    script = read_regular(FILTER).decode()
    page = (
        templates(Path(__file__).parent)
        .get_template("index.html")
        .render(
            entries=entries,
            trends=machine_trends(entries),
            unread=unread,
            script=Markup(script),
            script_hash=b64encode(sha256(script.encode()).digest()).decode(),
        )
    )
    return write_atomically(folder / "index.html", lambda path: path.write_text(page, encoding="utf-8"))


def update_index(run: Run) -> None:
    """Rewrite the page of the folder `runs` if the run is in it; a folder that cannot be written is reported."""
    if run.store is None or run.store.path.resolve().parent != RUNS.resolve():
        return
    try:
        found = find_entries(RUNS, [run], MOST_READ)
        write_index(found.entries, RUNS, found.unread)
    except (OSError, RunBroken) as error:
        say(f"the list of runs was not updated: {error}", stderr=True)
