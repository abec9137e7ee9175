"""A side as the parent sees it: started once, asked for one measurement after the other, ended with the command."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from tempfile import TemporaryFile
from time import monotonic

from pydantic import ValidationError

from accelbench.errors import RunBroken, UserError
from accelbench.execution.worker_process import InvalidMessage, validated_record
from accelbench.pair.server import SidePlan, SideRequest
from accelbench.pair.side import PairSide
from accelbench.profiling.ranks.channel import Channel
from accelbench.profiling.records.point import Device
from accelbench.profiling.records.record import Record

EXIT_SECONDS = 10.0
PLAN_SECONDS = 300.0
"""Time limit of a side for its plan: a container is started and imports what its benchmarks need."""
MOST_WORDS = 300
"""The characters of a side's last line that are shown."""


class SideProcess:
    """The process of a side; it sleeps while the other side measures."""

    def __init__(self, side: PairSide, device: Device) -> None:
        self._side = side
        self._printed = TemporaryFile()  # noqa: SIM115 - closed with the process
        own, theirs = socket.socketpair()
        self._channel = Channel(own)
        try:
            with theirs:
                self._process = subprocess.Popen(
                    side.command(device),
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=self._printed,
                    start_new_session=True,  # Ctrl-C reaches this command alone, which then ends its sides
                    env=os.environ | side.variables,
                )
        except OSError as error:
            self._channel.close()
            self._printed.close()
            raise UserError(f"{side.name} ({side.word}) cannot be started: {error.strerror}") from error

    def plan(self, request: SideRequest) -> SidePlan:
        """Return the points that the side can measure; raise UserError with the reason if it cannot."""
        self._channel.send(request=request.model_dump(mode="json"))
        message = self._channel.receive(PLAN_SECONDS)
        try:
            plan = SidePlan.model_validate(message["plan"] if message else None)
        except (KeyError, ValidationError):
            needs = "it needs accelbench of this version and its packages"
            raise UserError(f"{self._side.name} ({self._side}) cannot measure: {needs} ({self._reason()})") from None
        if plan.error:
            raise UserError(f"{self._side.name} ({self._side}): {plan.error}")
        self._points = plan.points
        return plan

    def measure(self, number: int, deadline: float) -> Record:
        """Measure a point of the plan in a fresh process; RunBroken if there is no valid record by the deadline.

        `deadline` is a time of `time.monotonic`.
        """
        self._channel.send(measure=number)
        message = self._channel.receive(max(0.0, deadline - monotonic()))
        try:
            if message is None or set(message) != {"record"}:
                raise InvalidMessage(self._reason())
            return validated_record(message["record"], self._points[number])
        except InvalidMessage as error:
            raise RunBroken(
                f"{self._side.name} ({self._side}) did not measure: {error}; the records are kept"
            ) from None

    def _reason(self) -> str:
        """Return the reason why there is no valid answer."""
        return self._channel.fault or self._last_line()

    def _last_line(self) -> str:
        """Return the last line that the side printed, once it has ended."""
        try:
            status = self._process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return "it does not answer"
        self._printed.seek(0)
        lines = self._printed.read().decode("utf-8", errors="replace").splitlines()
        return next((line[:MOST_WORDS] for line in reversed(lines) if line.strip()), f"exit status {status}")

    def close(self) -> None:
        """End the side and all that it started."""
        self._process.terminate()
        try:
            self._process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._channel.close()
        self._printed.close()
