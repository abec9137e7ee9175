"""Large host matrices, a block at a time by all CPUs of the process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def by_all_cpus(work: Callable[..., T], *arguments: Iterable[object]) -> list[T]:
    """Return `work`'s results in the order of its arguments, as `map` takes them; it must mostly be outside the GIL.

    NumPy releases the GIL while it draws, converts and multiplies.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(cpus) as pool:
        return list(pool.map(work, *arguments))
