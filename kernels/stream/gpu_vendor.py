"""copy by the vendor's own device-to-device copy, `cudaMemcpyAsync`: what the other copies are compared with.

Bound: device memory, through which the array passes twice, once read and once written. Not measured yet on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.device_code import DeviceKernel
from kernels.stream.gpu_arrays import array_length, draw, verify_elements
from kernels.stream.operations import work_of
from profiling.benchmark import Point, Skip, Task, Verification
from profiling.cuda import library, synchronize


def device_code() -> list[DeviceKernel]:
    """None of our own: the driver's."""
    return []


def prepare(point: Point) -> Task:
    """A random normal array on the device, and one to copy it to; Skip for what is more than a copy."""
    op, dtype = str(point["op"]), str(point["dtype"])
    if op != "copy":
        raise Skip(f"cudaMemcpyAsync copies, and {op} needs arithmetic")
    cupy = library("cupy")
    runtime = cupy.cuda.runtime
    itemsize = np.dtype(dtype).itemsize
    length = array_length(itemsize)
    rng = point.rng()
    x, out = (cupy.empty(length, dtype) for _ in range(2))
    destination, source = out.data.ptr, x.data.ptr

    def run(stream: int = 0) -> None:
        runtime.memcpyAsync(destination, source, length * itemsize, runtime.memcpyDeviceToDevice, stream)

    def load() -> tuple[Any, Any]:
        inputs = draw(rng, length, dtype)
        x.set(inputs[0])
        return inputs

    def verify() -> Verification:
        inputs = load()
        out.fill(np.nan)
        synchronize()
        run()
        synchronize()
        return verify_elements(op, *inputs, out.get())

    load()
    return Task(run=run, verify=verify, work=work_of(op, length, itemsize))
