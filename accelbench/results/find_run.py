"""Lookup of stored runs by their names on the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from accelbench.errors import UserError
from accelbench.execution.store import RUNS, RunStore
from accelbench.history.fingerprint import is_called
from accelbench.history.past import read_past
from accelbench.pack.read import find_pack, open_packed, unpack
from accelbench.profiling.records.point import Point
from accelbench.profiling.text import did_you_mean

FILES = (".html", ".json", ".jsonl", ".csv", ".parquet")
"""Suffixes of the files in a run's directory; any of these files names the run."""
NAMED = 3
"""Number of runs listed in the message about an unknown one."""
OF_MACHINE = "machine:"
"""Prefix of an argument that selects all stored runs of a machine."""


def open_run(run: str) -> RunStore:
    """Return the run by path, by bundle (`PACK`, `PACK:RUN`), by ID under `runs`, or the `latest`."""
    run = _folder_of(run)
    packed = find_pack(run)
    return open_packed(*packed) if packed else open_directory(run)


def open_directory(run: str) -> RunStore:
    """Return the run by path, by a file in its directory, by ID, or the `latest`.

    A unique prefix of the ID is enough. A complete ID also selects a run in a folder of `runs` (a job's), in the
    current folder, or in a folder of it (`--out`).
    """
    if run == "latest":
        found = sorted(RUNS.glob("*/run.json"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise UserError(f"no run under {RUNS}: start one with 'accelbench run'")
        return RunStore.open(found[-1].parent)
    run = _folder_of(run)
    if os.path.exists(run):
        return RunStore.open(Path(run))
    folder, begin = (Path(run).parent, Path(run).name) if os.sep in run else (RUNS, run)
    try:
        return RunStore.open(_beginning(folder, begin))
    except UserError:
        if folder == RUNS and (outside := _outside(run)):
            return outside
        raise


def _outside(run_id: str) -> RunStore | None:
    """Return the run with this ID in a folder of `runs`, or in or below the current folder; None if there is none."""
    places = (Path(), "run.json"), (Path(), "*/run.json"), (RUNS, "*/*/run.json")
    for store in (RunStore(file.parent) for folder, pattern in places for file in sorted(folder.glob(pattern))):
        with suppress(UserError, OSError):  # an unreadable run has no ID
            if store.info().run_id == run_id:
                return store
    return None


def _folder_of(word: str) -> str:
    """Return the run's directory if `word` is the path of its report or records, otherwise `word`."""
    path = Path(word)
    return str(path.parent) if path.suffix in FILES and (path.parent / "run.json").is_file() else word


def _beginning(folder: Path, begin: str) -> Path:
    """Return the run with this prefix of its directory or ID; raise UserError unless the prefix is unique."""
    stores = stored_runs(folder)
    names = [store.path.name for store in stores]
    found = [name for name in names if name.startswith(begin)]
    if not found:  # directories may be named by the user
        found = [store.path.name for store in stores if store.info().run_id.startswith(begin)]
    if len(found) == 1:
        return folder / found[0]
    if found:
        raise UserError(f"{begin} is ambiguous: {len(found)} runs under {folder} start with it ({', '.join(found)})")
    if not names:
        raise UserError(
            f"{folder / begin} is not a run directory, and {folder} contains none: start one with 'accelbench run'"
        )
    near = did_you_mean(begin, names) or f"; the latest are {', '.join(names[-NAMED:])}"
    raise UserError(f"no run {begin!r} under {folder}{near}")


def find_runs(name: str) -> list[RunStore]:
    """Return the named run, or all runs of a folder or bundle; raise UserError if there is none."""
    name = _folder_of(name)
    packed = find_pack(name)
    if packed and packed[1] is None:
        folder = unpack(packed[0])
    elif packed or not os.path.isdir(name) or (Path(name) / "run.json").exists():
        return [open_run(name)]
    else:
        folder = Path(name)
    found = stored_runs(folder)
    if not found:
        raise UserError(f"{name} contains no run")
    return found


def runs_of_arguments(words: Sequence[str]) -> list[RunStore]:
    """Return the runs of all arguments, each a run, a folder, a bundle, or `machine:NAME`."""
    return [run for word in words for run in (_of_machine(word) if word.startswith(OF_MACHINE) else find_runs(word))]


def _of_machine(word: str) -> list[RunStore]:
    """Return the runs under `runs` of a machine with this name in its fingerprint; raise UserError if there is none."""
    name = word.removeprefix(OF_MACHINE)
    past = read_past(stored_runs(RUNS), lambda machine: is_called(machine, name))
    if not past.runs:
        raise UserError(f"no run of a machine {name!r} under {RUNS}: see 'accelbench history'")
    return [run.store for run in past.runs]


def stored_runs(folder: Path) -> list[RunStore]:
    """Return the runs in a folder, sorted by name; an empty list if the folder does not exist."""
    return [RunStore(path.parent) for path in sorted(folder.glob("*/run.json"))]


def unfinished_in(run: RunStore, plan: Sequence[Point]) -> list[Point]:
    """Return the points of the plan without a measured or skipped record; raises UserError if there are none."""
    left = run.unfinished_points(plan)
    if not left:
        raise UserError(f"{run.path} already has all these points: nothing is left to measure")
    return left
