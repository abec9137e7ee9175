"""A side as the parent sees it: started once, asked for one measurement after the other, ended with the command."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from tempfile import TemporaryFile

from accelbench.errors import RunBroken, UserError
from accelbench.pair.server import SidePlan, SideRequest
from accelbench.pair.side import PairSide
from accelbench.profiling.records.point import Device
from accelbench.profiling.records.record import Record

EXIT_SECONDS = 10.0
MOST_WORDS = 300
"""The characters of a side's last line that are shown."""


class SideProcess:
    """The process of a side; it sleeps while the other side measures."""

    def __init__(self, side: PairSide, device: Device) -> None:
        self._side = side
        self._printed = TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = subprocess.Popen(
                side.command(device),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C reaches this command alone, which then ends its sides
                env=os.environ | side.variables,
            )
        except OSError as error:
            self._printed.close()
            raise UserError(f"{side.name} ({side.word}) cannot be started: {error.strerror}") from error

    def plan(self, order: SideRequest) -> SidePlan:
        """Return the points that the side can measure; UserError with its reason where it cannot."""
        answer = self._ask(order.model_dump_json())
        if answer is None:
            needs = "it needs accelbench of this version and its packages"
            raise UserError(f"{self._side.name} ({self._side}) cannot measure: {needs} ({self._last_line()})")
        plan = SidePlan.model_validate_json(answer)
        if plan.error:
            raise UserError(f"{self._side.name} ({self._side}): {plan.error}")
        return plan

    def measure(self, point: int) -> Record:
        """Measure the point of that number of the plan, in a fresh process."""
        answer = self._ask(str(point))
        if answer is None:
            raise RunBroken(f"{self._side.name} ({self._side}) has died ({self._last_line()}); the records are kept")
        return Record.model_validate_json(answer)

    def _ask(self, line: str) -> str | None:
        """Return the side's answer to a line; None if it has ended."""
        assert self._process.stdin
        assert self._process.stdout
        try:
            print(line, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            return None
        return self._process.stdout.readline() or None

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
        with suppress(BrokenPipeError):  # what a side that has ended did not read is still to be written
            self._process.communicate()
        self._printed.close()
