"""copy, mul, add, triad and dot in Numba-CUDA: one thread walks the array in steps of the whole grid.

Bound: device memory; 2 or 3 arrays pass through it per execution, for at most 2 FLOP per element. Neighbouring
threads touch neighbouring elements, so every access is coalesced. dot sums in registers, then in shared memory, then a
second kernel of one block sums the blocks: no atomics, so the same inputs give the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, float32, float64

from kernels.stream.gpu_arrays import array_length, draw, longest_chain, verify_dot, verify_elements
from kernels.stream.operations import SCALAR, work_of
from profiling.benchmark import Point, Task, Verification
from profiling.cuda import attribute, numba_stream, synchronize

THREADS = 256
BLOCKS_PER_MULTIPROCESSOR = 8
"""8 × 256 threads fill the 2,048 that a multiprocessor holds."""


@cuda.jit
def copy(x: Any, y: Any, s: Any, out: Any) -> None:
    for i in range(cuda.grid(1), out.shape[0], cuda.gridsize(1)):
        out[i] = x[i]


@cuda.jit
def mul(x: Any, y: Any, s: Any, out: Any) -> None:
    for i in range(cuda.grid(1), out.shape[0], cuda.gridsize(1)):
        out[i] = s * x[i]


@cuda.jit
def add(x: Any, y: Any, s: Any, out: Any) -> None:
    for i in range(cuda.grid(1), out.shape[0], cuda.gridsize(1)):
        out[i] = x[i] + y[i]


@cuda.jit
def triad(x: Any, y: Any, s: Any, out: Any) -> None:
    for i in range(cuda.grid(1), out.shape[0], cuda.gridsize(1)):
        out[i] = x[i] + s * y[i]


ELEMENTWISE = {"copy": copy, "mul": mul, "add": add, "triad": triad}


def define_dot(real: Any) -> tuple[Any, Any]:
    """The Python functions of the two kernels of dot: `partial(x, y, sums)` and `total(sums, out)`."""

    def partial(x: Any, y: Any, sums: Any) -> None:
        lanes = cuda.shared.array(THREADS, real)
        thread = cuda.threadIdx.x
        mine = real(0)
        for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
            mine += x[i] * y[i]
        lanes[thread] = mine
        half = THREADS // 2
        while half > 0:
            cuda.syncthreads()
            if thread < half:
                lanes[thread] += lanes[thread + half]
            half //= 2
        if thread == 0:
            sums[cuda.blockIdx.x] = lanes[0]

    def total(sums: Any, out: Any) -> None:
        lanes = cuda.shared.array(THREADS, real)
        thread = cuda.threadIdx.x
        mine = real(0)
        for i in range(thread, sums.shape[0], THREADS):
            mine += sums[i]
        lanes[thread] = mine
        half = THREADS // 2
        while half > 0:
            cuda.syncthreads()
            if thread < half:
                lanes[thread] += lanes[thread + half]
            half //= 2
        if thread == 0:
            out[0] = lanes[0]

    return partial, total


DOT_FUNCTIONS = {"float32": define_dot(float32), "float64": define_dot(float64)}
DOT = {dtype: (cuda.jit(partial), cuda.jit(total)) for dtype, (partial, total) in DOT_FUNCTIONS.items()}


def prepare(point: Point) -> Task:
    """Random normal x and y on the device, and an output; Skip where three arrays do not fit."""
    op, dtype = str(point["op"]), str(point["dtype"])
    itemsize = np.dtype(dtype).itemsize
    length = array_length(itemsize)
    blocks = BLOCKS_PER_MULTIPROCESSOR * attribute("MultiProcessorCount")
    rng, s = point.rng(), np.dtype(dtype).type(SCALAR)
    x, y = (cuda.device_array(length, dtype) for _ in range(2))
    sums = cuda.device_array(blocks, dtype)
    out = cuda.device_array(1 if op == "dot" else length, dtype)

    def run(stream: int = 0) -> None:
        queue = numba_stream(stream)
        if op == "dot":
            partial, total = DOT[dtype]
            partial[blocks, THREADS, queue](x, y, sums)
            total[1, THREADS, queue](sums, out)
        else:
            ELEMENTWISE[op][blocks, THREADS, queue](x, y, s, out)

    def load() -> tuple[Any, Any]:
        inputs = draw(rng, length, dtype)
        x.copy_to_device(inputs[0])
        y.copy_to_device(inputs[1])
        return inputs

    def verify() -> Verification:
        inputs = load()
        sums.copy_to_device(np.full(sums.shape, np.nan, dtype))
        out.copy_to_device(np.full(out.shape, np.nan, dtype))
        run()
        synchronize()
        if op == "dot":
            return verify_dot(*inputs, float(out.copy_to_host()[0]), longest_chain(length, blocks, THREADS))
        return verify_elements(op, *inputs, out.copy_to_host())

    load()
    return Task(run=run, verify=verify, work=work_of(op, length, itemsize))
