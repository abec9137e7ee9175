"""Command `list`: benchmarks and suites; imports only the declarations."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(words: tuple[str, ...], as_json: bool) -> None:
    """List the benchmarks and suites; with WORDs, those with one of them in the name, with their axes and rules."""
    from accelbench.execution.plan import discover
    from accelbench.execution.suite import load_suite, suite_names

    def wanted(name: str) -> bool:
        return not words or any(word in name for word in words)

    benchmarks = [benchmark for name, benchmark in discover().items() if wanted(name)]
    suites = [load_suite(name) for name in suite_names() if wanted(name)]
    if not benchmarks and not suites:
        near = did_you_mean(words[0], [*discover(), *suite_names()])
        raise UserError(f"no benchmark or suite matches {' or '.join(words)}{near}")
    if as_json:
        described = {"benchmarks": [*map(_described, benchmarks)], "suites": [*map(_suite, suites)]}
        click.echo(json.dumps(described, ensure_ascii=False, indent=1))
        return
    for title, found in (
        ("kernels", [benchmark for benchmark in benchmarks if not benchmark.backends]),
        ("training workloads", [benchmark for benchmark in benchmarks if benchmark.backends]),
    ):
        if words:
            _show_axes(title, found)
        else:
            _show_lines(title, [(each.name, f"{', '.join(each.devices)}: {each.summary}") for each in found])
    minutes = {each.name: f" (about {each.minutes:g} min on two CPU cores)" for each in suites if each.minutes}
    _show_lines("suites", [(each.name, f"{each.description}{minutes.get(each.name, '')}") for each in suites])
    if not words:
        _show("", "", "Axes and rules of a benchmark: accelbench list NAME")


def _show_lines(title: str, lines: Sequence[tuple[str, str]]) -> None:
    """Print names and descriptions in two columns, wrapped to the width of the terminal."""
    if not lines:
        return
    formatter = click.HelpFormatter(width=shutil.get_terminal_size().columns)
    formatter.write_dl([(plain(name), plain(text)) for name, text in lines])
    click.echo(f"{click.style(title, bold=True)}\n{formatter.getvalue()}")


def _show_axes(title: str, benchmarks: Sequence[Benchmark]) -> None:
    _show("", f"{title}\n" * bool(benchmarks), newline=False)
    for benchmark in benchmarks:
        _show(benchmark.name, f"  {', '.join(benchmark.devices)}: {benchmark.summary}")
        for axes, rest in _axes(benchmark):
            _show("", f"{INDENT}{axes}", rest)
    _show("", "\n" * bool(benchmarks), newline=False)


def _described(benchmark: Benchmark) -> dict[str, Any]:
    axes = {
        device: {axis: list(values) for axis, values in benchmark.axes_on(device).items()}
        for device in benchmark.devices
    }
    choices = {
        axis: {device: list(each) for device, each in values.items()} if isinstance(values, Mapping) else list(values)
        for axis, values in benchmark.choices.items()
    }
    return {
        "name": benchmark.name,
        "summary": benchmark.summary,
        "kind": "training" if benchmark.backends else "kernel",
        "devices": list(benchmark.devices),
        "backends": list(benchmark.backends),
        "figure": benchmark.metric,
        "axes": axes,
        "choices": choices,
        "limits": {axis: list(ends) for axis, ends in benchmark.limits.items()},
        "rules": benchmark.rules(),
        "time_limit_s": benchmark.time_limit_s,
    }


def _suite(suite: Suite) -> dict[str, Any]:
    return {"name": suite.name, "description": suite.description, "minutes_on_two_cores": suite.minutes}


def _show(bold: str, text: str, dim: str = "", newline: bool = True) -> None:
    """Print a bold, a plain and a dimmed text, without importing rich."""
    shown = click.style(plain(bold), bold=True) * bool(bold) + plain(text) + click.style(plain(dim), dim=True)
    click.echo(shown, nl=newline)


def _axes(benchmark: Benchmark) -> Iterator[tuple[str, str]]:
    """Yield lines with the axes and default values by device, the choices and the rules.

    Each line is a text and a dimmed remark.
    """
    by_axes: dict[str, list[str]] = {}
    for device in benchmark.devices:
        values = benchmark.axes_on(device).items()
        axes = "  ".join(f"{axis}={','.join(map(str, defaults))}" for axis, defaults in values)
        by_axes.setdefault(axes, []).append(device)
    for axes, devices in by_axes.items():
        yield axes, f"  ({', '.join(devices)})" if len(by_axes) > 1 else ""
    for axis in benchmark.choices:
        by_values: dict[str, list[str]] = {}
        for device in benchmark.devices:
            by_values.setdefault(", ".join(map(str, benchmark.choices_on(device)[axis])), []).append(device)
        for values_text, devices in by_values.items():
            yield "", f"{axis}: {values_text}" + (f"  ({', '.join(devices)})" if len(by_values) > 1 else "")
    if rules := benchmark.rules():
        yield "", "; ".join(rules)
