"""The kernels under NVIDIA's compute-sanitizer, where it is installed: no stray access, no race in shared memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import environment
from tests.requirements import find_sanitizer

pytestmark = pytest.mark.gpu

SCRIPT = Path(__file__).with_name("verify_small.py")
FOUND = 86
SECONDS = 240
"""Allowed to one tool: both, beside each other, end within the ten minutes that some machines give a command."""


@pytest.mark.needs("sanitizer")
@pytest.mark.timeout(SECONDS + 30)
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_the_sanitizer_finds_nothing(tool: str) -> None:
    command = [str(find_sanitizer()), "--tool", tool, "--error-exitcode", str(FOUND), sys.executable, str(SCRIPT)]
    # Bindings newer than the driver ask it for functions that it lacks, and take the refusal: that is no stray access.
    command[3:3] = ["--report-api-errors", "no"] if tool == "memcheck" else []
    with subprocess.Popen(
        command,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # the tool starts the script as a process of its own, which must end with it
    ) as process:
        try:
            said, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            pytest.fail(f"{tool} was not done after {SECONDS} s, its last words:\n{said[-4000:]}")
    assert process.returncode == 0, said[-4000:]
