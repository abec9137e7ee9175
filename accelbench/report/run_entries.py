"""Entries of the list of runs: summaries of stored runs, kept in a cache next to the runs.

Reading the records of a run takes a tenth of a second, so that only new and changed runs are read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from pydantic import ValidationError

from accelbench.errors import DataDamaged, UserError, collect_damage
from accelbench.execution.store import RunStore
from accelbench.output.atomic_file import write_atomically
from accelbench.profiling.files import read_regular
from accelbench.profiling.records.stored import Stored
from accelbench.report.causes import NOISY_MARK
from accelbench.report.rows import Row
from accelbench.report.stored_run import ConfidenceLight, Run

CACHE = ".index.json"
VERSION = 1
"""Version of the cache; another version is discarded."""
MAX_LEADS = 3
"""Maximum number of results listed for a run."""
MAX_RATES = 64
"""Maximum number of results of a run from which the trend of its machine is chosen."""

FileState = tuple[int, int]
"""Time of the last change in nanoseconds, and size in bytes."""


class Rate(Stored):
    """Result of a point that is not noisy."""

    value: float
    unit: str


class Lead(Stored):
    """Best result of a benchmark."""

    benchmark: str
    result: str
    """Result as text, with the mark of a noisy one."""
    point: str
    """Backend and parameters of the point."""


class RunEntry(Stored):
    """Summary of a stored run."""

    address: str
    """Name of its directory, percent-encoded, as it need not be UTF-8."""
    state: tuple[FileState, FileState]
    """States of `run.json` and of the records, at the time of the summary."""
    run_id: str
    created: datetime
    created_text: str
    words: str
    """Name, note and tags."""
    suite: str
    """Suite, or the named benchmarks."""
    device: str
    machine: str
    outcome: str
    light: ConfidenceLight
    leads: tuple[Lead, ...]
    rates: dict[str, Rate]
    """Results by point, those of the leads first."""

    @property
    def folder(self) -> str:
        """Return the name of its directory."""
        return os.fsdecode(unquote_to_bytes(self.address))

    @property
    def text(self) -> str:
        """Return the text in which `accelbench runs WORD` searches, in lower case."""
        return " ".join([self.folder, self.run_id, self.words, self.machine, self.suite, self.device]).casefold()


class RunEntries(Stored):
    """Content of the cache."""

    version: int
    entries: tuple[RunEntry, ...]


@dataclass(frozen=True)
class FoundRuns:
    """Entries of a folder's runs."""

    entries: list[RunEntry]
    """Entries, the newest run first."""
    damaged: list[str]
    """Messages about corrupt runs."""
    unread: int
    """Number of runs left out because too many had to be read."""


def find_entries(folder: Path, known: Sequence[Run] = (), most_read: int | None = None) -> FoundRuns:
    """Return the entries of the runs in the folder, and keep them for the next call.

    Runs in `known` have been read already. At most `most_read` further runs are read, the newest first.
    """
    cached = {entry.folder: entry for entry in _read_cache(folder)}
    given = {run.store.path.resolve(): run for run in known if run.store}
    entries: list[RunEntry] = []
    damaged: list[str] = []
    unread, read = 0, 0
    for path in sorted(folder.glob("*/run.json"), reverse=True):
        store = RunStore(path.parent)
        entry, run = cached.get(store.path.name), given.get(store.path.resolve())
        if run is None and entry and entry.state == _state(store):
            entries.append(entry)
            continue
        if run is None and most_read is not None and read >= most_read:
            unread += 1
            continue
        read += run is None
        try:
            with collect_damage() as reasons:
                entries.append(entry_of(run or Run.of(store), store))
            damaged += reasons
        except (DataDamaged, UserError) as error:
            damaged.append(f"left out: {error}")
    entries.sort(key=lambda entry: entry.created, reverse=True)
    if read or known or len(entries) != len(cached):
        content = RunEntries(version=VERSION, entries=tuple(entries)).model_dump_json()
        write_atomically(folder / CACHE, lambda path: path.write_text(content, encoding="utf-8"))
    return FoundRuns(entries, damaged, unread)


def entry_of(run: Run, store: RunStore) -> RunEntry:
    """Return the summary of a run."""
    state = _state(store)
    groups = sorted(run.groups, key=lambda group: (any(row.record.ceiling for row in group.rows), not group.training))
    best = [group.best for group in groups]
    rates: dict[str, Rate] = {}
    for row in [*best, *run.rows]:
        if not row.disturbed and (rate := row.record.rate()) and len(rates) < MAX_RATES:
            rates[str(row.record.point)] = Rate(value=rate, unit=row.record.unit)
    return RunEntry(
        address=quote(os.fsencode(store.path.name)),
        state=state,
        run_id=run.info.run_id,
        created=run.info.created,
        created_text=run.created,
        words=run.info.label.words,
        suite=run.suite,
        device=run.info.device,
        machine=run.machine,
        outcome=run.outcome,
        light=run.light,
        leads=tuple(map(_lead, best[:MAX_LEADS])),
        rates=rates,
    )


def _lead(row: Row) -> Lead:
    result = f"{NOISY_MARK * row.noisy}{row.reading.quantity}"
    return Lead(benchmark=row.record.point.benchmark, result=result, point=row.point)


def _state(store: RunStore) -> tuple[FileState, FileState]:
    info, records = (_file_state(path) for path in (store.info_path, store.records_path))
    return info, records


def _file_state(path: Path) -> FileState:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _read_cache(folder: Path) -> Sequence[RunEntry]:
    """Return the kept entries; none if the file is missing, of another version or corrupt."""
    try:
        found = RunEntries.model_validate_json(read_regular(folder / CACHE))
    except (OSError, ValidationError):
        return ()
    return found.entries if found.version == VERSION else ()
