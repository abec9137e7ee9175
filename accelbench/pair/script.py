"""Measurement of a user's script in a pair: it is started again for each measurement, until enough steps are timed."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from accelbench.diagnosis import end, record_of
from accelbench.errors import UserError
from accelbench.profiling.measure.script.launch import exchange_folder, rank_variables, start
from accelbench.profiling.measure.script.observe import ScriptObserver
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record

FIRST_STEP_S = 100.0
"""Maximum time until the first step, in seconds."""
PYTHON = ("python", "python3")
"""Words of a command that stand for the Python of the side."""


def parse_script(text: str) -> list[str]:
    """Return the words of a command line such as `python train.py --epochs 3`; raise UserError if it is invalid."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"--script {text!r}: {error}") from None
    if len(words) < 2 or words[0] not in PYTHON:
        raise UserError(f"--script {text!r}: expected 'python SCRIPT [ARGUMENT]...'; python is the Python of each side")
    return words


def measure_script(words: Sequence[str], point: Point, seconds: float) -> Record:
    """Start the script by this interpreter, time its steps for at least `seconds`, and end it.

    Its output goes to standard error. A script without enough steps gives a failed record.
    """
    started = datetime.now(UTC)
    with exchange_folder() as exchange:
        process = start([sys.executable, *words[1:]], exchange, stdin=subprocess.DEVNULL)
        try:
            ranked = rank_variables(words) is not None
            observer = ScriptObserver(
                lambda: process.poll() is None, exchange, exchange, seconds, experiments=False, ranked=ranked
            )
            observer.observe_steps(FIRST_STEP_S)
        finally:
            end(process)
    return record_of(observer, point, started)
