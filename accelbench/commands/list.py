"""The command `list`: it imports no more than the declarations, and answers at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from accelbench.plain_text import plain

if TYPE_CHECKING:
    from profiling.benchmark import Benchmark

INDENT = " " * 4


@click.command()
def command() -> None:
    """List the benchmarks with their axes, and the suites."""
    from accelbench.run.plan import discover
    from accelbench.run.suite import load_suite, suite_names

    for benchmark in discover().values():
        _show(benchmark.name, f"  {', '.join(benchmark.devices)}: {benchmark.summary}")
        for axes, rest in _axes(benchmark):
            _show("", f"{INDENT}{axes}", rest)
    _show("", "\nsuites")
    for name in suite_names():
        suite = load_suite(name)
        minutes = f" (about {suite.minutes:g} min on two CPU cores)" if suite.minutes else ""
        _show(name, f"  {suite.description}", minutes)


def _show(bold: str, text: str, dim: str = "") -> None:
    """Print a line of plain texts, in bold, as they are, and dimmed; a console would take longer to import."""
    click.echo(click.style(plain(bold), bold=True) * bool(bold) + plain(text) + click.style(plain(dim), dim=True))


def _axes(benchmark: Benchmark) -> Iterator[tuple[str, str]]:
    """Yield the axes with their default values, on each device that has its own, and what else they may be.

    Each line is of two parts, of which the second is a remark.
    """
    by_axes: dict[str, list[str]] = {}
    for device in benchmark.devices:
        values = benchmark.axes_on(device).items()
        axes = "  ".join(f"{axis}={','.join(map(str, defaults))}" for axis, defaults in values)
        by_axes.setdefault(axes, []).append(device)
    for axes, devices in by_axes.items():
        yield axes, f"  ({', '.join(devices)})" if len(by_axes) > 1 else ""
    for axis, choices in benchmark.choices.items():
        yield "", f"{axis} is one of {', '.join(map(str, choices))}"
    if rules := benchmark.rules():
        yield "", "; ".join(rules)
