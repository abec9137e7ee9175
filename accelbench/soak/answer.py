"""Answer of a soak: passes and wrong results of each unit, throughput and sensors over time, and the exit status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from accelbench.gate.hardware import HardwareClass
from accelbench.output.format import counted, seconds
from accelbench.output.plain_text import one_line
from accelbench.profiling.records.stored import Count, Finite, Moment, Seconds, Stored
from accelbench.soak.messages import WrongResult

SOAK_VERSION: Final = 1
SoakVerdict = Literal["right", "wrong", "unknown"]
EXIT_STATUS: dict[SoakVerdict, int] = {"right": 0, "wrong": 1, "unknown": 2}


class SoakPoint(Stored):
    """Passes of a point on a unit."""

    point: str
    passes: Count
    rate: Finite | None
    """Work of all passes divided by their time, in `unit`; null without a pass."""
    unit: str


class SoakUnit(Stored):
    """Logical CPU or GPU under load, in a process of its own."""

    name: str
    """`CPU 3`, `GPU 0`: the number of the logical CPU, or of the GPU among the visible ones."""
    model: str
    """Name of the CPU or GPU."""
    passes: Count
    wrong_passes: Count
    points: list[SoakPoint]
    skipped: dict[str, str] = {}
    """Reason of each point that did not run."""
    problem: str = ""
    """Reason why the load ended early or did not start; empty if it did not."""


class SoakSeries(Stored):
    """Values over time: the throughput of a point on a device, or a sensor."""

    kind: Literal["throughput", "sensor"]
    device: str
    """`CPU` for all logical CPUs together, `GPU 0`, …"""
    name: str
    """Point, or sensor."""
    unit: str
    times: list[Seconds]
    """Seconds since the start of the load."""
    values: list[Finite]


class SoakAnswer(Stored):
    """Content of `soak.json`."""

    soak_version: Literal[1] = SOAK_VERSION
    """Version of this schema."""
    id: str
    """Unique ID of this soak."""
    node: str
    """Name of the node, from `--node` or the scheduler; empty if unknown."""
    verdict: SoakVerdict
    exit_status: Literal[0, 1, 2]
    """0 all results right, 1 a wrong result, 2 not measurable."""
    summary: str
    """Reason of the verdict in one line."""
    started: Moment
    planned_s: Seconds
    """Requested duration of the load in seconds."""
    load_s: Seconds
    """Duration of the load in seconds; shorter if it was interrupted."""
    wall_s: Seconds
    """Duration with preparation in seconds."""
    interrupted: bool
    """Whether the load was ended by a signal."""
    hardware: HardwareClass
    units: list[SoakUnit]
    wrong: list[WrongResult]
    """Wrong results, the first one first; at most 20 of each unit."""
    series: list[SoakSeries]
    counters: dict[str, Finite] = {}
    """Counters of the machine over the load, as in records: energy, throttling, time of other processes."""
    throttle_reasons: list[str] = []
    """Reasons for which a GPU's clock was throttled at any time."""
    missing: list[str] = []
    """Sensors that cannot be read, each with the reason."""

    def line(self) -> str:
        """Return the answer in one line."""
        node = f" {self.node}" if self.node else ""
        return one_line(f"accelbench soak{node}: {self.verdict}: {self.summary}")


def verdict_of(units: Sequence[SoakUnit]) -> SoakVerdict:
    """Return `wrong` for any wrong result, and `unknown` if a unit has a problem or no pass."""
    if any(unit.wrong_passes for unit in units):
        return "wrong"
    return "unknown" if not units or any(unit.problem or not unit.passes for unit in units) else "right"


def summary_of(
    units: Sequence[SoakUnit], wrong: Sequence[WrongResult], load_s: float, interrupted_of_s: float | None = None
) -> str:
    """Return the reason of the verdict as text; `interrupted_of_s` is the planned duration of an interrupted load."""
    passes, bad = sum(unit.passes for unit in units), sum(unit.wrong_passes for unit in units)
    kinds = [f"{counted(n, kind)}" for kind in ("CPU", "GPU") if (n := sum(u.name.startswith(kind) for u in units))]
    early = "" if interrupted_of_s is None else f" of {seconds(interrupted_of_s)}, interrupted"
    extent = f"{counted(passes, 'result')} of {' and '.join(kinds) or 'no device'} in {seconds(load_s)}{early}"
    if bad:
        first = f"; first: {wrong[0].sentence}" if wrong else ""
        return f"{bad:,} wrong of {extent}{first}"
    problems = [f"{unit.name}: {unit.problem or 'no pass'}" for unit in units if unit.problem or not unit.passes]
    if problems:
        more = f"; {len(problems) - 1} more" if len(problems) > 1 else ""
        return f"{problems[0]}{more}; {extent} were right"
    return f"{extent}, all right"
