"""copy by the vendor's device-to-device copy, `cudaMemcpyAsync`: the reference of other implementations.

Bound: device memory, through which the array passes twice, once read and once written. Not measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.stream.gpu_task import make_task
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices.cupy_device import cupy_library
from accelbench.profiling.records.point import Point


def device_code() -> list[DeviceKernel]:
    """Return no kernel: the copy is the driver's."""
    return []


def prepare(point: Point) -> Task:
    """See `make_task`; Skip for what is more than a copy."""
    if point["op"] != "copy":
        raise Skip(f"cudaMemcpyAsync copies, and {point['op']} needs arithmetic")
    runtime = cupy_library().cuda.runtime

    def bind(x: Any, y: Any, sums: Any, out: Any) -> Callable[[int], None]:
        destination, source = (array.data.ptr for array in (out, x))

        def run(stream: int = 0) -> None:
            runtime.memcpyAsync(destination, source, x.nbytes, runtime.memcpyDeviceToDevice, stream)

        return run

    return make_task(point, bind)
