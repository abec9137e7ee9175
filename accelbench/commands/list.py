"""The command `list`: it imports no more than the declarations, and answers at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from accelbench.errors import UserError
from accelbench.output.plain_text import plain
from accelbench.profiling.text import did_you_mean

if TYPE_CHECKING:
    from accelbench.execution.suite import Suite
    from accelbench.profiling.benchmark import Benchmark

INDENT = " " * 4


@click.command()
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--json", "as_json", is_flag=True, help="Write JSON, for programs.")
def command(words: tuple[str, ...], as_json: bool) -> None:
    """List the benchmarks with their axes, and the suites; with a WORD those whose name holds one."""
    from accelbench.execution.plan import discover
    from accelbench.execution.suite import load_suite, suite_names

    def wanted(name: str) -> bool:
        return not words or any(word in name for word in words)

    benchmarks = [benchmark for name, benchmark in discover().items() if wanted(name)]
    suites = [load_suite(name) for name in suite_names() if wanted(name)]
    if not benchmarks and not suites:
        near = did_you_mean(words[0], [*discover(), *suite_names()])
        raise UserError(f"no benchmark and no suite has {' or '.join(words)} in its name{near}")
    if as_json:
        described = {"benchmarks": [*map(_described, benchmarks)], "suites": [*map(_suite, suites)]}
        click.echo(json.dumps(described, ensure_ascii=False, indent=1))
        return
    for title, found in (
        ("kernels", [benchmark for benchmark in benchmarks if not benchmark.backends]),
        ("trainings", [benchmark for benchmark in benchmarks if benchmark.backends]),
    ):
        _show("", f"{title}\n" * bool(found), newline=False)
        for benchmark in found:
            _show(benchmark.name, f"  {', '.join(benchmark.devices)}: {benchmark.summary}")
            for axes, rest in _axes(benchmark):
                _show("", f"{INDENT}{axes}", rest)
        _show("", "\n" * bool(found), newline=False)
    _show("", "suites\n" * bool(suites), newline=False)
    for suite in suites:
        minutes = f" (about {suite.minutes:g} min on two CPU cores)" if suite.minutes else ""
        _show(suite.name, f"  {suite.description}", minutes)


def _described(benchmark: Benchmark) -> dict[str, Any]:
    axes = {
        device: {axis: list(values) for axis, values in benchmark.axes_on(device).items()}
        for device in benchmark.devices
    }
    return {
        "name": benchmark.name,
        "summary": benchmark.summary,
        "kind": "training" if benchmark.backends else "kernel",
        "devices": list(benchmark.devices),
        "backends": list(benchmark.backends),
        "figure": benchmark.figure,
        "axes": axes,
        "choices": {axis: list(values) for axis, values in benchmark.choices.items()},
        "limits": {axis: list(ends) for axis, ends in benchmark.limits.items()},
        "rules": benchmark.rules(),
        "time_limit_s": benchmark.time_limit_s,
    }


def _suite(suite: Suite) -> dict[str, Any]:
    return {"name": suite.name, "description": suite.description, "minutes_on_two_cores": suite.minutes}


def _show(bold: str, text: str, dim: str = "", newline: bool = True) -> None:
    """Print plain texts, in bold, as they are, and dimmed; a console would take longer to import."""
    shown = click.style(plain(bold), bold=True) * bool(bold) + plain(text) + click.style(plain(dim), dim=True)
    click.echo(shown, nl=newline)


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
