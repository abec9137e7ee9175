"""The command `pack`."""

from __future__ import annotations

from pathlib import Path

import click

from accelbench.commands import BoundedNumber, complete_run
from accelbench.settings.limits import MOST_MIB


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=complete_run)
@click.option("--out", type=click.Path(path_type=Path), help="The file. Default: here, named after date and machine.")
@click.option(
    "--anonymous",
    is_flag=True,
    help="Leave out what tells who measured, where and at what time of day: names, folders, output, traces, stacks.",
)
@click.option("--no-traces", is_flag=True, help="Leave the traces out, which are most of a training run's size.")
@click.option(
    "--part-size", type=BoundedNumber(0.01, MOST_MIB), metavar="MIB", help="Cut it into files of at most so many MiB."
)
def command(runs: tuple[str, ...], out: Path | None, anonymous: bool, no_traces: bool, part_size: float | None) -> None:
    """Put runs into one file, which report, compare and tensorboard take for a run: PACK, or PACK:RUN of several."""
    from accelbench.output.console import say
    from accelbench.pack.write import write_pack
    from accelbench.results.find_run import open_directory

    stores = [open_directory(run) for run in runs]
    if anonymous:
        from accelbench.pack.anonymous import LEFT_OUT, write_anonymous_pack
        from accelbench.profiling.machine.identity import identity_here

        files = write_anonymous_pack(stores, identity_here(), out, part_size)
        say(LEFT_OUT)
    else:
        files = write_pack(stores, out, not no_traces, part_size)
    for file in files:
        say(f"{file} {file.stat().st_size / 1e6:,.1f} MB")
