"""The runner: a worker process per benchmark and rank, a time limit per point, every outcome a record on disk.

On a GPU each point has a worker of its own, forked by a process that has imported what they need
(`accelbench.run.template`), unless a framework trains in it or several ranks measure together.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from types import FrameType
from typing import Any

from accelbench.run.plan import discover, layout_of
from accelbench.run.progress import Progress
from accelbench.run.ranks import Ranks, RemoteWorker
from accelbench.run.store import RunInfo, RunStore
from accelbench.run.team import Member, Team, Trouble, failed
from accelbench.run.template_process import FORKS, Template
from accelbench.run.worker import Job
from accelbench.run.worker_process import WorkerProcess
from profiling.benchmark import Benchmark
from profiling.machine.devices import device_kind
from profiling.profiled_steps import Keep
from profiling.ranks.world import World
from profiling.records.point import Point
from profiling.records.record import Record

ADVICE = "'accelbench launch --procs {} run …', srun, mpirun or torchrun start them"
OWN_SIGNAL_SECONDS = 2  # schedulers signal the processes of a job one after the other, in any order


def run_plan(store: RunStore, progress: Progress, ranks: Ranks | None = None, retry_failed: bool = False) -> RunInfo:
    """Measure every planned point that has no record yet (or only a failed one).

    Ctrl-C or SIGTERM leaves a valid, resumable run: KeyboardInterrupt is raised after it was marked as interrupted.
    """
    info = store.info()
    pending = store.pending(info.plan, failed=retry_failed)
    progress.start(total=len(info.plan), done=len(info.plan) - len(pending))
    info = _mark(store, info, status="running")
    begin, worker_s = monotonic(), 0.0
    status = "interrupted"
    try:
        with _sigterm_as_ctrl_c(), Template() as template:
            for _, group in itertools.groupby(pending, key=_alike):
                for record in _measure_group(store, info, list(group), ranks, progress, template):
                    store.append(record)
                    worker_s += record.elapsed_s + record.phases.import_s
                    progress.finished(record)
        status = "finished"
    finally:
        progress.stop()
        info = _mark(
            store,
            info,
            status=status,
            wall_s=info.wall_s + monotonic() - begin,
            worker_s=info.worker_s + worker_s,
        )
    return info


def _alike(point: Point) -> tuple[object, ...]:
    """Return what points have in common whose workers may be the same."""
    # A framework takes its devices once, so its process is laid out once.
    layout = layout_of(point)
    once = layout.processes, layout.devices, layout.strategy
    return point.benchmark, point.device, point.backend, point.host_cores, once


def _mark(store: RunStore, info: RunInfo, **update: Any) -> RunInfo:
    info = info.model_copy(update=update)
    store.write_info(info)
    return info


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGTERM, by which schedulers end a job, so that the run stays valid as at Ctrl-C."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        # They often send it twice, to the job's script and to each process; the run is being closed already.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is interrupt:
            signal.signal(signal.SIGTERM, previous)


def _measure_group(
    store: RunStore,
    info: RunInfo,
    points: Sequence[Point],
    ranks: Ranks | None,
    progress: Progress,
    template: Template,
) -> Iterator[Record]:
    """Yield the records of one benchmark's points; a worker that dies is replaced for the points after that."""
    log = store.path / "logs" / f"{points[0].benchmark}.log"
    log.parent.mkdir(exist_ok=True)
    benchmark = discover()[points[0].benchmark]
    limit = info.settings.time_limit_s or benchmark.time_limit_s
    kind = device_kind(points[0].device)
    wanted, there = layout_of(points[0]).processes, ranks.size if ranks else 1
    missing = None
    if wanted > there:
        missing = f"it takes {wanted} processes, and this run has {there}: {ADVICE.format(wanted)}"
    elif ranks and wanted > 1 and kind.card_per_rank:
        missing = ranks.too_few_gpus(wanted)
    if missing:
        few = Trouble(None, missing, [], status="skipped")
        yield from (failed(point, few, datetime.now(UTC), **benchmark.declared(point)) for point in points)
        return
    forked = _can_be_forked(benchmark, points[0])
    if not forked:
        template.close()  # it would only take memory from what is measured
    while points:
        # The frameworks' engines for several processes run once per process.
        alone = kind.worker_per_point or (wanted > 1 and benchmark.backends)
        batch = points[:1] if alone else points
        with _team(store.path, info, batch, ranks, log, template if forked else None) as team:
            for point in batch:
                points = points[1:]
                progress.started(point)
                started = datetime.now(UTC)
                record, trouble = team.measure(limit)
                if trouble and trouble.signal in (signal.SIGTERM, signal.SIGINT):
                    sleep(OWN_SIGNAL_SECONDS)  # ends the run here, if the signal was meant for the whole job
                if trouble:
                    record = failed(point, trouble, started, **benchmark.declared(point))
                assert record is not None
                yield record
                if not team.alive:
                    break


def _can_be_forked(benchmark: Benchmark, point: Point) -> bool:
    """Return whether the point's worker may be a copy of a process that has imported its libraries.

    A framework is never forked: it starts threads and takes its devices when it is imported.
    """
    alone = layout_of(point).processes == 1 and point.host_cores is None
    return FORKS and alone and device_kind(point.device).forkable and not benchmark.backends


def _team(
    path: Path,
    info: RunInfo,
    points: Sequence[Point],
    ranks: Ranks | None,
    log: Path,
    template: Template | None,
) -> Team:
    """Start workers for these points, in as many ranks as they take."""
    size = layout_of(points[0]).processes
    nodes = ranks.nodes[:size] if ranks else [0]
    addresses = ranks.addresses(size) if ranks and size > 1 else World().addresses
    members: list[Member] = []
    for rank in range(size):
        world = World(
            rank=rank,
            size=size,
            local_rank=nodes[:rank].count(nodes[rank]),
            local_size=nodes.count(nodes[rank]),
            addresses=addresses,
        )
        if rank == 0:
            members.append(WorkerProcess(_job(path, info, points, world), log, points[0].host_cores, template))
        else:
            assert ranks is not None
            members.append(RemoteWorker(ranks.channels[rank - 1], _job(None, info, points, world)))
    return Team(members, nodes)


def _job(path: Path | None, info: RunInfo, points: Sequence[Point], world: World) -> Job:
    """Return the orders of a worker; profiles are kept in the run's directory, by rank 0."""
    settings = info.settings
    names = [f"{info.plan.index(point) + 1:03}-{point.benchmark}" for point in points]
    return Job(
        points=list(points),
        environment=info.environment,
        max_seconds=settings.max_seconds,
        keep=[
            Keep(
                run=path.resolve(),
                trace=f"traces/{name}" if settings.trace else None,
                host=f"host/{name}" if settings.host_profile else None,
            )
            if path
            else None
            for name in names
        ],
        world=world,
    )
