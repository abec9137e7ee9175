"""BabelStream's copy by `cudaMemcpyAsync` from device to device; reference for other implementations.

Bound: device memory; the array is read once and written once. On an H100 SXM 3.02 TB/s,
90 % of the peak.
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
    """Return an empty list: the copy is a kernel of the driver."""
    return []


def prepare(point: Point) -> Task:
    """See `make_task`; Skip for operations other than copy."""
    if point["op"] != "copy":
        raise Skip(f"cudaMemcpyAsync supports op=copy only, not {point['op']}")
    runtime = cupy_library().cuda.runtime

    def bind(x: Any, y: Any, sums: Any, out: Any) -> Callable[[int], None]:
        destination, source = (array.data.ptr for array in (out, x))

        def run(stream: int = 0) -> None:
            runtime.memcpyAsync(destination, source, x.nbytes, runtime.memcpyDeviceToDevice, stream)

        return run

    return make_task(point, bind)
