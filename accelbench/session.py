"""A run goes here from its directory to its report, measured by this process alone or with other ranks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from rich.console import Console

from accelbench.errors import Interrupted
from accelbench.format import plain
from accelbench.run.cluster import Cluster
from accelbench.run.progress import Progress
from accelbench.run.ranks import Ranks, gathered
from accelbench.run.ranks import serve as serve_rank_0
from accelbench.run.runner import run_plan
from accelbench.run.store import RUNS, RunInfo, RunStore, Settings, new_run_id
from kernels.mpi_process import mpi_process
from profiling.machine.cpu_probe import probed
from profiling.machine.environment.collect import collect
from profiling.records.point import Device, Point
from profiling.records.record import Record
from profiling.records.stored import readable

EXIT_FAILED = 1


def new_run(
    path: Path | None, label: str, suite: str | None, device: Device, settings: Settings, plan: list[Point]
) -> RunStore:
    """Make the directory of a run that is about to begin: that path, or one under `runs` named by time and label."""
    run_id = new_run_id(label)
    info = RunInfo(
        run_id=run_id,
        created=datetime.now().astimezone(),
        status="running",
        command=["accelbench", *map(readable, sys.argv[1:])],
        suite=suite,
        device=device,
        settings=settings,
        plan=[replace(point, seed=settings.seed) for point in plan],
        environment=probed(collect()),
    )
    return RunStore.create(path or RUNS / run_id, info)


def complete(store: RunStore, console: Console, cluster: Cluster | None = None, retry_failed: bool = False) -> int:
    """Measure what the run lacks, print its table, write its report and return the exit status of that.

    Interrupted is raised, after all that too, if the run was ended early.
    """
    console.print(f"run {store.path} on {store.info().device}", highlight=False)
    try:
        with _ranks(cluster, store, console) as ranks:
            run_plan(store, Progress(console), ranks, retry_failed)
        interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    from accelbench.report.terminal import print_run  # what it brings would stand in memory while others measure

    info, records = store.info(), store.records()
    print_run(info, records, console)
    reported = True
    if records:
        # The report has a process of its own: its libraries would not fit the runner's 200 MB.
        report = [sys.executable, "-m", "accelbench", "report", "--quiet", str(store.path)]
        reported = subprocess.run(report, check=False).returncode == 0
    store.close()
    if interrupted:
        turns = store.turns_left(store.lines())
        left = len({str(turn.point) for turn in turns})
        what = f"{left} of {len(info.plan)} points unmeasured"
        if len(turns) > left:
            what = f"{len(turns)} rounds of {left} points unmeasured"
        raise Interrupted(f"interrupted with {what}: 'accelbench resume {store.path}' goes on")
    return exit_status(info, records, console) or (0 if reported else EXIT_FAILED)


def exit_status(info: RunInfo, records: Sequence[Record], console: Console) -> int:
    """Return the status that a finished run ends with: 1 if a point failed or, where quiet is required, was disturbed.

    The disturbed points that make it fail are named, and so are those whose records are gone.
    """
    from accelbench.report.rows import disturbed_records

    lost = {str(point) for point in info.plan} - {str(record.point) for record in records}
    for point in sorted(lost):
        console.print(
            f"{plain(point)}: its record is gone: records.jsonl was changed meanwhile", style="red", markup=False
        )
    disturbed = disturbed_records(records) if info.settings.require_quiet else []
    if disturbed:
        names = "".join(f"\n  {record.point.benchmark} {plain(record.point.details)}" for record in disturbed)
        console.print(f"--require-quiet: these points were disturbed:{names}", style="red", markup=False)
    return EXIT_FAILED if lost or disturbed or any(record.status == "failed" for record in records) else 0


def serve(cluster: Cluster) -> int:
    """Measure, as another rank than 0, what rank 0 says, and return the run's exit status."""
    with mpi_process():
        return serve_rank_0(cluster, collect())


@contextmanager
def _ranks(cluster: Cluster | None, store: RunStore, console: Console) -> Iterator[Ranks | None]:
    """Yield all ranks of this run once they have come; how they differ is said before any figure, and kept."""
    if cluster is None:
        yield None
        return
    info = store.info()
    with mpi_process(), gathered(cluster, info.environment) as ranks:
        store.write_info(info.model_copy(update={"other_ranks": ranks.others()}))
        console.print(plain(ranks.sentence()), markup=False)
        for difference in ranks.unlike(info.device):
            console.print(plain(difference), style="yellow", markup=False)
        yield ranks
