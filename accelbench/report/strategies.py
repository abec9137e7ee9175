"""One training by several frameworks or strategies of distribution, side by side: a table of their rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from accelbench.format import digits, plain, seconds
from accelbench.report.scaling import numbers_table
from profiling.analysis.scaling import training_of, trainings
from profiling.records.record import Record

UNNAMED = (None, "none")
"""The strategies of a replica that trains by itself."""


@dataclass(frozen=True)
class Entry:
    """A framework and a strategy on so many replicas, and the items per second that they reached."""

    label: str
    replicas: int
    rate: float
    low: float
    high: float
    step_s: float


@dataclass(frozen=True)
class Comparison:
    """All that was measured of one training, but for framework, strategy and size alike."""

    title: str
    item: str
    entries: tuple[Entry, ...]

    @property
    def fastest(self) -> float:
        return max(entry.rate for entry in self.entries)


def comparisons(records: Sequence[Record]) -> list[Comparison]:
    """A comparison of each training that was distributed by at least two frameworks or strategies.

    What trains on one replica without a strategy stands beside them; alone it is no comparison of them.
    """
    found: dict[tuple[object, ...], list[Record]] = {}
    for record in trainings(records):
        benchmark, device, _, *params = training_of(record)
        found.setdefault((benchmark, device, *params, record.layout.scaling), []).append(record)
    return [
        _comparison(alike)
        for alike in found.values()
        if len({_engine(record) for record in alike}) > 1 and any(map(_distributed, alike))
    ]


def print_strategies(records: Sequence[Record], console: Console) -> None:
    """Print each comparison; nothing where there is none."""
    for comparison in comparisons(records):
        console.print()
        console.print(Text(comparison.title, style="bold"))
        shown = numbers_table("", "replicas", f"{comparison.item}/s", "interval", "of the fastest", "step")
        for entry in comparison.entries:
            interval = f"{digits(entry.low, 3)}–{digits(entry.high, 3)}"
            share = f"{entry.rate / comparison.fastest:.0%}"
            shown.add_row(
                entry.label, str(entry.replicas), digits(entry.rate, 4), interval, share, seconds(entry.step_s)
            )
        console.print(shown)


def _engine(record: Record) -> tuple[str, str]:
    """The framework and the strategy."""
    return str(record.point.backend), str(record.layout.strategy)


def _distributed(record: Record) -> bool:
    return record.layout.workers > 1 or record.layout.strategy not in UNNAMED


def _comparison(alike: Sequence[Record]) -> Comparison:
    first = alike[0]
    engines = [_engine(record) for record in alike]
    varying = [place for place, values in enumerate(zip(*engines, strict=True)) if len(set(values)) > 1]
    labels = [plain(" ".join(engine[place] for place in varying)) for engine in engines]
    scaling = "weak scaling " if first.layout.scaling == "weak" else ""
    by = " and ".join(("framework", "strategy")[place] for place in varying)
    return Comparison(
        title=plain(f"{first.point.benchmark} {first.point.device}: {scaling}by {by}"),
        item=plain(str(first.work and first.work.item)),
        entries=tuple(map(_entry, labels, alike)),
    )


def _entry(label: str, record: Record) -> Entry:
    found = record.rate_interval("items")
    assert found is not None, "trainings have a rate of items"
    step_s = record.timing.summary.median if record.timing else 0.0
    return Entry(label, record.layout.workers, *found, step_s)
