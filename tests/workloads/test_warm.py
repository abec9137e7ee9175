"""Tests of `tests.fixtures.warm`: forked processes share imports, but no state."""

from __future__ import annotations

import os
import signal

import pytest

from tests.fixtures.warm import Forked, result, run_on_all
from tests.requirements import ANY_BACKEND, installed_backends

pytestmark = pytest.mark.slow

CHANGED = """
import json, os, sys
import keras
found = [os.environ["KERAS_BACKEND"], keras.backend.backend(), sys.argv[1:], os.environ["GIVEN"], hasattr(keras, "own")]
keras.own = True
print("no result")
print(json.dumps([*found, os.getppid()]))
"""


def test_a_program_has_its_backend_arguments_variables_and_own_state() -> None:
    for _ in range(2):
        found = run_on_all(CHANGED, "a b", GIVEN="value")
        assert {name: each[:-1] for name, each in found.items()} == {
            name: [name, name, ["a b"], "value", False] for name in installed_backends()
        }
        assert len({each[-1] for each in found.values()}) == len(found)


def test_a_failed_program_raises_its_error_and_the_next_one_runs() -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        result(Forked(ANY_BACKEND, "\n1 / 0"))
    assert result(Forked(ANY_BACKEND, "\nprint(1)")) == 1


def test_a_killed_process_ends() -> None:
    process = Forked(ANY_BACKEND, "import time\ntime.sleep(600)")
    assert process.poll() is None
    process.kill()
    process.communicate(60)
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(int(process.pid or 0), 0)
