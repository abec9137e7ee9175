"""Depth-first tree search on a whole GPU: a stack per thread block, and a shared pool for idle blocks.

The grid is persistent: a block takes work, searches below it until its stack is empty, takes more, and ends when
there is none anywhere. Nothing need be known beforehand about the size of a subtree.

**Stack.** A node that has children is a *frame*, the words of its state. Each of its children that nobody has looked at
yet is an *entry*, one word: the frame's place and the child's name. Entries are a ring, and frames another in the same
order, in global memory: what is touched are their tops, which stay in the caches. Each word of the frames has an array
of its own, so that neighbouring lanes read neighbouring words. Every living frame has an entry, so one check of the
room serves both rings.

**Round.** Each lane pops one entry, reads the parent and makes the child: the same work for all lanes, whatever the
shape of the tree. One atomic addition in shared memory reserves the places of a lane's frame and of its entries, so
both rings keep the same order. Two barriers: all have popped and counted, all have pushed.

**Room.** Lanes that pop together fill the stack with (most children − 1)·depth entries each, at the worst. If a round
would fill more than half of it, the round is void and the next one pops half as many; only single entries may fill the
other half. So every tree with (most children − 1)·depth up to half the places is searched, more slowly when it must.
Where a single entry has too many children they are lost and counted, and the answer is known to be wrong.

**Sharing.** A block with more than `keep` entries puts up to one per lane from the *bottom* of its stack, where
subtrees are large, on its own shelf if that is vacant. An idle block looks for a shelf that is ready and takes all of
it. No lock is ever held and nobody waits for one particular other block, so it does not matter how many blocks run at a
time, or in which order they start. The children of the root lie ready at the start, on shelves that no block owns.

**End.** `pending` is the number of blocks with work and of shelves that hold some. The taker of a shelf takes over the
shelf's share of it; a block adds one before its shelf is ready, and subtracts its own when its stack is empty. So it is
never 0 while there is work, once 0 it stays 0, and every idle block ends when it sees that.

**Memory order.** Flags are read and changed by atomic operations. A fence stands between a block's barrier and the flag
that thread 0 sets: what the block wrote before is seen by whoever sees the flag (release). Another stands behind a flag
that thread 0 has found set, and before the next barrier: nothing older is read from the first-level cache then
(acquire). Cooperative groups synchronise a whole grid in the same way. An owner writes on its shelf only after the
taker has said that all of it was read. Lanes of one warp wait for each other at barriers only, which all of them reach:
idle threads look around in rounds too, so that independent thread scheduling (compute capability 7.0 and later), or
its absence, makes no difference.

Private stacks with one part on offer are from Acar, Charguéraud and Rainey, "Scheduling parallel programs by work
stealing with private deques", PPoPP 2013.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, uint32, uint64, void

THREADS = 128
"""The threads of a block: few, so that little time is lost at barriers and a shelf is filled soon."""

CHILD_BITS = 12
"""The bits of an entry for the child's name, which is therefore below 4,096; the other 20 are the frame's place."""
PLACE_BITS = 32 - CHILD_BITS
NAME = uint32((1 << CHILD_BITS) - 1)
NAME_BITS = uint32(CHILD_BITS)
RESERVED_BITS = uint32(16)
RESERVED = uint32((1 << 16) - 1)
"""A word counts what a round pushes: the upper half its entries, fewer than 65,536, the lower half its frames."""

ZERO, ONE = uint32(0), uint32(1)
NONE = uint32(0xFFFFFFFF)
WORD_BITS, IN_WORD = uint32(5), uint32(31)
"""Shelves are ready or not by the bits of 32-bit words."""
SHORT_NAP, LONG_NAP = uint32(200), uint32(6400)
"""Nanoseconds between two looks around, doubled each time: many idle blocks must not keep the flags from the others."""
COUNTS = 4
"""Numbers that a block leaves: nodes popped, parents among them, shelves filled, children lost."""


@dataclass(frozen=True)
class Problem:
    """The tree that is searched.

    A node is `words` words, the first of which is its depth. `expand(node, name, tables)` turns the local array `node`
    from a parent into its child of that name, and returns the child's children as a word, 0 if it has none: `number`
    says how many those are, `first` names one of them, `others` is the word without that one. All are device functions.
    """

    words: int
    expand: Any
    number: Any
    first: Any
    others: Any


@cuda.jit
def reset(ready_first: Any, chunks: Any, ready: Any, vacant: Any, pending: Any, deepest: Any) -> None:
    """Make the shelves of the root's children ready, and all others vacant."""
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
    """Return a ready shelf, which is this block's to empty now; NONE if there is no more work anywhere.

    `seen` is shared: how far from its own word the block saw a ready shelf, the shelf it got, and `pending`.
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
            # Each block looks at the bits from its own on, so that they do not all reach for the same shelf.
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
    """Return the kernel for blocks of so many threads with stacks of so many places, both powers of two.

    A block offers work if it has more than `keep` ≥ 1 entries: by default what it pops in one round.
    """
    if not (slots & (slots - 1) == 0 and 2 * threads <= slots <= 1 << PLACE_BITS):
        raise ValueError(f"{slots} places: not a power of two from {2 * threads} to {1 << PLACE_BITS}")
    words = problem.words
    lanes, room, half, mask = uint32(threads), uint32(slots), uint32(slots // 2), uint32(slots - 1)
    enough = uint32(max(keep or threads, 1))
    # 64 bits, so that the words of a frame are at fixed distances from one address.
    long_lanes, long_room, long_words = uint64(threads), uint64(slots), uint64(words)
    expand, number, first, others = problem.expand, problem.number, problem.first, problem.others

    @cuda.jit(device=True)
    def take_shelf(
        shelf: Any, bottom: Any, entries: Any, frames: Any, shelf_entries: Any, shelf_frames: Any, shelf_sizes: Any,
        vacant: Any,
    ) -> Any:  # fmt: skip
        """Copy a shelf to the empty stack, from `bottom` on in both rings; return how many entries that were."""
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
        """Offer `chunk` entries from `bottom` on, and copies of their frames, the first of which is frame 0 there."""
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
        """Write the node as that frame, and an entry for each of its children from place `to` on."""
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
        """Search below what lies on the shelves; counts[COUNTS·block…] and deepest[0] say what was found."""
        seen = cuda.shared.array(3, uint32)
        reserved = cuda.shared.array(2, uint32)  # in this round, and in the next
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
    """Return the search for that problem as a large device launches it, for `device_code`."""
    row = uint32[::1]
    signature = void(row, row, row, row, row, row, row, row, row, uint64[::1], row)
    return NumbaKernel(name, define_search(problem), signature, tuned=True, unit=unit)


def device_code() -> list[DeviceKernel]:
    """Return the kernel that every search launches first."""
    row = uint32[::1]
    return [NumbaKernel("treesearch reset", reset, void(row, uint32, row, row, row, row))]
