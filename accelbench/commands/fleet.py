"""Command `fleet`: the odd nodes among thousands, and the changes of a fleet that was measured twice."""

from __future__ import annotations

from pathlib import Path

import click

from accelbench.commands import BoundedNumber, SuggestingChoice, console
from accelbench.commands.compare import BETWEEN, TwoSides, split_sides

EXIT_ODD = 3


@click.command(cls=TwoSides)
@click.argument("words", nargs=-1, required=True, metavar="FOLDER|URL|RUN|JSON|-... [-- FOLDER|URL|RUN|JSON|-...]")
@click.option(
    "--min-difference",
    default=1.0,
    show_default=True,
    type=BoundedNumber(0, 100),
    help="Smallest difference of an odd node from its group's median, in percent.",
)
@click.option("--include-noisy", is_flag=True, help="Include noisy measurements.")
@click.option(
    "--fail-on",
    metavar="odd|slower:5%",
    help="Exit with status 3 if a node is odd, or if a metric is slower after than before by more than this.",
)
@click.option(
    "--page", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with drawings and tables (HTML)."
)
@click.option(
    "--format",
    "form",
    type=SuggestingChoice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="Odd nodes as a table or JSON, or all nodes and metrics as CSV.",
)
def command(
    words: tuple[str, ...],
    min_difference: float,
    include_noisy: bool,
    fail_on: str | None,
    page: Path | None,
    form: str,
) -> int:
    """Find the odd nodes of a fleet: each is compared with the nodes of equal hardware, in every metric.

    Arguments are stored runs, bundles, JSON answers of 'accelbench gate', or folders of them, also by URL (s3://, gs://,
    ...); - reads answers from standard input. With -- between them, the fleet was measured before and after a change:
    the change of each group, and the nodes that changed more than the rest.
    """
    from accelbench.compare.regression import REGRESSION_CONFIDENCE, parse_fail_on
    from accelbench.errors import UserError
    from accelbench.fleet.fleet_document import FleetComparison, change_text
    from accelbench.output.console import say

    rule = parse_fail_on(fail_on) if fail_on and fail_on.strip() != "odd" else None
    least = min_difference / 100
    if BETWEEN in words:
        before, after = split_sides(words)
        found = FleetComparison.of_two(before, after, include_noisy, least)
    elif rule:
        raise UserError(f"--fail-on {rule}: needs two measurements: A... -- B... (for one, --fail-on odd)")
    else:
        found = FleetComparison.of(list(words), include_noisy, least)
    if form == "table":
        found.print(console())
    else:
        say(found.csv() if form == "csv" else found.document().write("json"))
    if page:
        from accelbench.fleet.page import write_page

        write_page(found, page)
    if rule is None:
        return EXIT_ODD if fail_on and found.odd_nodes else 0
    slower = found.slower_groups(rule.percent / 100, REGRESSION_CONFIDENCE)
    for group in slower:
        say(f"slower: {group.metric}: {change_text(group)}", stderr=form != "table")
    return EXIT_ODD if slower else 0
