"""The ground that every test of the environment record stands on."""

from __future__ import annotations

import pytest

from accelbench.profiling.machine.environment.container import CONTAINER_VARIABLES
from accelbench.profiling.machine.environment.system import RUNTIME_VARIABLES, SCHEDULER_VARIABLES

MARKERS = [*CONTAINER_VARIABLES, *RUNTIME_VARIABLES, *SCHEDULER_VARIABLES, "container"]


@pytest.fixture(autouse=True)
def no_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests may themselves run in a container or a batch job."""
    for name in MARKERS:
        monkeypatch.delenv(name, raising=False)
