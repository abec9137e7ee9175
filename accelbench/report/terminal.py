"""Terminal output at the end of a run: the machine, then all sections with findings."""

from __future__ import annotations

from rich.text import Text

from accelbench.execution.store import RunInfo
from accelbench.output.console import PlainConsole
from accelbench.report.joined import Joined
from accelbench.report.section import Run
from accelbench.report.sections import TERMINAL


def print_run(run: Run, console: PlainConsole) -> None:
    """Print the machine, the run's id and all sections of a run."""
    print_runs(Joined((run,)), console)


def print_runs(joined: Joined, console: PlainConsole) -> None:
    """Print all sections of the runs; for a single run, preceded by the machine and the run's id."""
    console.print()
    if joined.single:
        info = joined.single.info
        console.print(Text.assemble((_machine(info), "bold"), f"  {info.run_id}"), soft_wrap=True)
        if info.label.words:
            console.print(Text(info.label.words), soft_wrap=True)
    for section in TERMINAL:
        if section.terminal and (found := section.found(joined)):
            section.terminal(found[0], console)


def _machine(info: RunInfo) -> str:
    environment = info.environment
    cpu = environment.cpu.model or "unknown CPU"
    parts = [f"{cpu}, {environment.cpu.usable} of {environment.cpu.logical} logical CPUs"]
    if kind := environment.cpu.one_core_kind:
        parts.append(f"one core: {kind}")
    names = [gpu.name for gpu in environment.gpus] + [tpu.name for tpu in environment.tpus]
    return " · ".join(parts + [f"{names.count(name)}× {name}" for name in dict.fromkeys(names)])
