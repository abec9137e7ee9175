"""Process of one side: started once, it measures on request until the command ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from time import monotonic

from pydantic import ValidationError

from accelbench.errors import RunBroken, UserError
from accelbench.execution.output_log import OutputLog
from accelbench.execution.stored_file import json_of
from accelbench.execution.worker_process import TAIL_BYTES, InvalidMessage, validated_record
from accelbench.pair.server import SidePlan, SideRequest
from accelbench.pair.side import PairSide
from accelbench.profiling.child import child_environment
from accelbench.profiling.devices import kinds
from accelbench.profiling.ranks.channel import Channel
from accelbench.profiling.records.point import Device
from accelbench.profiling.records.record import Record

EXIT_SECONDS = 10.0
PLAN_SECONDS = 300.0
"""Time limit for a side's plan: a container has to start and to import the packages of its benchmarks."""
MAX_LINE_CHARS = 300
"""Maximum number of characters printed of the last line of a side's stderr."""


def _problem(plan: SidePlan) -> str | None:
    """Return why nothing can be measured or stored by a plan that names no error itself."""
    if not plan.points or plan.environment is None:
        return "it has no points, or does not describe its machine"
    if plan.device not in kinds() or any(point.device != plan.device for point in plan.points):
        return "its device is unknown, or differs from the device of its points"
    try:
        json_of(plan)
    except ValueError as error:
        return str(error)
    return None


class SideProcess:
    """Child process of a side; it sleeps while the other side measures."""

    def __init__(self, side: PairSide, device: Device) -> None:
        self._side = side
        self._printed = OutputLog(None)
        own, theirs = socket.socketpair()
        self._channel = Channel(own)
        try:
            with theirs:
                self._process = subprocess.Popen(
                    side.command(device),
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=self._printed.output,
                    start_new_session=True,  # Ctrl-C reaches only this command, which then ends its sides
                    env=child_environment(**side.variables),
                )
        except OSError as error:
            self._channel.close()
            self._printed.close()
            raise UserError(f"{side.name} ({side.word}) cannot be started: {error.strerror}") from error
        finally:
            self._printed.started()

    def plan(self, request: SideRequest) -> SidePlan:
        """Return the plan of the side; raise UserError with the reason if it cannot measure."""
        self._channel.send(request=request.model_dump(mode="json"))
        message = self._channel.receive(PLAN_SECONDS)
        try:
            plan = SidePlan.model_validate(message["plan"] if message else None)
            problem = None if plan.error else _problem(plan)
        except (KeyError, ValidationError):
            plan, problem = SidePlan(), self._reason()
        if problem:
            advice = "install this version of accelbench and its packages there"
            raise UserError(f"{self._side.name} ({self._side}) cannot measure: {problem}: {advice}")
        if plan.error:
            raise UserError(f"{self._side.name} ({self._side}): {plan.error}")
        self._points = plan.points
        return plan

    def measure(self, number: int, deadline: float) -> Record:
        """Measure point `number` of the plan in a new process, and return its record.

        Raises RunBroken if no valid record arrives before `deadline`, a time of `time.monotonic`.
        """
        self._channel.send(measure=number)
        message = self._channel.receive(max(0.0, deadline - monotonic()))
        try:
            if message is None or set(message) != {"record"}:
                raise InvalidMessage(self._reason())
            record = validated_record(message["record"], self._points[number])
            json_of(record)
            return record
        except ValueError as error:
            raise RunBroken(
                f"{self._side.name} ({self._side}) did not measure: {error}; the records are kept"
            ) from None

    def _reason(self) -> str:
        """Return the reason for a missing or invalid answer."""
        return self._channel.fault or self._last_line()

    def _last_line(self) -> str:
        """Return the last line of the process's stderr, or its exit status, after waiting for its end."""
        try:
            status = self._process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return "no answer"
        lines = self._printed.last_bytes(TAIL_BYTES).decode("utf-8", errors="replace").splitlines()
        return next((line[:MAX_LINE_CHARS] for line in reversed(lines) if line.strip()), f"exit status {status}")

    def close(self) -> None:
        """End the process and its children."""
        self._process.terminate()
        try:
            self._process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._channel.close()
        self._printed.close()
