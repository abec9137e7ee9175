"""Attention by the tensor cores of each warp (mma.sync), in CUDA C++ through CuPy: the scores never leave registers.

Dao, "FlashAttention-2", 2023. Bound: the tensor cores' operations. An A100 does 1,024 multiply-adds per clock and
multiprocessor: for heads of 128, a warp's turn of 32 keys is 128 multiplications of 16×8×16, 256 clocks. Its operands
are 24 KiB of shared memory, 192 clocks at 128 bytes. The softmax is the rest: 1,024 exponentials at 16 per clock, and
130 multiplications to rescale, take 100 clocks of other units, which the other warps leave to it while they multiply.
On Hopper mma.sync reaches only a part of the tensor cores' rate (`accelbench.kernels.matmul.gpu_wgmma`).

A block of 4 warps has 128 queries, each warp 32 with their output in registers, and two blocks share a multiprocessor.
Keys and values have one place each in shared memory, filled by cp.async: values arrive while the scores are computed,
the next keys while the values are multiplied. Weights are rounded to 16 bits in the registers that the scores leave
them in, which is where the second product wants them. Maxima are shared by four lanes, sums once at the end. Blocks of
keys that the mask does not touch are not masked, those behind all queries are left out.

Compiled for 8.0, 9.0 and 10.0: 232 to 255 registers, no spills; 32 KiB of dynamic shared memory for heads of 64, 48 KiB
for 128. A turn is 128 HMMA.16816 of 640 to 980 instructions. Its share of the bound is not measured yet on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from accelbench.kernels.attention.gpu_task import AttentionOperands, gpu_task
from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel
from accelbench.kernels.lib.gpu.tensor_cores import HALF, OPTIONS, WARP
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices.cupy_device import cupy_stream
from accelbench.profiling.machine.nvidia.cuda import library, require_compute_capability
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

CAPABILITY = (8, 0)
ENTRY = "attention_mma"
SOURCE = HALF + WARP + Path(__file__).with_name("mma.cu").read_text(encoding="utf-8")
HEADS = (64, 128)
"""The dimensions of a head that the kernel is compiled for."""
QUERIES, THREADS = 128, 128
"""The queries of a block, and its threads; these and `keys` are as in mma.cu."""


def keys(head: int) -> int:
    """Return the keys of a turn."""
    return 4096 // head


def shared_bytes(head: int) -> int:
    """Return the shared memory of a block: its queries, and a turn's keys and values."""
    return (QUERIES + 2 * keys(head)) * head * 2


def options(dtype: str, head: int) -> tuple[str, ...]:
    """Return the compiler's options for a type and a dimension of a head."""
    return (*OPTIONS[dtype], f"-DHEAD={head}")


def prepare(point: Point) -> Task:
    """Return the point's task; Skip for heads or a card that the kernel is not made for, or too little memory."""
    if point["head"] not in HEADS:
        raise Skip(f"our kernel is made for heads of {' and '.join(map(str, HEADS))} dimensions, not {point['head']}")
    require_compute_capability(CAPABILITY, f"mma.sync with {point['dtype']}")
    return gpu_task(point, bind)


def bind(operands: AttentionOperands) -> Callable[[int], None]:
    """Return `run(stream)`, which enqueues the attention."""
    size = operands.size
    module = library("cupy").RawModule(code=SOURCE, options=options(operands.dtype, size.head))
    kernel = module.get_function(ENTRY)
    kernel.max_dynamic_shared_size_bytes = shared_bytes(size.head)
    blocks = size.heads * -(-size.sequence // QUERIES)
    scale = np.float32(math.log2(math.e) / math.sqrt(size.head))
    arrays = operands.q, operands.k, operands.v, operands.o
    arguments = (*arrays, np.int32(size.sequence), scale, np.int32(size.causal))

    def run(stream: int) -> None:
        with cupy_stream(stream):
            kernel((blocks,), (THREADS,), arguments, shared_mem=shared_bytes(size.head))

    return run


def device_code() -> list[DeviceKernel]:
    """Return the kernels: one for each type and dimension of a head."""
    return [
        CudaKernel(
            f"attention mma {dtype} {head}",
            ENTRY,
            SOURCE,
            options(dtype, head),
            tuned=True,
            unit=f"{QUERIES}x{keys(head)}",
            shared_bytes=shared_bytes(head),
            capability=CAPABILITY,
        )
        for dtype in OPTIONS
        for head in HEADS
    ]
