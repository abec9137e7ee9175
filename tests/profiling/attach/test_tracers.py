"""Tests of traces of a script's steps that the script's end cuts short."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import environment

TRACED = """
import sys
import {framework}
from accelbench.profiling.attach.tracers import StepTrace

trace = StepTrace("{framework}", 5, sys.argv[1])
assert trace.reason is None, trace.reason
assert not trace.step_ended()
print("ended")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("torch", "tensorflow")] + ["jax"]
)
def test_a_script_that_ends_in_its_trace_keeps_its_exit_status(framework: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", TRACED.format(framework=framework), str(tmp_path)]
    process = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (0, "ended\n"), process.stderr
