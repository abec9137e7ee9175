"""A word on the command line is looked up here among the runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from accelbench.errors import UserError
from accelbench.history.fingerprint import is_called
from accelbench.history.past import read_past
from accelbench.pack.read import find_pack, open_packed, unpack
from accelbench.run.store import RUNS, RunStore
from profiling.records.point import Point

OF_MACHINE = "machine:"
"""The beginning of a word on the command line that means all stored runs of a machine."""


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
    return RunStore.open(Path(run) if os.path.exists(run) else RUNS / run)


def find_runs(name: str) -> list[RunStore]:
    """Return the run of that name, or all runs in the folder or the pack of that name; UserError if there is none."""
    packed = find_pack(name)
    if packed and packed[1] is None:
        folder = unpack(packed[0])
    elif packed or not os.path.isdir(name) or (Path(name) / "run.json").exists():
        return [open_run(name)]
    else:
        folder = Path(name)
    found = stored_runs(folder)
    if not found:
        raise UserError(f"{name} holds no run")
    return found


def read_words(words: Sequence[str]) -> list[RunStore]:
    """Return the runs that the words name: runs, all runs of folders and packs, all stored runs of `machine:NAME`."""
    return [run for word in words for run in (_of_machine(word) if word.startswith(OF_MACHINE) else find_runs(word))]


def _of_machine(word: str) -> list[RunStore]:
    """Return the runs under `runs` of the machine whose fingerprint holds that name; UserError if there are none."""
    name = word.removeprefix(OF_MACHINE)
    past = read_past(stored_runs(RUNS), lambda machine: is_called(machine, name))
    if not past.runs:
        raise UserError(f"no run under {RUNS} is of a machine called {name!r}: see 'accelbench history'")
    return [run.store for run in past.runs]


def stored_runs(folder: Path) -> list[RunStore]:
    """Return the runs that lie in a folder, by their names; none where it is not there."""
    return [RunStore(path.parent) for path in sorted(folder.glob("*/run.json"))]


def left_by(run: RunStore, plan: Sequence[Point]) -> list[Point]:
    """Return the points of the plan that the run has neither measured nor skipped; UserError if there are none."""
    left = run.left_of(plan)
    if not left:
        raise UserError(f"{run.path} has measured all of this already")
    return left
