"""The command `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from accelbench.commands import FORMAT_OPTION, BoundedNumber, complete_run, console
from accelbench.errors import UserError
from accelbench.export.document import DocumentFormat

EXIT_REGRESSION = 3
BETWEEN = "--"
"""The word between the runs of A and those of B."""
STAND_IN = "\0"
"""What stands for `--` while click reads the line: nothing that a user can type."""


class TwoSides(click.Command):
    """A command whose `--` parts the words of two sides, where click would take it for the end of the options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep each `--` as a word among the others."""
        return super().parse_args(ctx, [STAND_IN if word == BETWEEN else word for word in args])


@click.command(cls=TwoSides)
@click.argument("runs", nargs=-1, metavar="A... -- B...", shell_complete=complete_run)
@click.option("--fail-on", metavar="slower:5%", help="Exit with status 3 if a point of B is that much slower than A's.")
@click.option(
    "--equivalence",
    default=3.0,
    show_default=True,
    type=BoundedNumber(0, 100),
    help="Percent within which two figures are the same.",
)
@click.option(
    "--history",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder of past runs, which tell how much runs differ here. Default: runs.",
)
@click.option("--even-if-disturbed", is_flag=True, help="Decide by points that were disturbed, too.")
@FORMAT_OPTION
def command(
    runs: tuple[str, ...],
    fail_on: str | None,
    equivalence: float,
    folder: Path | None,
    even_if_disturbed: bool,
    form: DocumentFormat,
) -> int:
    """Compare the runs B with the runs A: faster, slower, same or cannot tell, point by point.

    A and B are a run each, or several with -- between them, whose spread then decides: runs, packs, folders of runs, or
    machine:NAME for all stored runs of a machine.
    """
    from accelbench.compare.comparison_document import document_of_comparison, render_comparison
    from accelbench.compare.regression import parse_fail_on, regressions
    from accelbench.compare.runs import compare
    from accelbench.execution.store import RUNS
    from accelbench.output.console import say
    from accelbench.results.find_run import read_words, stored_runs

    rule = parse_fail_on(fail_on) if fail_on else None
    words_a, words_b = split_sides([BETWEEN if word == STAND_IN else word for word in runs])
    history = stored_runs(folder or RUNS)
    comparison = compare(read_words(words_a), read_words(words_b), equivalence / 100, history, even_if_disturbed)
    found = regressions(comparison, rule) if rule else ()
    if form == "table":
        render_comparison(comparison, console())
        for regression in found:
            say(f"regression: {regression.point}: {regression.reason}")
    else:
        say(document_of_comparison(comparison, found).write(form))
    return EXIT_REGRESSION if found else 0


def split_sides(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of A and those of B; `UserError` unless both are there and told apart."""
    if BETWEEN in words:
        place = list(words).index(BETWEEN)
        a, b = list(words[:place]), list(words[place + 1 :])
        if BETWEEN in b:
            raise UserError(f"there are two sides, and so one {BETWEEN} between them")
    elif len(words) <= 2:
        a, b = list(words[:1]), list(words[1:])
    else:
        raise UserError(f"{len(words)} runs: put {BETWEEN} between those of A and those of B, as in A1 A2 -- B1 B2")
    if not a or not b:
        raise UserError("a comparison needs two sides: name a run for A and one for B")
    return a, b
