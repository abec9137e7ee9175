"""The command `list`: it imports no more than the declarations, and answers at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from accelbench.commands import console

if TYPE_CHECKING:
    from rich.text import Text

    from profiling.benchmark import Benchmark

INDENT = " " * 4


@click.command()
def command() -> None:
    """List the benchmarks with their axes, and the suites."""
    from rich.text import Text

    from accelbench.run.plan import discover
    from accelbench.run.suite import load_suite, suite_names

    to = console()

    def show(name: str, text: str) -> None:
        to.print(Text.assemble((name, "bold"), f"  {text}"), soft_wrap=True)

    for benchmark in discover().values():
        show(benchmark.name, f"{', '.join(benchmark.devices)}: {benchmark.summary}")
        for line in _axes(benchmark):
            to.print(Text(INDENT) + line, soft_wrap=True)
    to.print("\nsuites")
    for name in suite_names():
        show(name, load_suite(name).description)


def _axes(benchmark: Benchmark) -> Iterator[Text]:
    """Yield the axes with their default values, on each device that has its own, and what else they may be."""
    from rich.text import Text

    by_axes: dict[str, list[str]] = {}
    for device in benchmark.devices:
        values = benchmark.axes_on(device).items()
        axes = "  ".join(f"{axis}={','.join(map(str, defaults))}" for axis, defaults in values)
        by_axes.setdefault(axes, []).append(device)
    for axes, devices in by_axes.items():
        on = (f"  ({', '.join(devices)})", "dim")
        yield Text.assemble(axes, on) if len(by_axes) > 1 else Text(axes)
    for axis, choices in benchmark.choices.items():
        yield Text(f"{axis} is one of {', '.join(map(str, choices))}", "dim")
    if rules := benchmark.rules():
        yield Text("; ".join(rules), "dim")
