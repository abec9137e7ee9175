"""Command `gather`: the state of all runs in a folder, and their records in one table."""

from __future__ import annotations

from pathlib import Path

import click

from accelbench.errors import DataDamaged, UserError

EXIT_INCOMPLETE = 1


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
def command(folder: Path) -> int:
    """Print the state of each run in FOLDER, and write all records to FOLDER/records.csv.

    FOLDER is the output folder of a job or job array (runs/slurm-JOB). The exit status is 1 if a run is unreadable or
    not finished, or if a point failed.
    """
    from accelbench.output.console import say
    from accelbench.report.stored_run import Run
    from accelbench.report.table import write_joined_table
    from accelbench.results.find_run import stored_runs

    runs: list[tuple[str, Run]] = []
    unreadable = False
    for store in stored_runs(folder):
        try:
            runs.append((store.path.name, Run.of(store)))
        except (DataDamaged, UserError) as error:
            unreadable = True
            say(f"left out: {error}", stderr=True)
    runs.sort(key=lambda named: named[0])
    if not runs:
        raise UserError(f"no run in {folder}: expected the output folder of a job (runs/slurm-JOB)")
    for name, run in runs:
        say(f"{name}: {run.outcome}")
    table = folder / "records.csv"
    write_joined_table(table, runs)
    say(f"records {table}")
    complete = all(run.info.status == "finished" and not run.counts.failed for _, run in runs)
    return 0 if complete and not unreadable else EXIT_INCOMPLETE
