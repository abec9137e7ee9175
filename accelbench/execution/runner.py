"""The runner: a fresh worker process per turn and rank, a time limit for each, every outcome a record on disk.

A turn is one round of one point (`accelbench.execution.schedule`). On a GPU its worker is forked by a process that
has imported what it needs (`accelbench.execution.template`), unless a framework trains in it or
several ranks measure together.
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

from pydantic_core import PydanticSerializationError

from accelbench.errors import RunBroken, UserError
from accelbench.execution.affinity import cores_missing
from accelbench.execution.plan import discover, layout_of
from accelbench.execution.progress import Progress
from accelbench.execution.ranks import Meeting, RankLost, Ranks, RemoteWorker
from accelbench.execution.schedule import Turn
from accelbench.execution.store import RunInfo, RunStore, Settings
from accelbench.execution.team import Member, Team, Trouble, failed
from accelbench.execution.template_process import FORKS, Template
from accelbench.execution.worker import Job, Order
from accelbench.execution.worker_process import WorkerProcess
from accelbench.profiling.benchmark import Benchmark
from accelbench.profiling.devices import device_kind
from accelbench.profiling.measure.profiled_steps import KeptFolders
from accelbench.profiling.ranks.world import World
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record, Status
from accelbench.profiling.timing.host import MIN_SECONDS
from accelbench.profiling.timing.position import Page

ADVICE = "'accelbench launch --procs {} run …', srun, mpirun or torchrun start them"
OWN_SIGNAL_SECONDS = 2  # schedulers signal the processes of a job one after the other, in any order


def run_plan(
    store: RunStore, progress: Progress, ranks: Ranks | None = None, again: Collection[Status] = ()
) -> RunInfo:
    """Measure every round of every planned point that has no record yet, or ended in a way that is to be tried again.

    A point that fails or is skipped in one round is not measured in the rounds after it. Ctrl-C or SIGTERM leaves a
    valid, resumable run: KeyboardInterrupt is raised after it was marked as interrupted.
    """
    info, before = store.info(), store.lines()
    turns = store.turns_left(before, again)
    if unknown := sorted({turn.point.benchmark for turn in turns} - discover().keys()):
        raise UserError(
            f"{store.path} has points of {', '.join(unknown)}, and no benchmark is called that here: set "
            "ACCELBENCH_PATH as when the run was begun"
        )
    progress.start(info.schedule(), turns, before)
    info = _mark(store, info, status="running")
    begin, worker_s, order = monotonic(), 0.0, len(before)
    over: set[str] = set()

    def end(status: str) -> RunInfo:
        progress.stop()
        wall_s = info.wall_s + monotonic() - begin
        return _mark(store, info, status=status, wall_s=wall_s, worker_s=info.worker_s + worker_s)

    try:
        with _ended_as_by_ctrl_c(), Template() as template, TemporaryDirectory(prefix="accelbench-") as scratch:
            for turn in turns:
                if str(turn.point) in over:
                    continue
                progress.started(turn)
                order += 1
                with _broken_by_the_system(store):
                    record, text = measure_turn(
                        store.path, info, turn, ranks, template, Path(scratch), progress.page, order
                    )
                store.append(record, text)
                if record.status != "measured":
                    over.add(str(turn.point))
                worker_s += record.elapsed_s + record.phases.import_s
                progress.finished(record)
    except RunBroken:
        with suppress(RunBroken):  # what broke the run may keep its end from being written, too
            end("interrupted")
        raise
    except BaseException:
        end("interrupted")
        raise
    return end("finished")


@contextmanager
def _broken_by_the_system(store: RunStore) -> Iterator[None]:
    """Raise RunBroken where the system refuses the runner a file or a process: no other point would fare better."""
    try:
        yield
    except OSError as error:
        raise RunBroken(f"the next point cannot be measured: {error}; {store.kept()}") from error


def _mark(store: RunStore, info: RunInfo, **update: Any) -> RunInfo:
    info = info.model_copy(update=update)
    store.write_info(info)
    return info


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGTERM, by which schedulers end a job, and at SIGHUP, by which a lost terminal does.

    So the run stays valid. A run that was told to outlive its terminal (nohup) does.
    """

    def interrupt(signum: int, frame: FrameType | None) -> None:
        # Schedulers often send it twice, to the job's script and to each process; the run is being closed already.
        for each in previous:
            signal.signal(each, signal.SIG_IGN)
        if signum == signal.SIGHUP:  # nobody reads any more, and a write to the terminal would be an error
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for standard in (1, 2):
                os.dup2(nowhere, standard)
        raise KeyboardInterrupt

    asked = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    previous = {each: signal.signal(each, interrupt) for each in asked}
    try:
        yield
    finally:
        for each, handler in previous.items():
            if signal.getsignal(each) is interrupt:
                signal.signal(each, handler)


def measure_turn(
    path: Path,
    info: RunInfo,
    turn: Turn,
    ranks: Ranks | None,
    template: Template,
    scratch: Path,
    page: Page | None = None,
    order: int = 1,
) -> tuple[Record, str]:
    """Return the record of one turn, measured by a process that measures nothing else, and the record as JSON.

    `path` is the run's folder, which gets the worker's log and what is kept of profiles; `scratch` holds the machine
    code that the rounds of a point share; `page` is where a training shows how far it is; `order` is the place of the
    measurement in the run's sequence.
    """

    def storable(record: Record) -> tuple[Record, str]:
        record = record.model_copy(update={"round": turn.round, "order": order})
        return record, record.model_dump_json()

    point = turn.point
    benchmark, started = discover()[point.benchmark], datetime.now(UTC)
    trouble = too_few(point, ranks)
    if trouble:
        return storable(_failed(benchmark, point, trouble, started))
    forked = _can_be_forked(benchmark, point)
    if not forked:
        template.close()  # it would only take memory from what is measured
    log = path / "logs" / f"{point.benchmark}.log"
    log.parent.mkdir(exist_ok=True)
    code = scratch / str(info.plan.index(point)) if info.settings.rounds_of(point) > 1 else None
    try:
        team = _team(path, info, turn, ranks, log, template if forked else None, code, page)
    except RankLost as lost:
        trouble = Trouble(None, str(lost), [], status="skipped")
        return storable(failed(point, trouble, started, **benchmark.declared(point)))
    with team:
        record, trouble = team.measure(info.settings.time_limit_s or benchmark.time_limit_s)
    if trouble and trouble.signal in (signal.SIGTERM, signal.SIGINT):
        sleep(OWN_SIGNAL_SECONDS)  # ends the run here, if the signal was meant for the whole job
    if record is not None:
        try:
            return storable(record)
        except PydanticSerializationError:
            reason = "the worker's record cannot be stored: a text in it is no Unicode"
            trouble = Trouble(None, reason, team.tail())
    assert trouble is not None
    return storable(_failed(benchmark, point, trouble, started))


def _failed(benchmark: Benchmark, point: Point, trouble: Trouble, started: datetime) -> Record:
    """Return the record of a point that was not measured, with its declared facts unless these are what is wrong."""
    try:
        return failed(point, trouble, started, **benchmark.declared(point))
    except Exception:  # noqa: BLE001 - a benchmark declares facts by functions of its own
        return failed(point, trouble, started, figure=benchmark.figure)


def too_few(point: Point, ranks: Ranks | None) -> Trouble | None:
    """Return why this run has too few processes, cards or host cores for the point; None where it has enough."""
    wanted, there = layout_of(point).processes, ranks.size if ranks else 1
    missing = cores_missing(point.host_cores)
    if wanted > there:
        missing = f"it takes {wanted} processes, and this run has {there}: {ADVICE.format(wanted)}"
    elif wanted > 1 and point.host_cores is not None:
        missing = f"it is to keep one process to {point.host_cores} host cores, and has {wanted} processes"
    elif ranks and wanted > 1 and device_kind(point.device).card_per_rank:
        missing = ranks.too_few_gpus(wanted)
    return Trouble(None, missing, [], status="skipped") if missing else None


def _can_be_forked(benchmark: Benchmark, point: Point) -> bool:
    """Return whether the point's worker may be a copy of a process that has imported its libraries.

    A framework is never forked: it starts threads and takes its devices when it is imported.
    """
    alone = layout_of(point).processes == 1 and point.host_cores is None
    return FORKS and alone and device_kind(point.device).forkable and not benchmark.backends


def _team(
    path: Path,
    info: RunInfo,
    turn: Turn,
    ranks: Ranks | None,
    log: Path,
    template: Template | None,
    code: Path | None,
    page: Page | None,
) -> Team:
    """Start workers for this turn, in as many ranks as its point takes; RankLost where one of them is gone."""
    size = layout_of(turn.point).processes
    nodes = ranks.nodes[:size] if ranks else [0]
    meeting = ranks.meeting(size) if ranks and size > 1 else Meeting(World().addresses, "", "")
    members: list[Member] = []
    for rank in range(size):
        world = World(
            rank=rank,
            size=size,
            local_rank=nodes[:rank].count(nodes[rank]),
            local_size=nodes.count(nodes[rank]),
            addresses=meeting.addresses,
            secret=meeting.secret,
            trusted=info.settings.trusted_network,
        )
        order = _order(info, turn, world)
        if rank == 0:
            job = _job(path, info, turn, order, code, page)
            members.append(WorkerProcess(job, log, turn.point.host_cores, template))
        else:
            assert ranks is not None
            members.append(RemoteWorker(ranks.peers[rank - 1], order, meeting.nonce))
    return Team(members, nodes)


def sampling_seconds(settings: Settings, point: Point) -> float:
    """Return the sampling time of one of the point's rounds: its share, but at least what the stopping rule needs."""
    share = settings.max_seconds / settings.rounds_of(point)
    return max(share, min(settings.max_seconds, MIN_SECONDS))


def _order(info: RunInfo, turn: Turn, world: World) -> Order:
    """Return the order of the worker that has this place."""
    return Order(
        point=turn.point,
        environment=info.environment,
        max_seconds=sampling_seconds(info.settings, turn.point),
        brief=turn.round > 1,
        world=world,
    )


def _job(path: Path, info: RunInfo, turn: Turn, order: Order, code: Path | None, page: Page | None) -> Job:
    """Return the job of rank 0's worker; the first round's profile is kept in the run's directory."""
    settings = info.settings
    name = f"{info.plan.index(turn.point) + 1:03}-{turn.point.benchmark}"
    keep = None
    if turn.round == 1:
        keep = KeptFolders(
            run=path.resolve(),
            trace=f"traces/{name}" if settings.trace else None,
            host=f"host/{name}" if settings.host_profile else None,
        )
    descriptor = page.descriptor if page and turn.point.backend else None
    return Job(**dict(order), keep=keep, code=code, page=descriptor)
