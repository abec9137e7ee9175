"""One run from its directory to its report, on this process alone or with other ranks."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from threading import active_count
from typing import TYPE_CHECKING

from accelbench.errors import Interrupted, RunBroken
from accelbench.execution.cluster import Cluster
from accelbench.execution.gathering import gathered
from accelbench.execution.other_rank import serve as serve_rank_0
from accelbench.execution.plan import Choice, ceilings_beside, make_plan, refuse_doomed, replaced_backend
from accelbench.execution.progress import Progress
from accelbench.execution.ranks import Ranks
from accelbench.execution.runner import run_plan
from accelbench.execution.store import RUNS, EarlierCeilings, Label, RunInfo, RunStore, Settings, new_run_id
from accelbench.execution.suite import Suite, load_suite
from accelbench.execution.template_process import FORKS
from accelbench.output.console import PlainConsole, say
from accelbench.output.plain_text import one_line
from accelbench.profiling.machine.cpu_probe import probed
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.record import Status
from accelbench.profiling.records.stored import readable
from accelbench.results.earlier_ceilings import age, earlier_ceilings
from accelbench.results.find_run import left_by, open_run, stored_runs
from accelbench.results.forecast import of_machine, past_seconds

if TYPE_CHECKING:
    from accelbench.report.section import Run

EXIT_FAILED = 1
RECENT = 5
"""Number of earlier runs that the remaining time is estimated from."""
TRUSTED_NETWORK = (
    "--trusted-network: TensorFlow's servers (parameter-server, multiworker) listen at all addresses of each host, and "
    "let anyone who reaches them read and write files as this user"
)


@dataclass(frozen=True)
class RunPlan:
    """The points of a run that is about to begin, with its settings."""

    word: str
    """The label in the run's ID: the suite, or the first benchmark."""
    suite: Suite | None
    device: Device
    settings: Settings
    points: list[Point]
    earlier: EarlierCeilings | None = None
    """The ceilings that are taken over from an earlier run."""
    notes: list[str] = field(default_factory=list)
    """Sentences for the user: where the plan differs from what was requested."""


def plan_run(
    benchmarks: Sequence[str],
    *,
    suite: str | None,
    device: Device,
    choices: Sequence[Choice],
    backend: str | None,
    ranks: int = 1,
    without: str | None = None,
    seed: int = 1,
    time_limit: float | None = None,
    max_seconds: float | None = None,
    rounds: int | None = None,
    ceilings: bool = True,
    new_ceilings: bool = False,
    **settings: bool,
) -> RunPlan:
    """Return the plan of these benchmarks, of a suite, or of the suite `quick`; UserError for what does not exist.

    What is None is the suite's, or else the default of `Settings`, whose other fields are in `settings`.
    """
    chosen = load_suite(suite or "quick") if suite or not benchmarks else None
    plan = make_plan(benchmarks, chosen, device, choices, backend, ranks)
    beside = ceilings_beside(plan) if ceilings else []
    if without:
        left = left_by(open_run(without), [*beside, *plan])
        beside, plan = ([point for point in left if point in part] for part in (beside, plan))
    refuse_doomed([*beside, *plan])
    replaced = replaced_backend(plan, backend)
    notes = [replaced] if replaced else []
    default = Settings()
    wanted = Settings(
        seed=seed,
        time_limit_s=time_limit,
        max_seconds=max_seconds or (chosen and chosen.max_seconds.get(device)) or default.max_seconds,
        rounds=rounds or (chosen and chosen.rounds.get(device)) or default.rounds,
        training_rounds=rounds or (chosen and chosen.training_rounds.get(device)) or default.training_rounds,
        ceilings=ceilings,
        **settings,
    )
    earlier = None
    if beside and not new_ceilings:
        earlier = earlier_ceilings(beside, wanted, device, collect())
    if earlier:
        notes.append(
            f"the ceilings are those of {earlier.run_id}, begun {age(earlier)} ago on this machine as it is now; "
            "--new-ceilings measures them anew"
        )
    points = plan if earlier else [*beside, *plan]
    return RunPlan(chosen.name if chosen else benchmarks[0], chosen, device, wanted, points, earlier, notes)


def new_run(
    path: Path | None, plan: RunPlan, label: Label | None = None, command: Sequence[str] | None = None
) -> RunStore:
    """Create the directory of a run that is about to begin: that path, or one under `runs` named by time and word.

    `command` is the command line that is stored, by default this process's own.
    """
    run_id = new_run_id(plan.word)
    info = RunInfo(
        run_id=run_id,
        created=datetime.now().astimezone(),
        status="running",
        command=[*map(readable, command or ["accelbench", *sys.argv[1:]])],
        suite=plan.suite.name if plan.suite else None,
        study=bool(plan.suite and plan.suite.study),
        device=plan.device,
        settings=plan.settings,
        label=label or Label(),
        plan=[replace(point, seed=plan.settings.seed) for point in plan.points],
        environment=probed(collect()),
        earlier_ceilings=plan.earlier,
    )
    return RunStore.create(path or RUNS / run_id, info)


def complete(
    store: RunStore, console: PlainConsole, cluster: Cluster | None = None, again: Collection[Status] = ()
) -> int:
    """Measure the missing points, print the table, write the report and return the exit status.

    Points whose status is in `again` are measured again. Raises Interrupted, after the report, if the run was ended
    early.
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
    from accelbench.report.section import Run  # imported late, to keep this process small during measurements
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
    reported = not run.records or report(store, run, console.stderr)
    store.close()
    if interrupted:
        turns = store.turns_left(store.lines())
        left = len({str(turn.point) for turn in turns})
        what = f"{left} of {len(run.info.plan)} points unmeasured"
        if len(turns) > left:
            what = f"{len(turns)} rounds of {left} points unmeasured"
        raise Interrupted(f"interrupted with {what}: 'accelbench resume {store.path}' goes on")
    return exit_status(run, complaints) or (EXIT_FAILED if lost or not reported else 0)


def report(store: RunStore, run: Run, stderr: bool) -> bool:
    """Write the report, if possible in a forked process; return whether it was written.

    The fork shares the derived run, and keeps the memory of the drawing libraries out of this process, which may go on
    to measure another run. With other threads, as in a notebook, a fork could copy locks that they hold.
    """
    if not FORKS or active_count() > 1:
        return _write_report(store, run, stderr) == 0
    child = get_context("fork").Process(target=_report_and_exit, args=(store, run, stderr))
    child.start()
    child.join()
    return child.exitcode == 0


def _report_and_exit(store: RunStore, run: Run, stderr: bool) -> None:
    try:
        sys.exit(_write_report(store, run, stderr))
    except KeyboardInterrupt:  # the parent process reports it
        sys.exit(Interrupted.exit_status)


def _write_report(store: RunStore, run: Run, stderr: bool) -> int:
    """Write the report and print its path, or the reason why it cannot be written; return an exit status."""
    from accelbench.report import write_report

    try:
        say(f"report {write_report(store, run)}", stderr=stderr)
    except (RunBroken, OSError) as error:
        say(f"accelbench: {one_line(str(error))}", stderr=True)
        return EXIT_FAILED
    return 0


def exit_status(run: Run, console: PlainConsole) -> int:
    """Return the exit status of a finished run: 1 if a point failed, or none was measured.

    With `--require-quiet`, noisy points count as failed. Noisy and missing points are printed by name.
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
    """Serve as a rank other than 0: measure the points that rank 0 sends, and return the run's exit status."""
    from accelbench.kernels.lib.ranks.mpi_process import mpi_process  # for runs of several ranks only

    with mpi_process():
        return serve_rank_0(cluster, collect())


@contextmanager
def _ranks(cluster: Cluster | None, store: RunStore, console: PlainConsole) -> Iterator[Ranks | None]:
    """Yield the connected ranks of this run; the differences of their environments are printed and stored."""
    if cluster is None:
        yield None
        return
    from accelbench.kernels.lib.ranks.mpi_process import mpi_process  # for runs of several ranks only

    info = store.info()
    with mpi_process(), gathered(cluster, info.environment) as ranks:
        store.write_info(info.model_copy(update={"other_ranks": ranks.others()}))
        console.print(ranks.sentence())
        if info.settings.trusted_network:
            console.print(TRUSTED_NETWORK, style="yellow")
        for difference in ranks.unlike(info.device):
            console.print(difference, style="yellow")
        yield ranks
