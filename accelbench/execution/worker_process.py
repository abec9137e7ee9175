"""Worker process from the side of its parent: start, messages, output tail and end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from time import monotonic

from pydantic import ValidationError

from accelbench.execution.affinity import limited_to_cores, limited_to_one_thread_per_core
from accelbench.execution.output_log import OutputLog
from accelbench.execution.plan import discover
from accelbench.execution.process_group import ProcessGroup
from accelbench.execution.template_process import StartedProcess, Template
from accelbench.execution.worker import LocalWorkerJob
from accelbench.profiling.child import child_command, child_environment
from accelbench.profiling.devices import device_kind
from accelbench.profiling.host.pyspy import SamplingError, find_pyspy
from accelbench.profiling.ranks.channel import Channel, Message
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.script import SCRIPT
from accelbench.profiling.records.stored import first_fault

TAIL_LINES = 30
TAIL_BYTES = 16_384
STACK_DUMP_SECONDS = 20
EXIT_SECONDS = 10.0
"""Seconds for a worker to exit after closing its channel; then it is killed."""
MOST_QUOTED = 60


class WorkerProcess:
    """Worker process with its channel; ending it kills its whole process group."""

    def __init__(
        self, job: LocalWorkerJob, log: Path, cores: int | None = None, template: Template | None = None
    ) -> None:
        """Start a worker limited to `cores` host cores (None: no limit), or fork it from the template.

        Kernels run with one thread per core.
        """
        began = monotonic()
        self._point, self._rank = job.point, job.world.rank
        self._log = OutputLog(log)
        self._last_lines: list[str] | None = None
        own_end, its_end = socket.socketpair()
        try:
            with its_end:
                if template:
                    self._process = _forked(template, job, self._log.output, its_end.fileno())
                else:
                    # A framework divides its threads between input pipeline and arithmetic itself.
                    kernel = cores is None and not discover()[job.point.benchmark].backends
                    with limited_to_one_thread_per_core() if kernel else limited_to_cores(cores):
                        self._process = _fresh(job, self._log.output, its_end.fileno())
        except BaseException:
            self._log.close()
            raise
        finally:
            self._log.started()
        self._channel = Channel(own_end)
        self._news = DefaultSelector()
        self._news.register(self._channel, EVENT_READ)
        # A child of a dead worker may hold the channel open, so the process is watched, too.
        if (descriptor := self._process.fileno()) is not None:
            self._news.register(descriptor, EVENT_READ)
        # If the worker is dead already, the first `read` returns `ended`.
        self._channel.send(job=job.model_dump(mode="json"), began=began, runner=os.getpid())

    def fileno(self) -> int:
        """Return a descriptor that is readable when the worker has sent a message or has ended."""
        return self._news.fileno()

    def read(self) -> list[Message]:
        """Return the available messages of the worker; the last message of a worker is `ended`.

        The values of `record` and `measured` are validated `Record` objects. An invalid message ends the worker with
        the reason; messages read together with it are dropped.
        """
        dead = self._process.has_ended()
        if dead:
            self._process.end()  # its children cannot add messages
        readable = any(key.fileobj is self._channel for key, _ in self._news.select(0))
        messages = self._channel.read() if readable else []
        try:
            if self._channel.fault:
                raise InvalidMessage(self._channel.fault)
            messages = validated(messages, self._point, self._rank)
        except InvalidMessage as fault:
            return [self._end(str(fault))]
        return [*messages, self._end()] if dead or not self._channel.open else messages

    def overdue(self) -> list[Message]:
        """Return an empty list: the end of a local worker is always observed."""
        return []

    def _end(self, fault: str | None = None) -> Message:
        """End the worker, and return its last message with the exit status or the given fault."""
        by_itself = fault is None and self._process.has_ended(EXIT_SECONDS)
        status = self._process.end()
        if by_itself:
            return {"ended": describe_exit(status), "signal": -status if status < 0 else None, "tail": self.tail()}
        reason = fault or f"the worker closed its channel without exiting, and was killed after {EXIT_SECONDS:g} s"
        return {"ended": reason, "signal": None, "tail": self.tail()}

    def tail(self) -> list[str]:
        """Return the last lines of the worker's output, also after `close`."""
        if self._last_lines is not None:
            return self._last_lines
        return self._log.last_bytes(TAIL_BYTES).decode("utf-8", errors="replace").splitlines()[-TAIL_LINES:]

    def tail_and_stack(self) -> list[str]:
        """Return the last lines of the worker's output and its current stack."""
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
                env=child_environment(),
            )
        except SamplingError as error:
            return [f"no stack: {error}"]
        except subprocess.TimeoutExpired:
            return [f"no stack: py-spy did not finish within {STACK_DUMP_SECONDS} s"]
        return (dump.stdout or dump.stderr).splitlines()[-TAIL_LINES:]

    def close(self) -> None:
        """Kill the worker's process group; repeated calls have no effect."""
        if self._last_lines is not None:
            return
        self._process.end()
        self._last_lines = self.tail()
        self._news.close()
        self._channel.close()
        self._log.close()


class InvalidMessage(ValueError):
    """Protocol error of a worker; the text is the reason."""


def validated(messages: Sequence[Message], point: Point, rank: int = 0) -> list[Message]:
    """Return the messages with their records validated; raise InvalidMessage for any other message."""
    found: list[Message] = []
    for message in messages:
        match message:
            case {"heartbeat": {"stage": str(), "steps": int()}, **rest} if not rest:
                found.append(message)
            case {"record": data, **rest} | {"measured": data, **rest} if not rest:
                found.append(dict.fromkeys(message, validated_record(data, point, rank)))
            case _:
                quoted = f"{str(message)[:MOST_QUOTED]!r}"
                raise InvalidMessage(f"the worker sent neither a record nor a heartbeat: {quoted}")
    names = [name for message in found for name in message if name != "heartbeat"]
    if len(names) > len(set(names)):
        raise InvalidMessage("the worker sent more than one record")
    return found


def validated_record(data: object, point: Point, rank: int = 0) -> Record:
    """Return the validated record of the point; raise InvalidMessage if it is invalid.

    Only rank 0 verifies the result, and no rank verifies the result of a user's script.
    """
    try:
        record = Record.model_validate(data)
    except ValidationError as error:
        raise InvalidMessage(f"the worker's record is invalid: {first_fault(error)}") from None
    if record.point != point:
        raise InvalidMessage(f"the worker's record is for another point: {record.point}")
    verified = point.benchmark.startswith(SCRIPT) or (record.verification is not None and record.verification.passed)
    if record.status == "measured" and rank == 0 and not verified:
        raise InvalidMessage("the worker's record has a result that was not verified")
    return record


def _fresh(job: LocalWorkerJob, output: int, channel: int) -> StartedProcess:
    """Start a worker in a new interpreter."""
    return ProcessGroup(
        subprocess.Popen(
            child_command("accelbench.execution.worker", str(channel)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[channel, *([] if job.page is None else [job.page])],
            start_new_session=True,  # Ctrl-C reaches only the runner, and the group can be killed
            env=child_environment(PYTHONUNBUFFERED="1", **framework_settings(job)),
        )
    )


def _forked(template: Template, job: LocalWorkerJob, output: int, channel: int) -> StartedProcess:
    """Fork a worker from the template, with the implementation of its point imported."""
    module = discover()[job.point.benchmark].implementation(job.point.device, job.point.params)
    return template.start([module] if module else [], output, channel)


def framework_settings(job: LocalWorkerJob) -> dict[str, str]:
    """Return environment variables for the worker: Keras backend, GPU of the rank, and Numba's code cache."""
    settings: dict[str, str] = {}
    if job.code:
        settings |= {"NUMBA_CACHE_DIR": str(job.code), "ACCELBENCH_KEEPS_CODE": "1"}
    if backend := job.point.backend:
        settings["KERAS_BACKEND"] = backend
    if job.world.size > 1:
        settings |= device_kind(job.point.device).settings_of_rank(job.world.local_rank, job.world.local_size)
    return settings


def describe_exit(status: int) -> str:
    """Return a worker's exit status as text."""
    if status >= 0:
        return f"the worker ended without a result, exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:  # real-time signals have no name
        name = f"signal {-status}"
    hint = " (the kernel does this when memory runs out)" if name == "SIGKILL" else ""
    return f"the worker was killed by {name}{hint}"
