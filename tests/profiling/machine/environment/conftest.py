"""Fixtures of the tests of the environment record."""

from __future__ import annotations

import pytest

from accelbench.profiling.machine.environment.container import CONTAINER_VARIABLES, RUNTIME_VARIABLES
from accelbench.profiling.machine.environment.system import SCHEDULER_VARIABLES

MARKERS = [*CONTAINER_VARIABLES, *RUNTIME_VARIABLES, *SCHEDULER_VARIABLES, "container"]


@pytest.fixture(autouse=True)
def no_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the markers of a container or batch job in which the tests may run."""
    for name in MARKERS:
        monkeypatch.delenv(name, raising=False)
