"""Work sharing between the CPU threads of a tree search: busy threads give the half nearest the root to idle ones.

A pending node is a column of a uint32[words, capacity] array, so that the same word of adjacent nodes forms a vector. A
thread searches depth first from a stack of such columns, `stack[:, base:top]`, and regularly reads two shared counters.
When another thread has no nodes and the shared pool is empty, it moves the lower half of its stack, the largest
subtrees, to the pool. The search ends when the pool is empty and no thread has nodes.

Only threads that have started hold nodes, so no thread waits for one that has not started. Thus the algorithm works
with every threading layer of Numba, which may run the iterations of a `prange` sequentially, and with more threads than
CPUs.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from accelbench.kernels.lib.cpu.threads import compiled

LOCK, POOLED, WORKING, WAITING, GIVEN = (16 * i for i in range(5))
"""Indices into the array `control`, 128 bytes apart, so that no two share a cache line or a pair of lines: lock of the
pool, nodes in the pool, threads with nodes, threads waiting for nodes, total number of shared nodes."""
POOL = 4096
"""Capacity of the pool in nodes, in addition to the initial ones."""
PAD = 16
"""Words between the results of two threads: 128 bytes, so that they share no cache line and no pair of lines."""


def _counter(array: types.Type) -> bool:
    return isinstance(array, types.Array) and array.dtype == types.int64 and array.layout == "C"


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


@intrinsic
def load_shared(typing: Any, array: Any, index: Any) -> Any:
    """Return array[index] of an int64 array by an atomic load with acquire semantics."""
    if not (_counter(array) and isinstance(index, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_place(context, builder, array, *arguments), "acquire", 8)

    return types.int64(array, types.intp), codegen


@intrinsic
def store_shared(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Do array[index] = value by an atomic store with release semantics."""
    if not (_counter(array) and isinstance(index, types.Integer) and isinstance(value, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[2], _place(context, builder, array, *arguments[:2]), "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), codegen


@intrinsic
def exchange_shared(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Do array[index] = value by an atomic exchange; return the old value."""
    if not (_counter(array) and isinstance(index, types.Integer) and isinstance(value, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("xchg", _place(context, builder, array, *arguments[:2]), arguments[2], "acq_rel")

    return types.int64(array, types.intp, types.int64), codegen


@intrinsic
def give_way(typing: Any) -> Any:
    """Yield the CPU to another thread by `sched_yield`, if the system has it."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if hasattr(os, "sched_yield"):
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), codegen


def new_search(first: Any, threads: int, capacity: int) -> tuple[Any, Any, Any, Any]:
    """Return the arrays of a search that starts with the nodes of `first`, uint32[words, n].

    They are the pool, with capacity for `POOL` more nodes; the shared counters, indexed by `LOCK`, `POOLED`, `WORKING`,
    `WAITING` and `GIVEN`; a stack of `capacity` columns and a row of results for each thread.
    """
    words, nodes = first.shape
    pool, control = np.zeros((words, nodes + POOL), np.uint32), np.zeros(GIVEN + 16, np.int64)
    return pool, control, np.zeros((threads, words, capacity), np.uint32), np.zeros((threads, PAD), np.int64)


@compiled
def begin(first: Any, pool: Any, control: Any) -> None:
    """Fill the pool with the columns of `first`, the initial nodes of the search."""
    for word in range(first.shape[0]):
        for i in range(first.shape[1]):
            pool[word, i] = first[word, i]
    control[:] = 0
    control[POOLED] = first.shape[1]


@compiled
def acquire(control: Any) -> None:
    """Acquire the lock of the pool, which is held only while a few nodes are copied."""
    while exchange_shared(control, LOCK, 1) != 0:
        give_way()


@compiled
def release(control: Any) -> None:
    """Release the lock of the pool."""
    store_shared(control, LOCK, 0)


@compiled
def take(pool: Any, control: Any, stack: Any, working: bool) -> Any:
    """Move nodes from the pool to the bottom of an empty stack and return their number; 0 at the end of the search.

    `working` is whether this thread had nodes before: false in its first call.
    """
    waiting = False
    while True:
        acquire(control)
        pooled = load_shared(control, POOLED)
        if pooled > 0:
            # Half of the pool, at most half of the stack, so that nodes are left for other idle threads.
            count = min((pooled + 1) // 2, stack.shape[1] // 2)
            for word in range(stack.shape[0]):
                for i in range(count):
                    stack[word, i] = pool[word, pooled - count + i]
            store_shared(control, POOLED, pooled - count)
            if not working:
                store_shared(control, WORKING, load_shared(control, WORKING) + 1)
            if waiting:
                store_shared(control, WAITING, load_shared(control, WAITING) - 1)
            release(control)
            return count
        if working:
            store_shared(control, WORKING, load_shared(control, WORKING) - 1)
            working = False
        over = load_shared(control, WORKING) == 0
        if not over and not waiting:
            store_shared(control, WAITING, load_shared(control, WAITING) + 1)
            waiting = True
        release(control)
        if over:
            return 0
        while load_shared(control, POOLED) == 0 and load_shared(control, WORKING) > 0:
            give_way()


@compiled
def someone_waits(control: Any) -> Any:
    """Return whether a thread waits for nodes and the pool is empty."""
    return load_shared(control, WAITING) > 0 and load_shared(control, POOLED) == 0


@compiled
def give(pool: Any, control: Any, stack: Any, base: int, top: int) -> Any:
    """Move the lower half of stack[:, base:top] to the pool, limited by its capacity; return the new base."""
    acquire(control)
    pooled = load_shared(control, POOLED)
    count = min((top - base) // 2, pool.shape[1] - pooled)
    for word in range(stack.shape[0]):
        for i in range(count):
            pool[word, pooled + i] = stack[word, base + i]
    store_shared(control, POOLED, pooled + count)
    store_shared(control, GIVEN, load_shared(control, GIVEN) + count)
    release(control)
    return base + count


@compiled
def make_room(stack: Any, base: int, top: int, needed: int) -> Any:
    """Move the columns base:top to the bottom of a stack with room for `needed` more, and return that stack.

    It is the same stack if it is large enough, otherwise a new one of at least twice the size.
    """
    roomy = stack
    if 2 * (top - base) + needed > stack.shape[1]:
        roomy = np.empty((stack.shape[0], 2 * stack.shape[1] + needed), np.uint32)
    for word in range(stack.shape[0]):
        for i in range(top - base):
            roomy[word, i] = stack[word, base + i]
    return roomy
