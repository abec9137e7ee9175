"""Progress reports of a training process, by which a rank that holds up the others is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from accelbench.profiling.ranks.world import PROGRESS
from accelbench.workloads.data.pipeline import Feed


def watched(batches: Feed) -> Feed:
    """Return the feed of a training on JAX or PyTorch with reports: waiting for input, or in a step.

    Keras prefetches two batches before the first step, so the first two steps are reported early.
    """
    return replace(batches, make=lambda: _watch(batches.data))


def _watch(batches: Iterator[Any]) -> Iterator[Any]:
    while True:
        PROGRESS.at("input")
        batch = next(batches, None)
        if batch is None:
            return
        PROGRESS.at("step")
        yield batch
