"""The command `list`: it imports no more than the declarations, and answers at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from profiling.benchmark import Benchmark

INDENT = " " * 4


@click.command()
def command() -> None:
    """List the benchmarks with their axes, and the suites."""
    from accelbench.run.plan import discover
    from accelbench.run.suite import load_suite, suite_names

    for benchmark in discover().values():
        click.echo(f"{_bold(benchmark.name)}  {', '.join(benchmark.devices)}: {benchmark.summary}")
        for line in _axes(benchmark):
            click.echo(f"{INDENT}{line}")
    click.echo("\nsuites")
    for name in suite_names():
        click.echo(f"{_bold(name)}  {load_suite(name).description}")


def _axes(benchmark: Benchmark) -> Iterator[str]:
    """Yield the axes with their default values, on each device that has its own, and what else they may be."""
    by_axes: dict[str, list[str]] = {}
    for device in benchmark.devices:
        values = benchmark.axes_on(device).items()
        axes = "  ".join(f"{axis}={','.join(map(str, defaults))}" for axis, defaults in values)
        by_axes.setdefault(axes, []).append(device)
    for axes, devices in by_axes.items():
        on = _dim(f"({', '.join(devices)})")
        yield f"{axes}  {on}" if len(by_axes) > 1 else axes
    for axis, choices in benchmark.choices.items():
        yield _dim(f"{axis} is one of {', '.join(map(str, choices))}")
    if rules := benchmark.rules():
        yield _dim("; ".join(rules))


def _bold(text: str) -> str:
    return click.style(text, bold=True)


def _dim(text: str) -> str:
    return click.style(text, dim=True)
