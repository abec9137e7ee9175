"""One run from its directory to its report, in one process or several ranks."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from threading import active_count
from typing import TYPE_CHECKING

from accelbench.errors import Interrupted, RunBroken, UserError
from accelbench.execution.cluster import Cluster
from accelbench.execution.gathering import gathered
from accelbench.execution.other_rank import serve as serve_rank_0
from accelbench.execution.plan import Choice, make_plan, needed_ceilings, replaced_backend, require_any_framework
from accelbench.execution.progress import Progress
from accelbench.execution.ranks import Ranks
from accelbench.execution.runner import run_plan
from accelbench.execution.store import RUNS, EarlierCeilings, Label, RunInfo, RunStore, Settings, new_run_id, now
from accelbench.execution.suite import KERNEL_ROUNDS, Suite, load_suite
from accelbench.execution.template_process import FORKS
from accelbench.output.console import PlainConsole, say
from accelbench.output.plain_text import one_line
from accelbench.profiling.machine.cpu_probe import with_bandwidths
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.machine.environment.tpu import with_tpus
from accelbench.profiling.machine.packages import missing_trace_packages
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.record import Status
from accelbench.profiling.records.stored import readable
from accelbench.results.earlier_ceilings import age, best_ceilings, earlier_ceilings
from accelbench.results.find_run import open_run, stored_runs, unfinished_in
from accelbench.results.forecast import of_machine, past_seconds

if TYPE_CHECKING:
    from accelbench.report.section import Run

EXIT_FAILED = 1
RECENT = 5
"""Number of earlier runs for the estimate of the remaining time."""
TRUSTED_NETWORK = (
    "--trusted-network: TensorFlow's servers (parameter-server, multiworker) listen at all addresses of each host; "
    "anyone who can connect to them can read and write files as this user"
)


@dataclass(frozen=True)
class RunPlan:
    """Points and settings of a new run."""

    label: str
    """Label in the run's ID: the suite, or the first benchmark."""
    suite: Suite | None
    device: Device
    settings: Settings
    points: list[Point]
    earlier: EarlierCeilings | None = None
    """Ceilings reused from an earlier run."""
    best: list[EarlierCeilings] = field(default_factory=list)
    """Highest memory ceilings of past runs on this machine."""
    notes: list[str] = field(default_factory=list)
    """Messages to the user about differences between plan and request."""


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
    patience: float | None = None,
    rounds: int | None = None,
    ceilings: bool = True,
    new_ceilings: bool = False,
    **settings: bool,
) -> RunPlan:
    """Return the plan of the given benchmarks or suite, by default of the suite `quick`.

    Arguments that are None have the value of the suite, or the default; further fields of `Settings` are
    in `settings`. Raises UserError for unknown names and values.
    """
    chosen = load_suite(suite or "quick") if suite or not benchmarks else None
    plan = make_plan(benchmarks, chosen, device, choices, backend, ranks)
    extra = needed_ceilings(plan) if ceilings else []
    if without:
        left = unfinished_in(open_run(without), [*extra, *plan])
        extra, plan = ([point for point in left if point in part] for part in (extra, plan))
    require_any_framework([*extra, *plan])
    require_trace_packages(settings.get("trace", False), plan)
    replaced = replaced_backend(plan, backend)
    notes = [replaced] if replaced else []
    default = Settings()
    wanted = Settings(
        seed=seed,
        time_limit_s=time_limit,
        max_seconds=max_seconds or (chosen and chosen.max_seconds.get(device)) or default.max_seconds,
        patience_s=patience,
        rounds=rounds or (chosen and chosen.rounds.get(device)) or KERNEL_ROUNDS,
        training_rounds=rounds or (chosen and chosen.training_rounds.get(device)) or default.training_rounds,
        ceilings=ceilings,
        **settings,
    )
    earlier = None
    if extra and not new_ceilings:
        earlier = earlier_ceilings(extra, wanted, device, collect())
    if earlier:
        notes.append(
            f"ceilings are reused from {earlier.run_id}, started {age(earlier)} ago; --new-ceilings measures them"
        )
    points = plan if earlier else [*extra, *plan]
    # Memory of the host may be shared with other guests, unlike a device's.
    best = best_ceilings([*extra, *plan], device, collect()) if ceilings and device == "cpu" and ranks == 1 else []
    return RunPlan(chosen.name if chosen else benchmarks[0], chosen, device, wanted, points, earlier, best, notes)


def require_trace_packages(trace: bool, points: Sequence[Point]) -> None:
    """Raise `UserError` if training workloads are to be traced and the packages of the extra `trace` are missing."""
    if trace and any(point.backend for point in points) and (missing := missing_trace_packages()):
        raise UserError(f"--trace: {missing}")


def new_run(
    path: Path | None, plan: RunPlan, label: Label | None = None, command: Sequence[str] | None = None
) -> RunStore:
    """Create the directory of a new run at `path`, by default under `runs`, named by the run's ID.

    `command` is the stored command line, by default the command line of this process.
    """
    run_id = new_run_id(plan.label)
    environment = with_bandwidths(collect())
    if plan.device == "tpu":
        environment = with_tpus(environment)
    info = RunInfo(
        run_id=run_id,
        created=now(),
        status="running",
        command=[*map(readable, command or ["accelbench", *sys.argv[1:]])],
        suite=readable(plan.suite.name) if plan.suite else None,
        study=bool(plan.suite and plan.suite.study),
        device=plan.device,
        settings=plan.settings,
        label=label or Label(),
        plan=[replace(point, seed=plan.settings.seed) for point in plan.points],
        environment=environment,
        earlier_ceilings=plan.earlier,
        best_ceilings=plan.best,
    )
    return RunStore.create(path or RUNS / run_id, info)


def complete(
    store: RunStore, console: PlainConsole, cluster: Cluster | None = None, again: Collection[Status] = ()
) -> int:
    """Measure the missing points, print the table, write the report and return the exit status.

    Points with a status in `again` are measured again. Raises Interrupted, after the report, if the run was ended
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
    errors = PlainConsole(stderr=True) if console.quiet else console
    if console.quiet:
        say(run.outcome, stderr=console.stderr)
        for record in run.of_status("failed"):
            errors.print(f"failed {record.point}: {record.reason}", style="red", soft_wrap=True)
    for line in lost:
        errors.print(line, style="red")
    reported = not run.records or report(store, run, console.stderr)
    store.close()
    if interrupted:
        runs = store.remaining_runs(store.lines())
        left = len({str(scheduled.point) for scheduled in runs})
        what = f"{left} of {len(run.info.plan)} points unmeasured"
        if len(runs) > left:
            what = f"{len(runs)} repetitions of {left} points unmeasured"
        raise Interrupted(f"interrupted with {what}: continue with 'accelbench resume {store.path}'")
    return exit_status(run, errors) or (EXIT_FAILED if lost or not reported else 0)


def report(store: RunStore, run: Run, stderr: bool) -> bool:
    """Write the report, if possible in a forked process; return whether it was written.

    The fork keeps the plotting libraries out of this process, which may measure another run. With several threads, as
    in a notebook, a fork could copy locks held by the other threads.
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
        console.print(f"{point}: its record is missing: records.jsonl was changed during the run", style="red")
    noisy = run.counts.disturbed if run.info.settings.require_quiet else 0
    if noisy:
        names = "".join(f"\n  {record.point.benchmark} {record.point.details}" for record in run.disturbed)
        console.print(f"--require-quiet: these points are noisy:{names}", style="red")
    if not run.counts.measured:
        console.print("nothing was measured", style="red")
    return EXIT_FAILED if run.lost or noisy or run.counts.failed or not run.counts.measured else 0


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
        console.print(ranks.description())
        if info.settings.trusted_network:
            console.print(TRUSTED_NETWORK, style="yellow")
        for difference in ranks.differences(info.device):
            console.print(difference, style="yellow")
        yield ranks
