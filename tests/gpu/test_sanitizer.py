"""Kernels under NVIDIA's compute-sanitizer, if it is installed: no invalid access, no race in shared memory."""

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
"""Time limit of one tool in seconds: both tools, run concurrently, end within ten minutes."""


@pytest.mark.needs("sanitizer")
@pytest.mark.timeout(SECONDS + 30)
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_the_sanitizer_finds_nothing(tool: str) -> None:
    command = [str(find_sanitizer()), "--tool", tool, "--error-exitcode", str(FOUND), sys.executable, str(SCRIPT)]
    # Bindings newer than the driver query functions that it lacks and handle the error; it is no invalid access.
    command[3:3] = ["--report-api-errors", "no"] if tool == "memcheck" else []
    with subprocess.Popen(
        command,
        env=environment(ACCELBENCH_PATH=None),  # only accelbench's own kernels
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # the tool starts the script in a child process, which must be killed with it
    ) as process:
        try:
            said, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            pytest.fail(f"{tool} did not finish within {SECONDS} s; end of its output:\n{said[-4000:]}")
    assert process.returncode == 0, said[-4000:]
