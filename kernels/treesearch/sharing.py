"""Work sharing among the CPU threads of a tree search: busy threads give the half nearest the root to idle ones.

A pending node is a column of a uint32[words, capacity] array, so that one word of neighbouring nodes is one vector. A
thread searches depth first from a stack of such columns, `stack[:, base:top]`, and only looks at two shared numbers as
it goes. When another thread has run out of nodes and the shared pool is empty, it moves its lower half, the largest
subtrees, to the pool. The search is over when the pool is empty and no thread has nodes of its own.

Only threads that have begun hold nodes, so none ever waits for one that has not: this works with every threading layer
of Numba, which may run the iterations of a `prange` one after the other, and with more threads than CPUs.
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
"""Places in the array `control`, 128 bytes apart, so that no two of them share a cache line or a pair of lines: the
lock of the pool, the nodes in it, threads with nodes of their own, threads without, and nodes given away in all."""
POOL = 4096
"""Nodes that the pool holds, beyond those that it is filled with at first."""


def _counter(array: types.Type) -> bool:
    return isinstance(array, types.Array) and array.dtype == types.int64 and array.layout == "C"


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


@intrinsic
def load_shared(typing: Any, array: Any, index: Any) -> Any:
    """Return array[index] of an int64 array as the other threads have left it, and with all that they wrote before."""
    if not (_counter(array) and isinstance(index, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_place(context, builder, array, *arguments), "acquire", 8)

    return types.int64(array, types.intp), codegen


@intrinsic
def store_shared(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Do array[index] = value, seen by the other threads after all that this one wrote before."""
    if not (_counter(array) and isinstance(index, types.Integer) and isinstance(value, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[2], _place(context, builder, array, *arguments[:2]), "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), codegen


@intrinsic
def exchange_shared(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Do array[index] = value in one indivisible step; return what it was."""
    if not (_counter(array) and isinstance(index, types.Integer) and isinstance(value, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("xchg", _place(context, builder, array, *arguments[:2]), arguments[2], "acq_rel")

    return types.int64(array, types.intp, types.int64), codegen


@intrinsic
def give_way(typing: Any) -> Any:
    """Let another thread have the CPU: `sched_yield`, where the system has it."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if hasattr(os, "sched_yield"):
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), codegen


def new_control() -> Any:
    """Return the shared numbers of one search; see `LOCK` and its neighbours."""
    return np.zeros(GIVEN + 16, np.int64)


def new_pool(first: Any) -> Any:
    """Return a pool that can hold the nodes of `first`, uint32[words, n], and `POOL` more."""
    return np.zeros((first.shape[0], first.shape[1] + POOL), np.uint32)


@compiled
def begin(first: Any, pool: Any, control: Any) -> None:
    """Fill the pool with the columns of `first`: the nodes from which the search starts."""
    for word in range(first.shape[0]):
        for i in range(first.shape[1]):
            pool[word, i] = first[word, i]
    control[:] = 0
    control[POOLED] = first.shape[1]


@compiled
def acquire(control: Any) -> None:
    """Wait for the lock of the pool, which is held for the copying of a few nodes at most."""
    while exchange_shared(control, LOCK, 1) != 0:
        give_way()


@compiled
def release(control: Any) -> None:
    """Give the lock back."""
    store_shared(control, LOCK, 0)


@compiled
def take(pool: Any, control: Any, stack: Any, working: bool) -> Any:
    """Move nodes from the pool to the bottom of an empty stack and return how many; 0 when the search is over.

    `working` says whether this thread had nodes before: false at its first call.
    """
    waiting = False
    while True:
        acquire(control)
        pooled = load_shared(control, POOLED)
        if pooled > 0:
            # Half of them, at most half of the stack: the next thread that has run out finds some too.
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
    """Return whether a thread without nodes finds none in the pool."""
    return load_shared(control, WAITING) > 0 and load_shared(control, POOLED) == 0


@compiled
def give(pool: Any, control: Any, stack: Any, base: int, top: int) -> Any:
    """Move the lower half of stack[:, base:top] to the pool, as far as it holds it; returns the new base."""
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
    """Return a stack with the columns base:top of this one at its bottom, and room for `needed` above them.

    It is this stack if that is large enough, else a new one of twice the size.
    """
    roomy = stack
    if 2 * (top - base) + needed > stack.shape[1]:
        roomy = np.empty((stack.shape[0], 2 * stack.shape[1] + needed), np.uint32)
    for word in range(stack.shape[0]):
        for i in range(top - base):
            roomy[word, i] = stack[word, base + i]
    return roomy
