"""Runner: measures each scheduled run in new worker processes with a time limit, and stores one record for each.

A scheduled run is one repetition of one point (`accelbench.execution.schedule`). GPU kernels of one rank use workers
forked from a process with the imports done (`accelbench.execution.template`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from types import FrameType
from typing import Any

from accelbench.errors import RunBroken, UserError
from accelbench.execution.affinity import cores_missing
from accelbench.execution.patience import Patience, is_better, sampling_seconds
from accelbench.execution.plan import discover, layout_of, refuse_impossible
from accelbench.execution.progress import Progress
from accelbench.execution.ranks import RankLost, Ranks, RemoteWorker, WorkerRendezvous
from accelbench.execution.schedule import ScheduledRun
from accelbench.execution.store import RunInfo, RunStore
from accelbench.execution.stored_file import json_of
from accelbench.execution.team import Member, PointFailure, Team, failed
from accelbench.execution.template_process import FORKS, Template
from accelbench.execution.worker import LocalWorkerJob, WorkerJob
from accelbench.execution.worker_process import WorkerProcess
from accelbench.profiling.benchmark import Benchmark
from accelbench.profiling.devices import device_kind
from accelbench.profiling.measure.profiled_steps import KeptFolders
from accelbench.profiling.ranks.world import World
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record, Status
from accelbench.profiling.timing.position import Page

ADVICE = "start them by 'accelbench launch --procs {} run …', srun, mpirun or torchrun"
OWN_SIGNAL_SECONDS = 2  # schedulers signal the processes of a job in any order


def run_plan(
    store: RunStore, progress: Progress, ranks: Ranks | None = None, again: Collection[Status] = ()
) -> RunInfo:
    """Measure all scheduled runs without a record, or with a status in `again`.

    After a failed or skipped repetition the point is not measured again. Repetitions with too few undisturbed samples
    are measured again at the end, as long as the run has patience left. Ctrl-C, SIGTERM and SIGHUP leave a valid run
    with the status "interrupted", which can be resumed, and raise KeyboardInterrupt. Returns the info of the finished
    run.
    """
    info, before = store.info(), store.lines()
    runs = store.remaining_runs(before, again)
    if unknown := sorted({scheduled.point.benchmark for scheduled in runs} - discover().keys()):
        raise UserError(
            f"{store.path} has points of unknown benchmarks ({', '.join(unknown)}): set ACCELBENCH_PATH as when the "
            "run was started"
        )
    refuse_impossible(scheduled.point for scheduled in runs)
    progress.start(info.schedule(), runs, before)
    info = _mark(store, info, status="running")
    begin, worker_s, order = monotonic(), 0.0, len(before)
    over: set[str] = set()
    patience = Patience(info.settings, runs)

    def end(status: str) -> RunInfo:
        progress.stop()
        wall_s = info.wall_s + monotonic() - begin
        return _mark(store, info, status=status, wall_s=wall_s, worker_s=info.worker_s + worker_s)

    try:
        with signals_as_ctrl_c(), Template() as template, TemporaryDirectory(prefix="accelbench-") as scratch:

            def take(scheduled: ScheduledRun, patience_s: float) -> tuple[Record, str]:
                nonlocal order, worker_s
                progress.started(scheduled)
                order += 1
                with _system_errors_end_run(store):
                    record, text = measure_scheduled(
                        store.path, info, scheduled, ranks, template, Path(scratch), progress.page, order, patience_s
                    )
                worker_s += record.elapsed_s + record.phases.import_s
                return record, text

            for scheduled in runs:
                if str(scheduled.point) in over:
                    continue
                record, text = take(scheduled, patience.of(scheduled))
                store.append(record, text)
                if record.status != "measured":
                    over.add(str(scheduled.point))
                patience.finished(scheduled, record)
                progress.finished(record)
            for scheduled, bound in patience.again():
                if str(scheduled.point) not in over:
                    record, text = take(scheduled, 0.0)
                    if is_better(record, bound):
                        store.append(record, text)
                    patience.repeated(record)
                    progress.finished(record)
    except RunBroken:
        with suppress(RunBroken):  # the same error may prevent writing run.json
            end("interrupted")
        raise
    except BaseException:
        end("interrupted")
        raise
    return end("finished")


@contextmanager
def _system_errors_end_run(store: RunStore) -> Iterator[None]:
    """Convert OSError to RunBroken: without files or processes no other point can be measured either."""
    try:
        yield
    except OSError as error:
        raise RunBroken(f"the next point cannot be measured: {error}; {store.recovery_text()}") from error


def _mark(store: RunStore, info: RunInfo, **update: Any) -> RunInfo:
    info = info.model_copy(update=update)
    store.write_info(info)
    return info


@contextmanager
def signals_as_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM (from schedulers) and SIGHUP (from a closed terminal).

    Ignored signals stay ignored, as under nohup.
    """

    def interrupt(signum: int, frame: FrameType | None) -> None:
        # Schedulers often signal twice, the job's script and each process; the run is being closed already.
        for each in previous:
            signal.signal(each, signal.SIG_IGN)
        if signum == signal.SIGHUP:  # writing to a closed terminal would be an error
            devnull = os.open(os.devnull, os.O_WRONLY)
            for standard in (1, 2):
                os.dup2(devnull, standard)
        raise KeyboardInterrupt

    handled = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    previous = {each: signal.signal(each, interrupt) for each in handled}
    try:
        yield
    finally:
        for each, handler in previous.items():
            if signal.getsignal(each) is interrupt:
                signal.signal(each, handler)


def measure_scheduled(
    path: Path,
    info: RunInfo,
    scheduled: ScheduledRun,
    ranks: Ranks | None,
    template: Template,
    scratch: Path,
    page: Page | None = None,
    order: int = 1,
    patience_s: float | None = None,
) -> tuple[Record, str]:
    """Measure one scheduled run in processes of its own; return its record, and the record as JSON.

    `path` is the run directory, for the worker's log and kept profiles. `scratch` holds machine code shared by the
    repetitions of a point. `page` receives the progress of a training run. `order` is the position of the measurement
    in the run, from 1. `patience_s` is the additional time for undisturbed samples.
    """

    def storable(record: Record) -> tuple[Record, str]:
        record = record.model_copy(update={"round": scheduled.round, "order": order})
        return record, json_of(record)

    point = scheduled.point
    benchmark, started = discover()[point.benchmark], datetime.now(UTC)
    failure = too_few(point, ranks)
    if failure:
        return storable(_failed(benchmark, point, failure, started))
    forked = _can_be_forked(benchmark, point)
    if not forked:
        template.close()  # frees its memory for the measurement
    log = path / "logs" / f"{point.benchmark}.log"
    log.parent.mkdir(exist_ok=True)
    code = scratch / str(info.plan.index(point)) if info.settings.rounds_of(point) > 1 else None
    try:
        team = _team(path, info, scheduled, ranks, log, template if forked else None, code, page, patience_s)
    except RankLost as lost:
        if lost.is_new:
            sleep(OWN_SIGNAL_SECONDS)  # a scheduler that ended the rank may be about to end this process, too
        failure = PointFailure(None, str(lost), [], status="skipped")
        return storable(_failed(benchmark, point, failure, started))
    with team:
        record, failure = team.measure(info.settings.time_limit_s or benchmark.time_limit_s)
    if failure and failure.signal in (signal.SIGTERM, signal.SIGINT):
        sleep(OWN_SIGNAL_SECONDS)  # a signal for the whole job ends the run here
    if record is not None:
        try:
            return storable(record)
        except ValueError as error:
            failure = PointFailure(None, f"the worker's record cannot be stored: {error}", team.tail())
    assert failure is not None
    return storable(_failed(benchmark, point, failure, started))


def _failed(benchmark: Benchmark, point: Point, failure: PointFailure, started: datetime) -> Record:
    """Return the record of a point that was not measured, with its declared facts unless declaring them fails."""
    try:
        return failed(point, failure, started, **benchmark.declared(point))
    except Exception:  # noqa: BLE001 - benchmarks declare facts by functions of their own
        return failed(point, failure, started, figure=benchmark.metric)


def too_few(point: Point, ranks: Ranks | None) -> PointFailure | None:
    """Return a skip reason if this run has too few processes, GPUs or host cores for the point, else None."""
    needed, available = layout_of(point).processes, ranks.size if ranks else 1
    missing = cores_missing(point.host_cores)
    if needed > available:
        missing = f"the point needs {needed} processes, and this run has {available}: {ADVICE.format(needed)}"
    elif needed > 1 and point.host_cores is not None:
        missing = (
            f"a limit of {point.host_cores} host cores applies to one process, and the point has {needed} processes"
        )
    elif ranks and needed > 1 and device_kind(point.device).card_per_rank:
        missing = ranks.too_few_gpus(needed)
    return PointFailure(None, missing, [], status="skipped") if missing else None


def _can_be_forked(benchmark: Benchmark, point: Point) -> bool:
    """Return whether the point's worker can be forked from the template process.

    A training workload cannot: its framework starts threads and initializes devices at import.
    """
    serial = layout_of(point).processes == 1 and point.host_cores is None
    return FORKS and serial and device_kind(point.device).forkable and not benchmark.backends


def _team(
    path: Path,
    info: RunInfo,
    scheduled: ScheduledRun,
    ranks: Ranks | None,
    log: Path,
    template: Template | None,
    code: Path | None,
    page: Page | None,
    patience_s: float | None,
) -> Team:
    """Start one worker in each rank that the point needs; raise RankLost if one of these ranks is lost."""
    size = layout_of(scheduled.point).processes
    nodes = ranks.nodes[:size] if ranks else [0]
    rendezvous = ranks.rendezvous(size) if ranks and size > 1 else WorkerRendezvous(World().addresses, "", "")
    members: list[Member] = []
    for rank in range(size):
        world = World(
            rank=rank,
            size=size,
            local_rank=nodes[:rank].count(nodes[rank]),
            local_size=nodes.count(nodes[rank]),
            addresses=rendezvous.addresses,
            secret=rendezvous.secret,
            trusted=info.settings.trusted_network,
        )
        job = _worker_job(info, scheduled, world, patience_s)
        if rank == 0:
            local = _local_job(path, info, scheduled, job, code, page)
            members.append(WorkerProcess(local, log, scheduled.point.host_cores, template))
        else:
            assert ranks is not None
            members.append(RemoteWorker(ranks.peers[rank - 1], job, rendezvous.nonce))
    return Team(members, nodes)


def _worker_job(info: RunInfo, scheduled: ScheduledRun, world: World, patience_s: float | None) -> WorkerJob:
    return WorkerJob(
        point=scheduled.point,
        environment=info.environment,
        max_seconds=sampling_seconds(info.settings, scheduled.point),
        patience_s=patience_s,
        brief=scheduled.round > 1,
        world=world,
    )


def _local_job(
    path: Path, info: RunInfo, scheduled: ScheduledRun, job: WorkerJob, code: Path | None, page: Page | None
) -> LocalWorkerJob:
    """Return the job of rank 0's worker; the first repetition's profile is kept in the run directory."""
    settings = info.settings
    name = f"{info.plan.index(scheduled.point) + 1:03}-{scheduled.point.benchmark}"
    keep = None
    if scheduled.round == 1:
        keep = KeptFolders(
            run=path.resolve(),
            trace=f"traces/{name}" if settings.trace else None,
            host=f"host/{name}" if settings.host_profile else None,
        )
    descriptor = page.descriptor if page and scheduled.point.backend else None
    return LocalWorkerJob(**dict(job), keep=keep, code=code, page=descriptor)
