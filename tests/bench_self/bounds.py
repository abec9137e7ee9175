"""Bounds of the self-benchmarks, and the runs by which they are measured."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conftest import records

ROUNDS = 3


@dataclass
class Bound:
    """Bound of a self-benchmark: the measured values and their limits."""

    name: str
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    found: list[float] = field(default_factory=list)

    def verdict(self) -> str:
        middle = statistics.median(self.found)
        low = self.at_least is None or middle >= self.at_least
        high = self.at_most is None or middle <= self.at_most
        return "[green]held[/green]" if low and high else "[bold red]missed[/bold red]"

    def limit(self) -> str:
        parts = [f"≥ {self.at_least:g}"] if self.at_least is not None else []
        parts += [f"≤ {self.at_most:g}"] if self.at_most is not None else []
        return " and ".join(parts) or "shown only"


def accelbench(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "accelbench", *arguments]


def rates(*arguments: str) -> dict[str, float]:
    """Return the rate of each point of one run, by benchmark and parameter values."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = accelbench("run", *arguments, "--device", "cpu", "--no-ceilings", "--out", str(out))
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return {name(record): rate(record) for record in records(out)}


def name(record: dict[str, Any]) -> str:
    return " ".join([record["point"]["benchmark"], *map(str, record["point"]["params"].values())])


def rate(record: dict[str, Any]) -> float:
    return float(record["work"][record["figure"]] / record["timing"]["summary"]["median"])
