"""The command `compare`."""

from __future__ import annotations

import click

from accelbench.commands import console

EXIT_REGRESSION = 3


@click.command()
@click.argument("run_a", metavar="RUN_A")
@click.argument("run_b", metavar="RUN_B")
@click.option("--fail-on", metavar="slower:5%", help="Exit with status 3 if a point of B is that much slower than A's.")
@click.option(
    "--equivalence",
    default=3.0,
    show_default=True,
    type=click.FloatRange(0, 100),
    help="Percent within which two medians are the same.",
)
def command(run_a: str, run_b: str, fail_on: str | None, equivalence: float) -> int:
    """Compare run B with run A: faster, slower, same or cannot tell, point by point."""
    from accelbench.compare.runs import compare, parse_fail_on, regressions, render_comparison
    from accelbench.find_run import open_run

    rule = parse_fail_on(fail_on) if fail_on else None
    comparison = compare(open_run(run_a), open_run(run_b), equivalence / 100)
    render_comparison(comparison, console())
    found = regressions(comparison, rule) if rule else ()
    for regression in found:
        print(f"regression: {regression.point}: {regression.reason}")
    return EXIT_REGRESSION if found else 0
