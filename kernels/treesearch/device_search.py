"""Host side of a tree search on a GPU by `gpu_pool`: memory, launch and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.numba_cuda import cuda, numba_stream
from accelbench.kernels.treesearch.gpu_pool import COUNTS, NAME, RESERVED, THREADS, Problem, define_search, reset
from accelbench.profiling.devices.cupy_device import require_device_memory
from accelbench.profiling.machine.nvidia.cuda import attribute, require_compute_capability
from accelbench.profiling.records.quality import Verification

BLOCKS_PER_MULTIPROCESSOR = 8
"""Blocks per multiprocessor: all are resident with up to 64 registers per thread; later blocks find no work."""
SLOTS_IN_ALL = 1 << 25
LEAST_SLOTS, MOST_SLOTS = 1 << 11, 1 << 16
"""Minimum and maximum slots of the stack of a block; with few blocks the stacks are longer."""
POISON = 0x5A5A5A5A


@dataclass(frozen=True)
class SearchCounts:
    """Counts of a search below the root."""

    nodes: int
    """Entries popped: all visited nodes."""
    parents: int
    """Nodes with children."""
    depth: int
    """Depth of the deepest node; 0 if there is none below the root."""
    shared: int
    """Number of times a shelf was filled."""
    lost: int
    """Children lost because a stack was full; if it is not 0, the other counts are wrong."""


class Search:
    """Search of the tree below a root, with its device memory.

    `root` contains the words of the root, `names` the names of its children; `most_children` is the maximum number of
    children of any other node. Raise ValueError if a round could push more entries than its counter can represent, or
    if a name is too large.
    """

    def __init__(
        self, problem: Problem, tables: Any, root: Any, names: Sequence[int], most_children: int, *, blocks: int,
        slots: int, threads: int = THREADS, keep: int | None = None,
    ) -> None:  # fmt: skip
        if threads * most_children > int(RESERVED):
            raise ValueError(f"{threads} nodes with up to {most_children} children exceed {RESERVED} entries per round")
        if max(names, default=0) > int(NAME):
            raise ValueError(f"a child is called {max(names)}: names are at most {NAME}")
        self.kernel = define_search(problem, threads, slots, keep)
        self.blocks, self.threads, self.slots = blocks, threads, slots
        chunks = [names[i : i + threads] for i in range(0, len(names), threads)]
        shelves = blocks + len(chunks)
        ready = np.zeros(-(-shelves // 32), np.uint32)
        shelf_sizes = np.zeros(shelves, np.uint32)
        shelf_entries = np.zeros((shelves, threads), np.uint32)
        shelf_frames = np.zeros((shelves, problem.words, threads), np.uint32)
        for shelf, chunk in enumerate(chunks, blocks):
            ready[shelf // 32] |= np.uint32(1 << shelf % 32)
            shelf_sizes[shelf] = len(chunk)
            shelf_entries[shelf, : len(chunk)] = chunk
            shelf_frames[shelf, :, 0] = root
        self._chunks = np.uint32(len(chunks))
        self._ready_first = cuda.to_device(ready)
        self._tables = cuda.to_device(tables)
        self._stacks = tuple(cuda.device_array(blocks * slots * words, np.uint32) for words in (1, problem.words))
        self._shelves = tuple(cuda.to_device(x.reshape(-1)) for x in (shelf_entries, shelf_frames, shelf_sizes))
        self._flags = tuple(cuda.device_array(n, np.uint32) for n in (len(ready), shelves, 1))
        self._counts = cuda.device_array(COUNTS * blocks, np.uint64)
        self._deepest = cuda.device_array(1, np.uint32)

    def run(self, stream: int = 0) -> None:
        """Enqueue one search of the complete tree."""
        queue = numba_stream(stream)
        shelves = self._flags[1].shape[0]
        reset[-(-shelves // THREADS), THREADS, queue](self._ready_first, self._chunks, *self._flags, self._deepest)
        self.kernel[self.blocks, self.threads, queue](
            self._tables, *self._stacks, *self._shelves, *self._flags, self._counts, self._deepest
        )

    def poison(self) -> None:
        """Overwrite the counts by impossible values."""
        self._counts.copy_to_device(np.full(COUNTS * self.blocks, POISON, np.uint64))
        self._deepest.copy_to_device(np.full(1, POISON, np.uint32))

    def counts(self) -> SearchCounts:
        """Return the counts of the last search; the device must have finished it."""
        nodes, parents, shared, lost = (int(n) for n in self._counts.copy_to_host().reshape(-1, COUNTS).sum(axis=0))
        return SearchCounts(nodes, parents, int(self._deepest.copy_to_host()[0]), shared, lost)

    def nodes_by_block(self) -> Any:
        """Return the number of nodes that each block visited in the last search."""
        return self._counts.copy_to_host().reshape(-1, COUNTS)[:, 0]

    def check(self, outcome: Verification) -> Verification:
        """Return the outcome, or a failed one with the reason if the last search lost nodes on a full stack."""
        lost = self.counts().lost
        if lost == 0:
            return outcome
        found = f"{outcome.found}; {lost} children found no room on a stack of {self.slots} slots"
        return replace(outcome, passed=False, found=found)


def whole_device(words: int) -> dict[str, int]:
    """Return `blocks` and `slots` for this device and nodes of `words` words.

    Skip if the device memory is too small, or below compute capability 7.0, which `nanosleep` requires.
    """
    require_compute_capability((7, 0), "nanosleep, with which idle blocks pause,")
    blocks = BLOCKS_PER_MULTIPROCESSOR * attribute("MultiProcessorCount")
    slots = slots_for(blocks)
    require_device_memory(4 * (words + 1) * blocks * (slots + THREADS))
    return {"blocks": blocks, "slots": slots}


def slots_for(blocks: int) -> int:
    """Return the slots of the stack of each of `blocks` blocks."""
    share = max(1, SLOTS_IN_ALL // blocks)
    return min(MOST_SLOTS, max(LEAST_SLOTS, 1 << share.bit_length() - 1))
