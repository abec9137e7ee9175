"""A worker as its parent sees it: started with a job, read by its messages, ended with its last words."""

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

from accelbench.execution.affinity import kept_to, one_thread_a_core
from accelbench.execution.plan import discover
from accelbench.execution.process_group import ProcessGroup
from accelbench.execution.template_process import Started, Template
from accelbench.execution.worker import Job
from accelbench.profiling.child import child_command
from accelbench.profiling.devices import device_kind
from accelbench.profiling.files import open_for_appending
from accelbench.profiling.host.pyspy import SamplingError, find_pyspy
from accelbench.profiling.ranks.channel import Channel, Message
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.stored import first_fault

TAIL_LINES = 30
TAIL_BYTES = 16_384
STACK_DUMP_SECONDS = 20
EXIT_SECONDS = 10.0
"""The time in seconds that a worker gets to end, once it has closed its channel: a library may hold it up."""
MOST_QUOTED = 60


class WorkerProcess:
    """A worker process and the channel to it; everything it started is killed with it."""

    def __init__(self, job: Job, log: Path, cores: int | None = None, template: Template | None = None) -> None:
        """Start it, on so many host cores (None: on all), or have it forked by the template.

        A kernel has one thread a core.
        """
        began = monotonic()
        self._point, self._rank = job.point, job.world.rank
        self._output = open_for_appending(log)
        self._last_lines: list[str] | None = None
        self._output_begin = os.lseek(self._output, 0, os.SEEK_END)
        own_end, its_end = socket.socketpair()
        with its_end:
            if template:
                self._process = _forked(template, job, self._output, its_end.fileno())
            else:
                # A framework shares its threads out itself, among the preparing of batches and the arithmetic.
                kernel = cores is None and not discover()[job.point.benchmark].backends
                with one_thread_a_core() if kernel else kept_to(cores):
                    self._process = _fresh(job, self._output, its_end.fileno())
        self._channel = Channel(own_end)
        self._news = DefaultSelector()
        self._news.register(self._channel, EVENT_READ)
        # What the worker started may hold the channel open when it is dead, so that its end alone does not tell.
        if (descriptor := self._process.fileno()) is not None:
            self._news.register(descriptor, EVENT_READ)
        # If it is dead already, the first reading tells.
        self._channel.send(job=job.model_dump(mode="json"), began=began, runner=os.getpid())

    def fileno(self) -> int:
        """Return the descriptor to wait on: it is readable when the worker said something, and when it is dead."""
        return self._news.fileno()

    def read(self) -> list[Message]:
        """Return the worker's messages, once there is something to read; the last one is `ended`.

        The values of `record` and `measured` are validated `Record`s. An invalid message ends the worker, with the
        reason, and the messages read together with it are dropped.
        """
        dead = self._process.has_ended()
        if dead:
            self._process.end()  # nothing that it started adds to what it said
        said = any(key.fileobj is self._channel for key, _ in self._news.select(0))
        messages = self._channel.read() if said else []
        try:
            if self._channel.fault:
                raise InvalidMessage(self._channel.fault)
            messages = validated(messages, self._point, self._rank)
        except InvalidMessage as fault:
            return [self._end(str(fault))]
        return [*messages, self._end()] if dead or not self._channel.open else messages

    def overdue(self) -> list[Message]:
        """Return no message: the end of a worker of this host is always seen."""
        return []

    def _end(self, fault: str | None = None) -> Message:
        """Return the last message of a worker that is dead, or has closed its channel, or is at fault, and end it."""
        by_itself = fault is None and self._process.has_ended(EXIT_SECONDS)
        status = self._process.end()
        if by_itself:
            return {"ended": describe_exit(status), "signal": -status if status < 0 else None, "tail": self.tail()}
        reason = fault or f"the worker closed its channel, and was ended as it went on for {EXIT_SECONDS:g} s"
        return {"ended": reason, "signal": None, "tail": self.tail()}

    def tail(self) -> list[str]:
        """Return the last lines that this worker printed, also once it is closed."""
        if self._last_lines is not None:
            return self._last_lines
        end = os.lseek(self._output, 0, os.SEEK_END)
        begin = max(self._output_begin, end - TAIL_BYTES)
        text = os.pread(self._output, TAIL_BYTES, begin).decode("utf-8", errors="replace")
        return text.splitlines()[-TAIL_LINES:]

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

    def close(self) -> None:
        """End it and all that it started; nothing if it is closed."""
        if self._last_lines is not None:
            return
        self._process.end()
        self._last_lines = self.tail()
        self._news.close()
        self._channel.close()
        os.close(self._output)


class InvalidMessage(ValueError):
    """A worker's message is not part of the protocol; the text is the reason."""


def validated(messages: Sequence[Message], point: Point, rank: int = 0) -> list[Message]:
    """Return the messages of a worker of this point, with records validated; raise InvalidMessage."""
    found: list[Message] = []
    for message in messages:
        match message:
            case {"beat": {"stage": str(), "steps": int()}, **rest} if not rest:
                found.append(message)
            case {"record": data, **rest} | {"measured": data, **rest} if not rest:
                found.append(dict.fromkeys(message, validated_record(data, point, rank)))
            case _:
                quoted = f"{str(message)[:MOST_QUOTED]!r}"
                raise InvalidMessage(f"the worker sent neither a record nor a heartbeat: {quoted}")
    names = [name for message in found for name in message if name != "beat"]
    if len(names) > len(set(names)):
        raise InvalidMessage("the worker sent more than one record")
    return found


def validated_record(data: object, point: Point, rank: int = 0) -> Record:
    """Return the record that another process sent for a point; raise InvalidMessage.

    The result of a point is verified by rank 0, in the records of the other ranks there may be no verification.
    """
    try:
        record = Record.model_validate(data)
    except ValidationError as error:
        raise InvalidMessage(f"the worker's record is damaged: {first_fault(error)}") from None
    if record.point != point:
        raise InvalidMessage(f"the worker's record is of another point: {record.point}")
    verified = record.verification is not None and record.verification.passed
    if record.status == "measured" and rank == 0 and not verified:
        raise InvalidMessage("the worker's record has a result that was not verified")
    return record


def _fresh(job: Job, output: int, channel: int) -> Started:
    """Start a worker in an interpreter of its own."""
    return ProcessGroup(
        subprocess.Popen(
            child_command("accelbench.execution.worker", str(channel)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[channel, *([] if job.page is None else [job.page])],
            start_new_session=True,  # Ctrl-C reaches the runner alone, and the whole group can be killed
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | framework_settings(job),
        )
    )


def _forked(template: Template, job: Job, output: int, channel: int) -> Started:
    """Start a worker of the template, which imports what implements its point."""
    module = discover()[job.point.benchmark].implementation(job.point.device, job.point.params)
    return template.start([module] if module else [], output, channel)


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
    try:
        name = signal.Signals(-status).name
    except ValueError:  # the real-time signals have none
        name = f"signal {-status}"
    hint = " (the kernel does this when memory runs out)" if name == "SIGKILL" else ""
    return f"the worker was killed by {name}{hint}"
