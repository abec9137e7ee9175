"""Sharing work among the threads of a Numba kernel.

Kernels here are compiled anew in every run rather than cached beside the source: such a cache fails in a read-only
checkout without a home directory, and it is not renewed when a function in another file changes. Within a run the later
rounds of a point load what its first round compiled, as compiling the same again takes longer than measuring it. So a
kernel is a function of its module: Numba cannot load one that was made in a function and calls another kernel.
"""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir
from numba import get_num_threads, njit, types
from numba.extending import intrinsic

KEEP = "ACCELBENCH_KEEPS_CODE" in os.environ
"""Whether this worker's NUMBA_CACHE_DIR is a folder of its point in its run. That variable alone does not say so, since
a user may have set it for other programs."""
compiled = njit(nogil=True, error_model="numpy", cache=KEEP)
"""Compiles kernels that one thread runs, without the interpreter's lock: a sampling thread can go on beside them."""
parallel = njit(nogil=True, error_model="numpy", parallel=True, cache=KEEP)
"""Compiles kernels that spread a `prange` over all threads."""


def thread_count() -> int:
    """Return how many threads a parallel kernel uses: the CPUs this process may run on, or NUMBA_NUM_THREADS."""
    return int(get_num_threads())


@intrinsic
def take_next(typing: Any, counter: Any) -> Any:
    """Add 1 to counter[0], an int64 array's, in one indivisible step and return what it was: the next task to do.

    Threads that take tasks this way finish together, whatever the tasks cost and whatever threading layer Numba uses.
    """
    if not (isinstance(counter, types.Array) and counter.dtype == types.int64 and counter.layout == "C"):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(counter)(context, builder, arguments[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "seq_cst")

    return types.int64(counter), codegen


@intrinsic
def atomic_add(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Add to one element of an int64 array in one indivisible step."""
    if not (isinstance(array, types.Array) and array.dtype == types.int64 and array.ndim == 1 and array.layout == "C"):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        builder.atomic_rmw("add", builder.gep(data, [arguments[1]]), arguments[2], "seq_cst")
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), codegen
