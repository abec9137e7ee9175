"""Collect the runs of a job or job array: print one line per run, and write all records to one CSV file.

    .venv/bin/python containers/slurm/gather.py runs/slurm-JOB
    apptainer exec IMAGE.sif python containers/slurm/gather.py runs/slurm-JOB

Exit status: 0 if all points were measured and verified, 1 if a point failed or is missing, 2 if there are no records.
"""

from __future__ import annotations

import sys
from pathlib import Path

from accelbench.errors import UserError
from accelbench.execution.store import RunStore
from accelbench.report.section import Run
from accelbench.report.table import write_joined_table


def gather(folder: Path) -> bool:
    """Write the records of all runs to `records.csv` in the folder, and return True if every run is complete."""
    runs = sorted(file.parent for file in folder.glob("*/run.json"))
    if not runs:
        raise UserError(f"no runs in {folder}: give the output folder of the job (runs/slurm-<job>)")
    found: list[tuple[str, Run]] = []
    complete = True
    for run in runs:
        store = RunStore.open(run)
        info, records = store.info(), store.records()
        failed = sum(record.status == "failed" for record in records)
        complete &= info.status == "finished" and not failed
        print(f"{run.name}: {info.status}, {len(records)} of {len(info.plan)} points, {failed} failed")
        if records:
            found.append((run.name, Run(info, records)))
    if not found:
        raise UserError(f"no records yet in the runs of {folder}")
    write_joined_table(folder / "records.csv", found)
    print(f"{sum(len(run.records) for _, run in found)} records in {folder / 'records.csv'}")
    return complete


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER")
    try:
        sys.exit(0 if gather(Path(sys.argv[1])) else 1)
    except UserError as error:
        print(f"gather: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
