"""Optional marks for a training loop that `accelbench diagnose` does not recognise: `for batch in steps(loader)`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from accelbench.profiling.attach.session import MARKS

Batch = TypeVar("Batch")


def steps(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the batches; under `accelbench diagnose`, each iteration of the loop is a step.

    Without `accelbench diagnose`, the loop is unchanged.
    """
    attached = sys.modules.get("_accelbench_attach.session")
    session: Any = attached.Session.current if attached else None
    iterator = iter(batches)
    while session is not None and session.active:
        try:
            batch = session.next_batch(next, iterator)
        except StopIteration:
            return
        yield batch
        session.step(MARKS)
    yield from iterator
