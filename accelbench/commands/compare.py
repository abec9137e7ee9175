"""Command `compare`: compare two runs, or two sets of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from accelbench.commands import FORMAT_OPTION, BoundedNumber, complete_run, console
from accelbench.errors import UserError
from accelbench.export.document import DocumentFormat

EXIT_REGRESSION = 3
BETWEEN = "--"
"""Separator between the runs of A and the runs of B."""
PLACEHOLDER = "\0"
"""Replacement of `--` during parsing by click; cannot occur in an argument."""


class TwoSides(click.Command):
    """Command with `--` as separator of two sides; click would parse it as the end of the options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, with each `--` kept as an argument."""
        rest = super().parse_args(ctx, [PLACEHOLDER if word == BETWEEN else word for word in args])
        for name, value in ctx.params.items():
            if isinstance(value, tuple):
                ctx.params[name] = tuple(BETWEEN if word == PLACEHOLDER else word for word in value)
        return rest


@click.command(cls=TwoSides)
@click.argument("runs", nargs=-1, metavar="A... -- B...", shell_complete=complete_run)
@click.option(
    "--fail-on", metavar="slower:5%", help="Exit with status 3 if a point is slower in B than in A by more than this."
)
@click.option(
    "--equivalence",
    default=3.0,
    show_default=True,
    type=BoundedNumber(0, 100),
    help="Maximum difference in percent of results that count as equal.",
)
@click.option(
    "--history",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of past runs, for the run-to-run spread of this machine. Default: runs.",
)
@click.option("--include-noisy", is_flag=True, help="Include noisy measurements.")
@FORMAT_OPTION
def command(
    runs: tuple[str, ...],
    fail_on: str | None,
    equivalence: float,
    folder: Path | None,
    include_noisy: bool,
    form: DocumentFormat,
) -> int:
    """Compare the runs B with the runs A, point by point: faster, slower, same or inconclusive.

    A and B are one run each, or several runs separated by --, compared by their run-to-run spread. Each is a run, a
    bundle, a folder of runs, or machine:NAME for all stored runs of a machine.
    """
    from accelbench.compare.comparison_document import document_of_comparison, render_comparison
    from accelbench.compare.regression import parse_fail_on, regressions
    from accelbench.compare.runs import compare
    from accelbench.execution.store import RUNS
    from accelbench.output.console import say
    from accelbench.results.find_run import runs_of_arguments, stored_runs

    rule = parse_fail_on(fail_on) if fail_on else None
    words_a, words_b = split_sides(runs)
    history = stored_runs(folder or RUNS)
    comparison = compare(
        runs_of_arguments(words_a), runs_of_arguments(words_b), equivalence / 100, history, include_noisy
    )
    found = regressions(comparison, rule) if rule else ()
    if form == "table":
        render_comparison(comparison, console())
        for regression in found:
            say(f"regression: {regression.point}: {regression.reason}")
    else:
        say(document_of_comparison(comparison, found).write(form))
    return EXIT_REGRESSION if found else 0


def split_sides(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments of A and of B; raise `UserError` if a side is empty or the separator is missing."""
    if BETWEEN in words:
        place = list(words).index(BETWEEN)
        a, b = list(words[:place]), list(words[place + 1 :])
        if BETWEEN in b:
            raise UserError(f"write {BETWEEN} only once, between the runs of A and the runs of B")
    elif len(words) <= 2:
        a, b = list(words[:1]), list(words[1:])
    else:
        raise UserError(f"{len(words)} runs: separate A and B by {BETWEEN}, as in A1 A2 {BETWEEN} B1 B2")
    if not a or not b:
        raise UserError("compare needs two sides: name a run for A and a run for B")
    return a, b
