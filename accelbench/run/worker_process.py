"""A worker as its parent sees it: started with a job, read by its messages, ended with its last words."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from time import monotonic
from typing import BinaryIO

from accelbench.run.affinity import kept_to
from accelbench.run.child import child_command
from accelbench.run.plan import discover
from accelbench.run.template_process import Started, Template
from accelbench.run.worker import Job
from profiling.host.pyspy import SamplingError, find_pyspy
from profiling.machine.devices import device_kind
from profiling.ranks.channel import Channel, Message

TAIL_LINES = 30
TAIL_BYTES = 16_384
STACK_DUMP_SECONDS = 20
EXIT_SECONDS = 10.0


class WorkerProcess:
    """A worker process and the channel to it; everything it started is killed with it."""

    def __init__(self, job: Job, log: Path, cores: int | None = None, template: Template | None = None) -> None:
        """Start it, on so many host cores (None: on all), or have it forked by the template."""
        began = monotonic()
        self._log = log
        self._output: BinaryIO = log.open("ab")
        self._output_begin = self._output.tell()
        own_end, its_end = socket.socketpair()
        with its_end:
            if template:
                self._process = _forked(template, job, self._output, its_end.fileno())
            else:
                with kept_to(cores):
                    self._process = _fresh(job, self._output, its_end.fileno())
        self._channel = Channel(own_end)
        # If it is dead already, the first reading tells.
        self._channel.send(job=job.model_dump(mode="json"), began=began, runner=os.getpid())

    def fileno(self) -> int:
        """Return the descriptor of the channel, to wait on."""
        return self._channel.fileno()

    def read(self) -> list[Message]:
        """Return what the worker sent, once there is something to read; its last message is `ended`."""
        messages = self._channel.read()
        if not self._channel.open:
            status = self._exit_status()
            reason = self._channel.fault or describe_exit(status)
            signum = -status if status < 0 else None
            messages.append({"ended": reason, "signal": signum, "tail": self.tail()})
        return messages

    def overdue(self) -> list[Message]:
        """Return no message: a worker of this host that ends closes its channel."""
        return []

    def _exit_status(self) -> int:
        """Return the status of a worker whose channel has ended; one that a library then holds up is killed."""
        try:
            return self._process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def tail(self) -> list[str]:
        """Return the last lines that this worker printed."""
        with self._log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._output_begin, end - TAIL_BYTES))
            return log.read().decode("utf-8", errors="replace").splitlines()[-TAIL_LINES:]

    def last_words(self) -> list[str]:
        """Return what it printed last, and where it stands."""
        return self.tail() + self._stack()

    def _stack(self) -> list[str]:
        """Return the worker's current stack, from `py-spy dump`."""
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

    def kill(self) -> None:
        """End it and all that it started; nothing if it has ended."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        self.kill()
        self._channel.close()
        self._output.close()


def _fresh(job: Job, output: BinaryIO, channel: int) -> Started:
    """Start a worker in an interpreter of its own."""
    return subprocess.Popen(
        child_command("accelbench.run.worker", str(channel)),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=[channel],
        start_new_session=True,  # Ctrl-C reaches the runner alone, and the whole group can be killed
        env=os.environ | {"PYTHONUNBUFFERED": "1"} | framework_settings(job),
    )


def _forked(template: Template, job: Job, output: BinaryIO, channel: int) -> Started:
    """Start a worker of the template, which imports what implements its point."""
    module = discover()[job.point.benchmark].implementation(job.point.device, job.point.params)
    return template.start([module] if module else [], output.fileno(), channel)


def framework_settings(job: Job) -> dict[str, str]:
    """Return the settings read by what a worker imports: Keras's backend, a rank's card, and Numba's compiled code."""
    settings: dict[str, str] = {}
    if job.code:
        settings |= {"NUMBA_CACHE_DIR": str(job.code), "ACCELBENCH_KEEPS_CODE": "1"}
    if backend := job.point.backend:
        settings["KERAS_BACKEND"] = backend
    if job.world.size > 1:
        settings |= device_kind(job.point.device).settings_of_rank(job.world.local_rank, job.world.local_size)
    return settings


def describe_exit(status: int) -> str:
    """Return the meaning of a worker's exit status, in words."""
    if status >= 0:
        return f"the worker ended without a result, exit status {status}"
    name = signal.Signals(-status).name
    hint = " (the kernel does this when memory runs out)" if name == "SIGKILL" else ""
    return f"the worker was killed by {name}{hint}"
