"""The signs that each process of a training gives: a rank that does not come to a step holds up the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from accelbench.profiling.ranks.world import DOING
from accelbench.workloads.data.pipeline import Feed


def watched(batches: Feed) -> Feed:
    """Return the feed of a training by JAX or PyTorch, which says while a batch is waited for, and when a step begins.

    Keras looks at two batches before the first step: until the third, steps are said to begin early.
    """
    return replace(batches, make=lambda: _watch(batches.data))


def _watch(batches: Iterator[Any]) -> Iterator[Any]:
    while True:
        DOING.at("input")
        batch = next(batches, None)
        if batch is None:
            return
        DOING.at("step")
        yield batch
