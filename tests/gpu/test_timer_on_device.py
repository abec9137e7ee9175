from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.profiling.records.timing import Timing
from tests.conftest import environment

pytestmark = pytest.mark.gpu

SCRIPT = Path(__file__).with_name("time_an_addition.py")


def timed(behaviour: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), behaviour], env=environment(), capture_output=True, text=True, timeout=120
    )


def test_nvbench_returns_isolated_samples_and_a_batch_time() -> None:
    outcome = timed("works")
    assert outcome.returncode == 0, outcome.stderr
    timing = Timing.model_validate_json(outcome.stdout.splitlines()[-1])
    assert len(timing.samples) >= 10
    assert timing.batch is not None
    assert timing.batch > 0
    assert timing.timer == "nvbench"


def test_an_error_in_the_work_is_raised_unchanged() -> None:
    outcome = timed("fails")
    assert outcome.returncode != 0
    assert "ArithmeticError" in outcome.stderr


def test_a_second_timing_in_one_process_fails_with_the_reason() -> None:
    outcome = timed("twice")
    assert outcome.returncode != 0
    assert "once per process" in outcome.stderr
