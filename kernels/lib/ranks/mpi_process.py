"""MPI process of a rank: initialises MPI once per run and executes the rank's MPI points.

A process can call MPI_Init and MPI_Finalize only once, and a launcher expects one MPI process per rank, but each point
has its own worker. So each rank has one additional process, which outlives the workers. It is idle until a worker
requests the preparation of a point; then the point's task is run, timed and verified in this process.

Worker and MPI process communicate over a Unix socket in a private directory. A request is a name with arguments, a
reply is a result or an exception; both are pickled.
"""

from __future__ import annotations

import base64
import os
import pickle
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from tempfile import TemporaryDirectory
from typing import Any, cast

from accelbench.kernels.lib.ranks.lockstep import leave
from accelbench.profiling.benchmark import Skip, Task, Together
from accelbench.profiling.child import child_environment, module_command
from accelbench.profiling.machine.packages import install_extra
from accelbench.profiling.ranks.channel import Channel, Message
from accelbench.profiling.ranks.world import World, join, world
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.work import Work

ADDRESS = "ACCELBENCH_MPI"
"""Environment variable with the address of this process."""
LAUNCHED = ("OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_FD", "PMIX_RANK")
"""Environment variables set by MPI launchers: Open MPI, the MPICH family, Slurm with an MPI plug-in, PRRTE."""
LAUNCHED_RANKS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
HANDSHAKE_SECONDS = 20.0
"""Seconds after which a process without reply is considered blocked in MPI."""
FINALIZE_SECONDS = 10
"""Time limit in seconds of MPI_Finalize, in which the ranks wait for each other."""


@contextmanager
def mpi_process() -> Iterator[None]:
    """Keep this rank's MPI process running during the block; do nothing if no MPI launcher started this rank."""
    if not any(name in os.environ for name in LAUNCHED) or find_spec("mpi4py") is None:
        yield
        return
    with TemporaryDirectory(prefix="accelbench-") as folder, socket.socket(socket.AF_UNIX) as listener:
        address = str(Path(folder, "mpi"))
        listener.bind(address)
        listener.listen()
        listener.set_inheritable(True)
        process = subprocess.Popen(
            module_command("accelbench.kernels.lib.ranks.mpi_process", str(listener.fileno())),
            stdin=subprocess.PIPE,  # end of file ends the process, even if this one crashes
            close_fds=False,  # MPICH's launcher passes the rank an open file descriptor
            env=child_environment(),
            start_new_session=True,
        )
        os.environ[ADDRESS] = address
        try:
            yield
        finally:
            del os.environ[ADDRESS]
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(FINALIZE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def in_mpi_process(module: str, point: Point) -> Task:
    """Return the task of the module's `prepare_in_mpi(point)`, executed in this rank's MPI process.

    Skip if mpi4py is missing, or if no MPI launcher started the ranks.
    """
    if find_spec("mpi4py") is None:
        raise Skip(f"mpi4py is not installed: {install_extra('mpi')}")
    if ADDRESS not in os.environ:
        command = f"mpirun -n {world().size} accelbench run {point.benchmark} --param impl=mpi"
        raise Skip(f"the ranks were not started by an MPI launcher; use '{command}'")
    end = socket.socket(socket.AF_UNIX)
    end.connect(os.environ[ADDRESS])
    ask = partial(_ask, Channel(end))
    ask("hello", seconds=HANDSHAKE_SECONDS)
    return Task(
        run=partial(ask, "run"),
        verify=partial(ask, "verify"),
        work=ask("prepare", module, point, world()),
        timer="host",
        metrics=partial(ask, "metrics"),
        sample=partial(ask, "sample"),
        together=Together(partial(ask, "follow"), partial(ask, "finish")),
    )


def _ask(channel: Channel, name: str, *arguments: Any, seconds: float | None = None) -> Any:
    channel.send(ask=name, arguments=_packed(arguments))
    reply = channel.receive(seconds)
    if reply is None and channel.open:
        raise RuntimeError("this rank's MPI process is still blocked in an operation that an earlier point aborted")
    if reply is None:
        raise RuntimeError("this rank's MPI process has ended; see the output of MPI for the reason")
    if "raised" in reply:
        raise _unpacked(reply["raised"])
    return _unpacked(reply["returned"])


def _packed(found: Any) -> str:
    return base64.b64encode(pickle.dumps(found)).decode()


def _unpacked(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))


def mpi(here: World) -> Any:
    """Return the module `mpi4py.MPI`, initialised with all ranks of the world; Skip if that is impossible.

    The first call initialises MPI in this process, which `mpi_process` started.
    """
    launched = next((os.environ[name] for name in LAUNCHED_RANKS if name in os.environ), str(here.size))
    if launched != str(here.size):
        # MPI_Init waits for all of them.
        raise Skip(f"MPI requires all {launched} processes that its launcher started, but this point has {here.size}")
    try:
        import mpi4py

        mpi4py.rc.threads = False
        found = import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise Skip(f"MPI cannot be loaded: {error}") from error
    rank, size = found.COMM_WORLD.rank, found.COMM_WORLD.size
    if (rank, size) != (here.rank, here.size):
        library = found.Get_library_version().splitlines()[0]
        raise Skip(
            f"{library} reports rank {rank} of {size}, the launcher rank {here.rank} of {here.size}: "
            "use the launcher of the MPI library with which mpi4py was built"
        )
    return found


class Server:
    """Server of workers' requests, with the task of the point that was prepared last."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._worker: Channel | None = None
        """Channel to the worker that requested the task."""

    def serve(self, worker: Channel) -> None:
        """Execute the worker's requests; discard its task when it has ended."""
        for message in worker.read():
            try:
                reply = {"returned": _packed(self._do(worker, message))}
            except Exception as error:  # noqa: BLE001 - the worker reports every error of a benchmark
                reply = {"raised": _packed(_portable(error))}
            worker.send(**reply)
        if not worker.open and worker is self._worker:
            self._task = None
            leave()  # other ranks' MPI processes may wait for this one, and must be free for the next point

    def _do(self, worker: Channel, message: Message) -> Any:
        name, arguments = message["ask"], _unpacked(message["arguments"])
        if name == "hello":
            return None
        if name == "prepare":
            self._worker = worker
            return self._prepare(*arguments)
        assert self._task is not None
        return getattr(self._task if hasattr(self._task, name) else self._task.together, name)(*arguments)

    def _prepare(self, module: str, point: Point, here: World) -> Work:
        """Prepare the task of a point and return its work."""
        self._task = None  # releases the memory of the previous task
        join(here)
        self._task = import_module(module).prepare_in_mpi(point)
        assert self._task is not None
        return self._task.work


def main(listener: socket.socket) -> None:
    """Serve workers until standard input ends."""
    server = Server()
    with DefaultSelector() as selector:
        selector.register(sys.stdin, EVENT_READ)
        selector.register(listener, EVENT_READ)
        running = True
        while running:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:
                    running = False
                elif key.fileobj is listener:
                    selector.register(Channel(listener.accept()[0]), EVENT_READ)
                else:
                    worker = cast(Channel, key.fileobj)
                    server.serve(worker)
                    if not worker.open:
                        selector.unregister(worker)
                        worker.close()
    signal.alarm(FINALIZE_SECONDS)  # MPI_Finalize waits for the other ranks, which may have ended


def _portable(error: Exception) -> Exception:
    """Return the error in a form that another process can raise, with its traceback as a note."""
    error.add_note(traceback.format_exc())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - pickle and constructors may raise any exception
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
