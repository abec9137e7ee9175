"""Depth-first tree search on a GPU: a stack per thread block, and shared shelves from which idle blocks take work.

Bound: integer instructions of the expansion of nodes (see the benchmarks). The grid is persistent: a block takes work,
searches below it until its stack is empty, takes more, and ends when no block has work. The sizes of subtrees need not
be known in advance.

**Stack.** A node with children is a *frame*, which contains the words of its state. Each unvisited child is an *entry*,
one word: the slot of the frame and the name of the child. Entries and frames are two ring buffers in global memory, in
the same order; only their tops are accessed, and stay in the caches. Each word of the frames has a separate array, so
that adjacent lanes read adjacent words. Every live frame has an entry, so one capacity check serves both rings.

**Round.** Each lane pops one entry, reads the parent and computes the child: the same work for all lanes, independent
of the shape of the tree. One atomic addition in shared memory reserves the slots for the frame and the entries of a
lane, so that both rings keep the same order. There are two barriers: after all lanes have popped and counted, and after
all have pushed.

**Capacity.** Each lane that pops concurrently needs at most (maximum children − 1)·depth slots. If a round would fill
more than half of the stack, its results are discarded and the next round pops half as many entries; only rounds of a
single entry may use the other half. So every tree with (maximum children − 1)·depth up to half of the slots can be
searched, if necessary more slowly. If even a single entry has too many children, they are lost and counted, and the
search fails its check.

**Sharing.** A block with more than `keep` entries moves up to one per lane from the *bottom* of its stack, where
subtrees are large, to its own shelf if the shelf is vacant. An idle block searches for a ready shelf and takes all of
its entries. There are no locks, and no block waits for a particular other block, so neither the number of resident
blocks nor their order matters. At the start the children of the root are on ready shelves that belong to no block.

**Termination.** `pending` is the number of blocks with work plus the number of filled shelves. A block increments it
before its shelf becomes ready, and decrements it when its stack is empty; the taker of a shelf inherits the shelf's
count. So `pending` is never 0 while there is work, it stays 0 once it is 0, and every idle block then ends.

**Memory order.** Flags are read and written by atomic operations. There is a fence between a barrier of the block and a
flag that thread 0 sets, so that a block that observes the flag observes all earlier writes (release). Another fence
follows the observation of a flag by thread 0, before the next barrier, so that no older data is read from L1 (acquire).
Cooperative groups synchronise a grid in the same way. The owner of a shelf writes to it only after the taker has
signalled that it has read the complete shelf. Lanes of a warp wait for each other only at barriers that all of them
reach; idle threads also poll in rounds. So the search is correct with and without independent thread scheduling
(compute capability 7.0 and later).

Private stacks with one shared part are from Acar, Charguéraud and Rainey, "Scheduling parallel programs by work
stealing with private deques", PPoPP 2013.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, uint32, uint64, void

THREADS = 128
"""Threads of a block: few, so that barriers are cheap and a shelf is filled early."""

CHILD_BITS = 12
"""Bits of an entry for the name of the child, so that names are below 4,096; the other 20 are the slot of the frame."""
PLACE_BITS = 32 - CHILD_BITS
NAME = uint32((1 << CHILD_BITS) - 1)
NAME_BITS = uint32(CHILD_BITS)
RESERVED_BITS = uint32(16)
RESERVED = uint32((1 << 16) - 1)
"""Maximum entries of a round: a counter has the pushed entries in its upper 16 bits and the frames in its lower 16."""

ZERO, ONE = uint32(0), uint32(1)
NONE = uint32(0xFFFFFFFF)
WORD_BITS, IN_WORD = uint32(5), uint32(31)
"""Shift and mask for the `ready` flags of shelves, the bits of 32-bit words."""
SHORT_NAP, LONG_NAP = uint32(200), uint32(6400)
"""Shortest and longest pause between polls in nanoseconds, doubled each time to limit contention for the flags."""
COUNTS = 4
"""Counts per block: nodes popped, nodes with children, shelves filled, children lost."""


@dataclass(frozen=True)
class Problem:
    """Definition of a search tree by device functions.

    A node consists of `words` words, the first of which is its depth. `expand(node, name, tables)` replaces the parent
    in the local array `node` by its child `name`, and returns the set of the child's children as a word, 0 if it is
    empty. For such a word `number` returns the number of children, `first` the name of one of them, and `others` the
    word without this child.
    """

    words: int
    expand: Any
    number: Any
    first: Any
    others: Any


@cuda.jit
def reset(ready_first: Any, chunks: Any, ready: Any, vacant: Any, pending: Any, deepest: Any) -> None:
    """Initialise the flags: the shelves with the root's children are ready, all others vacant."""
    i = uint32(cuda.grid(1))
    if i < uint32(ready.shape[0]):
        ready[i] = ready_first[i]
    if i < uint32(vacant.shape[0]):
        vacant[i] = ONE
    if i == ZERO:
        pending[0] = chunks
        deepest[0] = ZERO


@cuda.jit(device=True)
def find_shelf(ready: Any, pending: Any, seen: Any) -> Any:
    """Wait for a ready shelf, acquire it for this block and return it; return NONE if no work is left.

    `seen` is in shared memory: the distance of a ready shelf from the block's own word, the acquired shelf, `pending`.
    """
    thread, block = uint32(cuda.threadIdx.x), uint32(cuda.blockIdx.x)
    words = uint32(ready.shape[0])
    home = uint32(uint32(block >> WORD_BITS) % words)
    nap = SHORT_NAP
    while True:
        if thread == ZERO:
            seen[0] = NONE
            seen[1] = NONE
            seen[2] = cuda.atomic.add(pending, 0, ZERO)
        cuda.syncthreads()
        distance = thread
        while distance < words:
            if cuda.atomic.or_(ready, uint32(uint32(home + distance) % words), ZERO) != ZERO:
                cuda.atomic.min(seen, 0, distance)
            distance = uint32(distance + uint32(cuda.blockDim.x))
        cuda.syncthreads()
        if thread == ZERO and seen[0] != NONE:
            word = uint32(uint32(home + seen[0]) % words)
            # Each block starts at its own bit, so that blocks do not all try to acquire the same shelf.
            own = uint32(block & IN_WORD)
            bits = cuda.atomic.or_(ready, word, ZERO)
            turned = uint32(uint32(bits >> own) | uint32(uint32(bits << ONE) << uint32(IN_WORD - own)))
            if turned != ZERO:
                bit = uint32(uint32(own + uint32(cuda.ffs(turned) - 1)) & IN_WORD)
                flag = uint32(ONE << bit)
                if uint32(cuda.atomic.and_(ready, word, uint32(~flag)) & flag) != ZERO:
                    cuda.threadfence()
                    seen[1] = uint32(uint32(word << WORD_BITS) + bit)
        cuda.syncthreads()
        shelf, left = uint32(seen[1]), uint32(seen[2])
        cuda.syncthreads()
        if shelf != NONE or left == ZERO:
            return shelf
        cuda.nanosleep(nap)
        nap = min(uint32(nap + nap), LONG_NAP)


def define_search(problem: Problem, threads: int = THREADS, slots: int = 1 << 14, keep: int | None = None) -> Any:
    """Return the kernel for blocks of `threads` threads with stacks of `slots` slots, both powers of two.

    A block shares work if it has more than `keep` ≥ 1 entries (default: `threads`).
    """
    if not (slots & (slots - 1) == 0 and 2 * threads <= slots <= 1 << PLACE_BITS):
        raise ValueError(f"slots={slots} is not a power of two from {2 * threads} to {1 << PLACE_BITS}")
    words = problem.words
    lanes, room, half, mask = uint32(threads), uint32(slots), uint32(slots // 2), uint32(slots - 1)
    enough = uint32(max(keep or threads, 1))
    # 64-bit indices: the words of a frame then have constant offsets from one address.
    long_lanes, long_room, long_words = uint64(threads), uint64(slots), uint64(words)
    expand, number, first, others = problem.expand, problem.number, problem.first, problem.others

    @cuda.jit(device=True)
    def take_shelf(
        shelf: Any, bottom: Any, entries: Any, frames: Any, shelf_entries: Any, shelf_frames: Any, shelf_sizes: Any,
        vacant: Any,
    ) -> Any:  # fmt: skip
        """Copy a shelf to the empty stack, from `bottom` on in both rings; return the number of entries."""
        thread, block = uint32(cuda.threadIdx.x), uint64(cuda.blockIdx.x)
        size = uint32(shelf_sizes[shelf])
        theirs = uint64(shelf) * long_lanes
        at = uint64(uint32(bottom + thread) & mask)
        if thread < size:
            entry = shelf_entries[theirs + uint64(thread)]
            place = uint32(uint32(bottom + uint32(entry >> NAME_BITS)) & mask)
            entries[block * long_room + at] = uint32(uint32(place << NAME_BITS) | uint32(entry & NAME))
        if thread <= uint32(shelf_entries[theirs + uint64(uint32(size - ONE))] >> NAME_BITS):
            to = block * long_words * long_room + at
            source = theirs * long_words + uint64(thread)
            for w in range(words):
                frames[to + uint64(w) * long_room] = shelf_frames[source + uint64(w) * long_lanes]
        cuda.syncthreads()
        if thread == ZERO:
            cuda.threadfence()
            cuda.atomic.exch(vacant, shelf, ONE)
        return size

    @cuda.jit(device=True)
    def fill_shelf(
        bottom: Any, chunk: Any, entries: Any, frames: Any, shelf_entries: Any, shelf_frames: Any, shelf_sizes: Any,
        ready: Any, vacant: Any, pending: Any,
    ) -> None:  # fmt: skip
        """Copy `chunk` entries from `bottom` on and their frames to the block's shelf, with frames numbered from 0."""
        thread, block = uint32(cuda.threadIdx.x), uint32(cuda.blockIdx.x)
        mine = uint64(block) * long_room
        shelf = uint64(block) * long_lanes
        lowest = uint32(entries[mine + uint64(bottom & mask)] >> NAME_BITS)
        last = entries[mine + uint64(uint32(uint32(bottom + chunk) - ONE) & mask)]
        if thread < chunk:
            entry = entries[mine + uint64(uint32(bottom + thread) & mask)]
            place = uint32(uint32(uint32(entry >> NAME_BITS) - lowest) & mask)
            shelf_entries[shelf + uint64(thread)] = uint32(uint32(place << NAME_BITS) | uint32(entry & NAME))
        if thread <= uint32(uint32(uint32(last >> NAME_BITS) - lowest) & mask):
            to = shelf * long_words + uint64(thread)
            source = mine * long_words + uint64(uint32(lowest + thread) & mask)
            for w in range(words):
                shelf_frames[to + uint64(w) * long_lanes] = frames[source + uint64(w) * long_room]
        cuda.syncthreads()
        if thread == ZERO:
            shelf_sizes[block] = chunk
            cuda.atomic.exch(vacant, block, ZERO)
            cuda.atomic.add(pending, 0, ONE)
            cuda.threadfence()
            cuda.atomic.or_(ready, uint32(block >> WORD_BITS), uint32(ONE << uint32(block & IN_WORD)))

    @cuda.jit(device=True)
    def push(node: Any, children: Any, frame: Any, to: Any, entries: Any, frames: Any) -> None:
        """Write the node to the slot `frame`, and an entry for each of its children from the slot `to` on."""
        mine = uint64(cuda.blockIdx.x) * long_room
        at = mine * long_words + uint64(frame)
        for w in range(words):
            frames[at + uint64(w) * long_room] = node[w]
        while children != ZERO:
            entries[mine + uint64(to & mask)] = uint32(uint32(frame << NAME_BITS) | first(children))
            children = others(children)
            to = uint32(to + ONE)

    @cuda.jit
    def search(
        tables: Any, entries: Any, frames: Any, shelf_entries: Any, shelf_frames: Any, shelf_sizes: Any, ready: Any,
        vacant: Any, pending: Any, counts: Any, deepest: Any,
    ) -> None:  # fmt: skip
        """Search below the entries on the shelves; write counts[COUNTS·block:] and deepest[0]."""
        seen = cuda.shared.array(3, uint32)
        reserved = cuda.shared.array(2, uint32)  # counters of this round and of the next one
        offer = cuda.shared.array(1, uint32)
        node = cuda.local.array(words, uint32)
        thread, block = uint32(cuda.threadIdx.x), uint32(cuda.blockIdx.x)
        mine = uint64(block) * long_room
        nodes = parents = uint64(0)
        shared = lost = depth = turn = bottom = ZERO
        if thread == ZERO:
            reserved[turn] = ZERO
        while True:
            shelf = find_shelf(ready, pending, seen)
            if shelf == NONE:
                break
            size = take_shelf(shelf, bottom, entries, frames, shelf_entries, shelf_frames, shelf_sizes, vacant)
            limit = lanes
            while size > ZERO:
                take = min(size, limit)
                rest = uint32(size - take)
                top = uint32(bottom + rest)
                children = place = is_vacant = ZERO
                free_frame = top
                if rest > ZERO:
                    free_frame = uint32(uint32(entries[mine + uint64(uint32(top - ONE) & mask)] >> NAME_BITS) + ONE)
                if thread == ZERO and size > enough:
                    is_vacant = cuda.atomic.or_(vacant, block, ZERO)
                if thread < take:
                    entry = entries[mine + uint64(uint32(top + thread) & mask)]
                    parent = mine * long_words + uint64(entry >> NAME_BITS)
                    for w in range(words):
                        node[w] = frames[parent + uint64(w) * long_room]
                    children = expand(node, uint32(entry & NAME), tables)
                    depth = max(depth, node[0])
                    if children != ZERO:
                        pair = uint32(uint32(uint32(number(children)) << RESERVED_BITS) | ONE)
                        place = cuda.atomic.add(reserved, turn, pair)
                if thread == ZERO:
                    if is_vacant != ZERO:
                        cuda.threadfence()
                    offer[0] = is_vacant
                cuda.syncthreads()
                pushed = uint32(reserved[turn])
                may_share = offer[0] != ZERO
                turn = uint32(turn ^ ONE)
                if thread == ZERO:
                    reserved[turn] = ZERO
                grown = uint32(rest + uint32(pushed >> RESERVED_BITS))
                if grown <= half or take == ONE:
                    nodes += uint64(take)
                    parents += uint64(pushed & RESERVED)
                    limit = min(uint32(limit + limit), lanes)
                    size = rest
                    if grown > room:
                        lost = uint32(lost + uint32(pushed >> RESERVED_BITS))
                    else:
                        size = grown
                        if children != ZERO:
                            frame = uint32(uint32(free_frame + uint32(place & RESERVED)) & mask)
                            push(node, children, frame, uint32(top + uint32(place >> RESERVED_BITS)), entries, frames)
                else:
                    limit = uint32(take >> ONE)
                cuda.syncthreads()
                if may_share and size > enough:
                    chunk = min(uint32(size >> ONE), lanes)
                    fill_shelf(
                        bottom, chunk, entries, frames, shelf_entries, shelf_frames, shelf_sizes, ready, vacant, pending
                    )
                    bottom = uint32(bottom + chunk)
                    size = uint32(size - chunk)
                    shared = uint32(shared + ONE)
            if thread == ZERO:
                cuda.atomic.sub(pending, 0, ONE)
        cuda.atomic.max(deepest, 0, depth)
        if thread == ZERO:
            at = uint64(block) * uint64(COUNTS)
            counts[at] = nodes
            counts[at + uint64(1)] = parents
            counts[at + uint64(2)] = uint64(shared)
            counts[at + uint64(3)] = uint64(lost)

    return search


def search_code(name: str, problem: Problem, unit: str) -> DeviceKernel:
    """Return the search of a problem as launched on a large device, for `device_code`."""
    row = uint32[::1]
    signature = void(row, row, row, row, row, row, row, row, row, uint64[::1], row)
    return NumbaKernel(name, define_search(problem), signature, tuned=True, unit=unit)


def device_code() -> list[DeviceKernel]:
    """Return the kernel that initialises every search."""
    row = uint32[::1]
    return [NumbaKernel("treesearch reset", reset, void(row, uint32, row, row, row, row))]
