"""The runner: one worker process per benchmark, a time limit per point, every outcome a record on disk."""

from __future__ import annotations

import itertools
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from types import FrameType
from typing import Any, BinaryIO

from accelbench.cores import host_cores, kept_to
from accelbench.plan import PlannedPoint, discover
from accelbench.progress import Progress
from accelbench.store import RunInfo, RunStore
from accelbench.worker import Job
from profiling.host.pyspy import SamplingError, find_pyspy
from profiling.profile import Keep
from profiling.record import Record

TAIL_LINES = 30
TAIL_BYTES = 16_384
STACK_DUMP_SECONDS = 20
OWN_SIGNAL_SECONDS = 2  # schedulers signal the processes of a job one after the other, in any order


def run_plan(store: RunStore, progress: Progress, retry_failed: bool = False) -> RunInfo:
    """Measure every planned point that has no record yet (or only a failed one).

    Ctrl-C or SIGTERM leaves a valid, resumable run: KeyboardInterrupt is raised after it was marked as interrupted.
    """
    info = store.info()
    done = {str(record.point) for record in store.records() if not (retry_failed and record.status == "failed")}
    pending = [point for point in info.plan if str(point.point(info.settings.seed)) not in done]
    progress.start(total=len(info.plan), done=len(info.plan) - len(pending))
    info = _mark(store, info, status="running")
    begin, worker_s = monotonic(), 0.0
    status = "interrupted"
    try:
        with _sigterm_as_ctrl_c():
            for _, group in itertools.groupby(pending, key=lambda p: (p.benchmark, p.device, p.backend, host_cores(p))):
                for record in _measure_group(store, info, list(group), progress):
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


def _mark(store: RunStore, info: RunInfo, **update: Any) -> RunInfo:
    info = info.model_copy(update=update)
    store.write_info(info)
    return info


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Schedulers end a job with SIGTERM: it must leave the run as valid as Ctrl-C does."""

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
    store: RunStore, info: RunInfo, points: Sequence[PlannedPoint], progress: Progress
) -> Iterator[Record]:
    """The records of one benchmark's points; a worker that dies is replaced for the points after the fatal one."""
    log = store.path / "logs" / f"{points[0].benchmark}.log"
    log.parent.mkdir(exist_ok=True)
    limit = info.settings.time_limit_s or discover()[points[0].benchmark].time_limit_s
    while points:
        # NVBench runs once per process; and a CUDA error that sticks to its context then costs one point only.
        batch = points[:1] if points[0].device == "gpu" else points
        with _Worker(store.path, info, batch, log) as worker:
            for done, point in enumerate(batch):
                progress.started(point)
                yield worker.next_record(done, limit)
                if not worker.alive:
                    break
        points = points[done + 1 :]


class _Worker:
    """A worker process and the pipe on which it reports."""

    def __init__(self, run: Path, info: RunInfo, points: Sequence[PlannedPoint], log: Path) -> None:
        self._run, self._info, self._points, self._log = run, info, points, log
        self.alive = True

    def __enter__(self) -> _Worker:
        self._output: BinaryIO = self._log.open("ab")
        self._output_begin = self._output.tell()
        read_end, write_end = os.pipe()
        with kept_to(host_cores(self._points[0])):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "accelbench.worker", str(write_end)],
                stdin=subprocess.PIPE,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                pass_fds=[write_end],
                start_new_session=True,  # Ctrl-C reaches the runner alone, and the whole group can be killed
                env=os.environ | self._environment(),
            )
        os.close(write_end)
        self._events = open(read_end, "rb", buffering=0)
        self._buffer = b""
        settings = self._info.settings
        names = [f"{self._info.plan.index(point) + 1:03}-{point.benchmark}" for point in self._points]
        job = Job(
            points=[point.point(settings.seed) for point in self._points],
            environment=self._info.environment,
            max_seconds=settings.max_seconds,
            keep=[
                Keep(
                    run=self._run.resolve(),
                    trace=f"traces/{name}" if settings.trace else None,
                    host=f"host/{name}" if settings.host_profile else None,
                )
                for name in names
            ],
        )
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(job.model_dump_json().encode())
            self._process.stdin.close()
        except BrokenPipeError:
            self.alive = False  # it died at once: the first point's record will say so
        return self

    def __exit__(self, *exc: object) -> None:
        self._kill_if_running()
        self._events.close()
        self._output.close()

    def _environment(self) -> dict[str, str]:
        """Settings a framework reads only when it is imported."""
        backend = self._points[0].backend
        return {"PYTHONUNBUFFERED": "1"} | ({"KERAS_BACKEND": backend} if backend else {})

    def next_record(self, index: int, time_limit: float) -> Record:
        """The record of that point, made here if the worker dies or outlasts the limit."""
        started, deadline = datetime.now(UTC), monotonic() + time_limit
        for line in self._lines(deadline):
            event = json.loads(line)
            if "point" not in event:
                return Record.model_validate(event)
        self.alive = False
        if monotonic() >= deadline:
            stack = self._stack()
            self._kill_if_running()
            return self._failure(index, started, f"hung: no result within {time_limit:g} s", stack)
        status = self._process.wait()
        if status in (-signal.SIGTERM, -signal.SIGINT):
            sleep(OWN_SIGNAL_SECONDS)  # ends the run here, not the point, if the signal was meant for the whole job
        return self._failure(index, started, _describe_exit(status), [])

    def _lines(self, deadline: float) -> Iterator[bytes]:
        """Lines from the worker until it closes the pipe or the deadline passes."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._events, selectors.EVENT_READ)
            while True:
                while b"\n" in self._buffer:
                    line, _, self._buffer = self._buffer.partition(b"\n")
                    yield line
                if not selector.select(max(0.0, deadline - monotonic())):
                    return
                chunk = self._events.read(1 << 20)
                if not chunk:
                    return
                self._buffer += chunk

    def _failure(self, index: int, started: datetime, reason: str, stack: list[str]) -> Record:
        point = self._points[index]
        benchmark = discover()[point.benchmark]
        return Record(
            **point.model_dump(),
            seed=self._info.settings.seed,
            figure=benchmark.figure,
            ceiling=benchmark.ceiling,
            status="failed",
            reason=reason,
            output_tail=self._tail() + stack,
            started=started,
            elapsed_s=(datetime.now(UTC) - started).total_seconds(),
        )

    def _tail(self) -> list[str]:
        """The last lines that this worker printed."""
        with self._log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._output_begin, end - TAIL_BYTES))
            return log.read().decode("utf-8", errors="replace").splitlines()[-TAIL_LINES:]

    def _stack(self) -> list[str]:
        """Where the hung worker stands, by py-spy."""
        try:
            dump = subprocess.run(
                [str(find_pyspy()), "dump", "--pid", str(self._process.pid)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=STACK_DUMP_SECONDS,
            )
        except SamplingError as error:
            return [f"no stack: {error}"]
        except subprocess.TimeoutExpired:
            return [f"no stack: py-spy did not answer within {STACK_DUMP_SECONDS} s"]
        return (dump.stdout or dump.stderr).splitlines()[-TAIL_LINES:]

    def _kill_if_running(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _describe_exit(status: int) -> str:
    if status >= 0:
        return f"the worker ended without a result, exit status {status}"
    name = signal.Signals(-status).name
    hint = " (the kernel does this when memory runs out)" if name == "SIGKILL" else ""
    return f"the worker was killed by {name}{hint}"
