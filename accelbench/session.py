"""A run goes here from its directory to its report, measured by this process alone or with other ranks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.errors import Interrupted
from accelbench.find_run import stored_runs
from accelbench.forecast import of_machine, past_seconds
from accelbench.kernels.lib.ranks.mpi_process import mpi_process
from accelbench.plain_console import PlainConsole, say
from accelbench.profiling.machine.cpu_probe import probed
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.record import Status
from accelbench.profiling.records.stored import readable
from accelbench.run.cluster import Cluster
from accelbench.run.gathering import gathered
from accelbench.run.other_rank import serve as serve_rank_0
from accelbench.run.progress import Progress
from accelbench.run.ranks import Ranks
from accelbench.run.runner import run_plan
from accelbench.run.store import RUNS, EarlierCeilings, Label, RunInfo, RunStore, Settings, new_run_id
from accelbench.run.suite import Suite

if TYPE_CHECKING:
    from accelbench.report.section import Run

EXIT_FAILED = 1
RECENT = 5
"""The last runs by which the time that is left is estimated."""
TRUSTED_NETWORK = (
    "--trusted-network: TensorFlow's servers (parameter-server, multiworker) listen at all addresses of each host, and "
    "let anyone who reaches them read and write files as this user"
)


def new_run(
    path: Path | None,
    word: str,
    suite: Suite | None,
    device: Device,
    settings: Settings,
    plan: list[Point],
    label: Label | None = None,
    earlier: EarlierCeilings | None = None,
) -> RunStore:
    """Make the directory of a run that is about to begin: that path, or one under `runs` named by time and word."""
    run_id = new_run_id(word)
    info = RunInfo(
        run_id=run_id,
        created=datetime.now().astimezone(),
        status="running",
        command=["accelbench", *map(readable, sys.argv[1:])],
        suite=suite.name if suite else None,
        study=bool(suite and suite.study),
        device=device,
        settings=settings,
        label=label or Label(),
        plan=[replace(point, seed=settings.seed) for point in plan],
        environment=probed(collect()),
        earlier_ceilings=earlier,
    )
    return RunStore.create(path or RUNS / run_id, info)


def complete(
    store: RunStore, console: PlainConsole, cluster: Cluster | None = None, again: Collection[Status] = ()
) -> int:
    """Measure what the run lacks, print its table, write its report and return the exit status of that.

    Points that ended in one of the ways `again` are measured once more.
    Interrupted is raised, after all that too, if the run was ended early.
    """
    console.print(f"run {store.path} on {store.info().device}")
    lost: list[str] = []
    try:
        with _ranks(cluster, store, console) as ranks:
            past = past_seconds(of_machine(stored_runs(RUNS)[-RECENT:], store.info().environment))
            run_plan(store, Progress(console, past), ranks, again)
            lost = ranks.lost() if ranks else []
        interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    from accelbench.report.section import Run  # what they bring would stand in memory while others measure
    from accelbench.report.terminal import print_run

    run = Run.of(store)
    print_run(run, console)
    complaints = PlainConsole(stderr=True) if console.quiet else console
    if console.quiet:
        say(run.outcome, stderr=console.stderr)
        for record in run.of_status("failed"):
            complaints.print(f"failed {record.point}: {record.reason}", style="red", soft_wrap=True)
    for line in lost:
        complaints.print(line, style="red")
    reported = True
    if run.records:
        # The report has a process of its own: its libraries would not fit the runner's 200 MB.
        report = [sys.executable, "-m", "accelbench", "report", "--quiet", str(store.path)]
        done = subprocess.run(report, check=False, stdout=subprocess.PIPE, encoding="utf-8")
        say(done.stdout.rstrip(), stderr=console.stderr)
        reported = done.returncode == 0
    store.close()
    if interrupted:
        turns = store.turns_left(store.lines())
        left = len({str(turn.point) for turn in turns})
        what = f"{left} of {len(run.info.plan)} points unmeasured"
        if len(turns) > left:
            what = f"{len(turns)} rounds of {left} points unmeasured"
        raise Interrupted(f"interrupted with {what}: 'accelbench resume {store.path}' goes on")
    return exit_status(run, complaints) or (EXIT_FAILED if lost or not reported else 0)


def exit_status(run: Run, console: PlainConsole) -> int:
    """Return the status that a finished run ends with: 1 if a point failed, or no point at all was measured.

    Where quiet is required, it is 1 if a point was disturbed, too. The disturbed points that make it fail are named,
    and so are those whose records are gone.
    """
    for point in run.lost:
        console.print(f"{point}: its record is gone: records.jsonl was changed meanwhile", style="red")
    disturbed = run.counts.disturbed if run.info.settings.require_quiet else 0
    if disturbed:
        names = "".join(f"\n  {record.point.benchmark} {record.point.details}" for record in run.disturbed)
        console.print(f"--require-quiet: these points were disturbed:{names}", style="red")
    if not run.counts.measured:
        console.print("nothing was measured", style="red")
    return EXIT_FAILED if run.lost or disturbed or run.counts.failed or not run.counts.measured else 0


def serve(cluster: Cluster) -> int:
    """Measure, as another rank than 0, what rank 0 says, and return the run's exit status."""
    with mpi_process():
        return serve_rank_0(cluster, collect())


@contextmanager
def _ranks(cluster: Cluster | None, store: RunStore, console: PlainConsole) -> Iterator[Ranks | None]:
    """Yield all ranks of this run once they have come; how they differ is said before any figure, and kept."""
    if cluster is None:
        yield None
        return
    info = store.info()
    with mpi_process(), gathered(cluster, info.environment) as ranks:
        store.write_info(info.model_copy(update={"other_ranks": ranks.others()}))
        console.print(ranks.sentence())
        if info.settings.trusted_network:
            console.print(TRUSTED_NETWORK, style="yellow")
        for difference in ranks.unlike(info.device):
            console.print(difference, style="yellow")
        yield ranks
