"""The interrupted run of a study that its measurement on this machine may go on with."""

from __future__ import annotations

from collections.abc import Sequence

from accelbench.forecast import Stored
from accelbench.run.store import RunStore
from profiling.records.point import Device


def interrupted(runs: Sequence[Stored], suite: str, device: Device) -> RunStore | None:
    """Return the last of these runs of the suite that was not finished; None where there is none."""
    found = [
        store for store, info in runs if (info.suite, info.device) == (suite, device) and info.status != "finished"
    ]
    return found[-1] if found else None
