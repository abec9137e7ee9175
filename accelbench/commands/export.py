"""Command `export`: write a run in the format of another program."""

from __future__ import annotations

from pathlib import Path

import click

from accelbench.commands import complete_run
from accelbench.errors import UserError


@click.command()
@click.argument("run", metavar="[RUN]", default="latest", shell_complete=complete_run)
@click.option("--openmetrics", is_flag=True, help="Write OpenMetrics text, for Prometheus and Grafana.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.prom",
    help="File to write, replaced atomically. Default: standard output.",
)
def command(run: str, openmetrics: bool, out: Path | None) -> None:
    """Export a run: with --openmetrics as text for the textfile collector of node_exporter.

    The default of RUN is the latest run.
    """
    from accelbench.output.atomic_file import write_atomically
    from accelbench.output.console import say
    from accelbench.report.openmetrics import openmetrics as written
    from accelbench.report.stored_run import Run
    from accelbench.results.find_run import open_run

    if not openmetrics:
        raise UserError(
            "no format given: use --openmetrics, or 'accelbench report --format' for JSON, Markdown and JUnit"
        )
    found = Run.of(open_run(run))
    text = written(found)
    if found.left_out.points:
        say(
            f"{len(found.left_out.points):,} points of this large run are left out; records.csv has all points",
            stderr=True,
        )
    if out is None:
        say(text.rstrip())
    else:
        write_atomically(out, lambda path: path.write_text(text, encoding="utf-8"))
        say(f"metrics {out}")
