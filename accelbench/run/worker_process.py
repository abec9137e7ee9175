"""A worker as its parent sees it: started with a job, read by its messages, ended with its last words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from accelbench.run.affinity import kept_to
from accelbench.run.plan import discover
from accelbench.run.template_process import Started, Template
from accelbench.run.worker import Job
from profiling.host.pyspy import SamplingError, find_pyspy

TAIL_LINES = 30
TAIL_BYTES = 16_384
STACK_DUMP_SECONDS = 20
EXIT_SECONDS = 10.0

Message = dict[str, Any]


class WorkerProcess:
    """A worker process and the pipe on which it reports; everything it started is killed with it."""

    def __init__(self, job: Job, log: Path, cores: int | None = None, template: Template | None = None) -> None:
        """Start it, on so many host cores (None: on all), or have it forked by the template."""
        self._log = log
        self._output: BinaryIO = log.open("ab")
        self._output_begin = self._output.tell()
        self._buffer = b""
        read_end, write_end = os.pipe()
        job_end, job_write_end = os.pipe()
        if template:
            self._process = _forked(template, job, job_end, self._output, write_end)
        else:
            with kept_to(cores):
                self._process = _fresh(job, job_end, self._output, write_end)
        os.close(write_end)
        os.close(job_end)
        self._events = os.fdopen(read_end, "rb", buffering=0)
        with suppress(BrokenPipeError), os.fdopen(job_write_end, "wb") as pipe:  # dead at once: the first reading tells
            pipe.write(job.model_dump_json().encode())

    def fileno(self) -> int:
        """Of the pipe, to wait on."""
        return self._events.fileno()

    def read(self) -> list[Message]:
        """What came on the pipe, once there is something to read; the last message of a worker is `ended`."""
        chunk = self._events.read(1 << 20)
        if not chunk:
            return [{"ended": describe_exit(self._exit_status()), "signal": self._signal(), "tail": self.tail()}]
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        return [json.loads(line) for line in lines]

    def _exit_status(self) -> int:
        """Of a worker that has closed its pipe; one that then does not end, held up by a library, is killed."""
        try:
            return self._process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def _signal(self) -> int | None:
        status = self._process.wait()
        return -status if status < 0 else None

    def tail(self) -> list[str]:
        """The last lines that this worker printed."""
        with self._log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._output_begin, end - TAIL_BYTES))
            return log.read().decode("utf-8", errors="replace").splitlines()[-TAIL_LINES:]

    def last_words(self) -> list[str]:
        """What it printed last, and where it stands."""
        return self.tail() + self._stack()

    def _stack(self) -> list[str]:
        """By py-spy."""
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
        self._events.close()
        self._output.close()


def _fresh(job: Job, job_end: int, output: BinaryIO, events: int) -> Started:
    """A worker in an interpreter of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "accelbench.run.worker", str(events)],
        stdin=job_end,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=[events],
        start_new_session=True,  # Ctrl-C reaches the runner alone, and the whole group can be killed
        env=os.environ | {"PYTHONUNBUFFERED": "1"} | framework_settings(job),
    )


def _forked(template: Template, job: Job, job_end: int, output: BinaryIO, events: int) -> Started:
    """A worker of the template, which imports what implements the first of its points."""
    first = job.points[0]
    module = discover()[first.benchmark].implementation(first.device, first.params)
    return template.start([module] if module else [], job_end, output.fileno(), events)


def framework_settings(job: Job) -> dict[str, str]:
    """Settings that a framework reads only when it is imported: Keras's backend, and a rank's GPU of its host's."""
    settings: dict[str, str] = {}
    if backend := job.points[0].backend:
        settings["KERAS_BACKEND"] = backend
    if job.world.size > 1 and job.points[0].device == "gpu":
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        own = visible.split(",") if visible else list(map(str, range(job.world.local_size)))
        # A launcher that gave each rank its own GPU shows it that one only.
        settings["CUDA_VISIBLE_DEVICES"] = own[job.world.local_rank % len(own)]
    return settings


def describe_exit(status: int) -> str:
    """What a worker's exit status says, in words."""
    if status >= 0:
        return f"the worker ended without a result, exit status {status}"
    name = signal.Signals(-status).name
    hint = " (the kernel does this when memory runs out)" if name == "SIGKILL" else ""
    return f"the worker was killed by {name}{hint}"
