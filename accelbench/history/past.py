"""Past runs, read from directories; unreadable runs are skipped with a message."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from accelbench.errors import UserError, collect_damage
from accelbench.execution.store import RunStore
from accelbench.history.fingerprint import fingerprint
from accelbench.profiling.records.record import Record


@dataclass(frozen=True)
class PastRun:
    """Stored run and the fingerprint of its machine."""

    store: RunStore
    run_id: str
    created: datetime
    machine: str
    records: list[Record]


@dataclass(frozen=True)
class StoredHistory:
    """Readable runs, oldest first, and a message for each unreadable run or record."""

    runs: tuple[PastRun, ...]
    passed_over: tuple[str, ...]


def read_past(
    stores: Iterable[RunStore], wanted: Callable[[str], bool] = lambda machine: True, without: Collection[str] = ()
) -> StoredHistory:
    """Read the runs of the machines for which `wanted` is true, each run once, except the ids in `without`."""
    runs: dict[str, PastRun] = {}
    passed_over: list[str] = []
    for store in stores:
        try:
            info = store.info()
            machine = fingerprint(info)
            if wanted(machine) and info.run_id not in without and info.run_id not in runs:
                with collect_damage() as damage:
                    runs[info.run_id] = PastRun(store, info.run_id, info.created, machine, store.records())
                passed_over += damage
        except UserError as error:
            passed_over.append(str(error))
        except OSError as error:
            passed_over.append(f"{store.path} cannot be read: {error.strerror}")
    return StoredHistory(tuple(sorted(runs.values(), key=lambda run: run.created)), tuple(passed_over))
