"""A word on the command line is looked up here among the runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accelbench.errors import UserError
from accelbench.pack.read import find_pack, open_packed
from accelbench.run.store import RUNS, RunStore
from profiling.records.point import Point


def open_run(run: str) -> RunStore:
    """Return the run at that path, in that pack (`PACK`, `PACK:RUN`), of that id under `runs`, or the `latest`."""
    packed = find_pack(run)
    return open_packed(*packed) if packed else open_directory(run)


def open_directory(run: str) -> RunStore:
    """Return the run at that path, or of that id under `runs`, or the last one by the word `latest`."""
    if run == "latest":
        found = sorted(RUNS.glob("*/run.json"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise UserError(f"there is no run under {RUNS}: 'accelbench run' makes one")
        return RunStore.open(found[-1].parent)
    path = Path(run)
    return RunStore.open(path if path.exists() else RUNS / run)


def left_by(run: RunStore, plan: Sequence[Point]) -> list[Point]:
    """Return the points of the plan that the run has neither measured nor skipped; UserError if there are none."""
    left = run.left_of(plan)
    if not left:
        raise UserError(f"{run.path} has measured all of this already")
    return left
