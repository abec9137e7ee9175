"""Command `fleet`: the odd nodes among thousands."""

from __future__ import annotations

import click

from accelbench.commands import BoundedNumber, SuggestingChoice, console

EXIT_ODD = 3


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="FOLDER|RUN|JSON...")
@click.option(
    "--min-difference",
    default=1.0,
    show_default=True,
    type=BoundedNumber(0, 100),
    help="Smallest difference of an odd node from its group's median, in percent.",
)
@click.option("--include-noisy", is_flag=True, help="Include noisy measurements.")
@click.option("--fail-on", type=SuggestingChoice(["odd"]), help="Exit with status 3 if a node is odd.")
@click.option(
    "--format",
    "form",
    type=SuggestingChoice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="Odd nodes as a table or JSON, or all nodes and metrics as CSV.",
)
def command(words: tuple[str, ...], min_difference: float, include_noisy: bool, fail_on: str | None, form: str) -> int:
    """Find the odd nodes of a fleet: each is compared with the nodes of equal hardware, in every metric.

    Arguments are stored runs, bundles, JSON answers of 'accelbench gate', or folders of them.
    """
    from accelbench.fleet.fleet_document import FleetComparison
    from accelbench.output.console import say

    found = FleetComparison.of(list(words), include_noisy, min_difference / 100)
    if form == "table":
        found.print(console())
    else:
        say(found.csv() if form == "csv" else found.document().write("json"))
    return EXIT_ODD if fail_on and found.rows["odd"].any() else 0
