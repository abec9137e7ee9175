"""Task of the GPU implementations of attention: Q, K and V on the device, and the check of O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accelbench.kernels.attention.accuracy import verify_attention
from accelbench.kernels.attention.shape import Attention
from accelbench.kernels.lib.formats import FORMATS, draw, from_storage, poison_byte
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices.cupy_device import cupy_library, require_device_memory, synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification


@dataclass(frozen=True)
class AttentionOperands:
    """Q, K, V and O in device memory: contiguous CuPy arrays of shape `size.shape`, type `FORMATS[dtype].storage`."""

    size: Attention
    dtype: str
    q: Any
    k: Any
    v: Any
    o: Any


def gpu_task(
    point: Point,
    bind: Callable[[AttentionOperands], Callable[[int], object]],
    additional: Callable[[Attention], int] = lambda _: 0,
    read: Callable[[Any], Any] | None = None,
) -> Task:
    """Return the task of the attention of random normal Q, K and V by `run(stream)`, which `bind` returns.

    `additional(size)` is the number of additional bytes. Skip if all arrays need more than half of the free device
    memory. The caller checks the required compute capability before this call allocates memory. If `run` returns a
    new array instead of writing O, `read` copies that array to the host in storage form.
    """
    cupy = cupy_library()
    size, dtype = Attention.of(point), str(point["dtype"])
    kind = FORMATS[dtype]
    work = size.work(kind.itemsize)
    require_device_memory(int(work.bytes or 0) + additional(size))
    rng = point.rng()
    arrays = q, k, v, o = tuple(cupy.empty(size.shape, kind.storage) for _ in range(4))
    run_on = bind(AttentionOperands(size, dtype, *arrays))

    def load() -> list[Any]:
        drawn = [draw(rng, size.shape, dtype) for _ in range(3)]
        for array, numbers in zip((q, k, v), drawn, strict=True):
            array.set(numbers)
        return drawn

    loaded = [load()]  # host copies for the first check, which releases them

    def run(stream: int = 0) -> None:
        run_on(stream)

    def verify() -> Verification:
        # A new result array may reuse memory that still holds the first call's result: check it on fresh inputs.
        drawn = loaded.pop() if loaded and read is None else load()
        o.data.memset(poison_byte(kind.result), o.nbytes)
        synchronize()
        made = run_on(0)
        synchronize()
        answer = o.get() if read is None else read(made)
        wide_q, wide_k, wide_v, found = (from_storage(array, dtype) for array in (*drawn, answer))
        return verify_attention(wide_q, wide_k, wide_v, found, dtype, size.causal, rng)

    return Task(run=run, verify=verify, work=work)
