"""The end of a run on the terminal: the machine in a line, then every section that has something to say."""

from __future__ import annotations

from rich.text import Text

from accelbench.execution.store import RunInfo
from accelbench.output.console import PlainConsole
from accelbench.report.joined import Joined
from accelbench.report.section import Run
from accelbench.report.sections import TERMINAL


def print_run(run: Run, console: PlainConsole) -> None:
    """Print the machine and the run's name, and what each section finds in the run."""
    print_runs(Joined((run,)), console)


def print_runs(joined: Joined, console: PlainConsole) -> None:
    """Print what each section finds in the runs together; of one run, first the machine and its name."""
    console.print()
    if joined.alone:
        info = joined.alone.info
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
    names = [gpu.name for gpu in environment.gpus]
    return " · ".join(parts + [f"{names.count(name)}× {name}" for name in dict.fromkeys(names)])
