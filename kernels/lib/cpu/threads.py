"""Compilation of Numba kernels for CPUs, their number of threads, and atomic operations.

Kernels are compiled anew in every run instead of being cached next to the source: such a cache fails in a read-only
checkout without a home directory, and a change of a function in another file does not invalidate it. Within a run,
later repetitions of a point load the code that the first one compiled, because compiling takes longer than measuring.
So a kernel is a function of its module: Numba cannot load a nested function that calls another kernel.
"""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir
from numba import get_num_threads, njit, types
from numba.extending import intrinsic

KEEP = "ACCELBENCH_KEEPS_CODE" in os.environ
"""Whether compiled code is cached: the runner sets this variable together with NUMBA_CACHE_DIR, which is then a
directory for this point. A user may set NUMBA_CACHE_DIR alone for other programs."""
compiled = njit(nogil=True, error_model="numpy", cache=KEEP)
"""Decorator of kernels for one thread. They release the GIL, so that sampling threads can run."""
parallel = njit(nogil=True, error_model="numpy", parallel=True, cache=KEEP)
"""Decorator of kernels that distribute a `prange` over all threads."""


def thread_count() -> int:
    """Return the number of threads of a parallel kernel: the CPUs available to this process, or NUMBA_NUM_THREADS."""
    return int(get_num_threads())


@intrinsic
def take_next(typing: Any, counter: Any) -> Any:
    """Add 1 to counter[0] of an int64 array atomically and return the old value: the next task.

    This dynamic scheduling balances tasks of any cost, with any threading layer of Numba.
    """
    if not (isinstance(counter, types.Array) and counter.dtype == types.int64 and counter.layout == "C"):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(counter)(context, builder, arguments[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "seq_cst")

    return types.int64(counter), codegen


@intrinsic
def atomic_add(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Add to an element of an int64 array atomically."""
    if not (isinstance(array, types.Array) and array.dtype == types.int64 and array.ndim == 1 and array.layout == "C"):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        builder.atomic_rmw("add", builder.gep(data, [arguments[1]]), arguments[2], "seq_cst")
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), codegen
