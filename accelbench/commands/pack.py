"""Command `pack`: write runs into a bundle, one archive file or several parts."""

from __future__ import annotations

from pathlib import Path

import click

from accelbench.commands import BoundedNumber, complete_run
from accelbench.settings.limits import MOST_MIB


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=complete_run)
@click.option(
    "--out",
    metavar="FILE|FOLDER|URL",
    help="File to write, or a folder (s3://, gs://, ...). Default: in the current folder, named by date and machine.",
)
@click.option(
    "--anonymous",
    is_flag=True,
    help="Leave out identifying data: names, paths, time of day, program output, traces and stacks.",
)
@click.option("--no-traces", is_flag=True, help="Leave out traces, the largest part of runs with training workloads.")
@click.option(
    "--part-size",
    type=BoundedNumber(0.01, MOST_MIB),
    metavar="MIB",
    help="Split the bundle into files of at most this size.",
)
def command(runs: tuple[str, ...], out: str | None, anonymous: bool, no_traces: bool, part_size: float | None) -> None:
    """Write runs into one bundle, which report, compare and tensorboard accept as a run: PACK, or PACK:RUN."""
    from accelbench.output.console import say
    from accelbench.pack.write import write_pack
    from accelbench.remote_folder import local_name
    from accelbench.results.find_run import open_directory

    stores = [open_directory(run) for run in runs]

    def write(path: Path | None) -> list[Path]:
        if not anonymous:
            return write_pack(stores, path, not no_traces, part_size)
        from accelbench.pack.anonymous import KEPT, LEFT_OUT, write_anonymous_pack
        from accelbench.profiling.machine.identity import identity_here

        files = write_anonymous_pack(stores, identity_here(), path, part_size)
        say(LEFT_OUT)
        say(KEPT)
        return files

    path = local_name(out) if out else ""
    if out and path is None:
        from accelbench.pack.upload import upload_pack

        written = upload_pack(out, write)
    else:
        written = [(str(file), file.stat().st_size) for file in write(Path(path) if path else None)]
    for name, size in written:
        say(f"{name} {size / 1e6:,.1f} MB")
