"""Attention on tensor cores by warp-level mma.sync, in CUDA C++ through CuPy; scores stay in registers.

Algorithm: Dao, "FlashAttention-2", 2023. Bound: tensor-core FLOP. An A100 multiprocessor does 1,024 multiply-adds per
clock. With d = 128, one iteration of a warp over 32 keys is 128 mma of 16×8×16: 256 clocks of the tensor cores. Its
operands are 24 KiB from shared memory: 192 clocks at 128 bytes per clock. The softmax takes 100 clocks of other units
(1,024 exponentials at 16 per clock, 130 multiplications to rescale), which overlap with the mma of other warps. On
Hopper mma.sync reaches only a part of the tensor-core peak (`accelbench.kernels.matmul.gpu_wgmma`).

A block has 4 warps and 128 queries; each warp keeps the output of 32 queries in registers. Two blocks are resident per
multiprocessor. Shared memory has one buffer for keys and one for values, filled by cp.async: the values are loaded
while the scores are computed, the next keys while the weights are multiplied by the values. The registers of the scores
have the layout that the second product requires, so the weights are rounded to 16 bits in place. The maximum of a row
is reduced over four lanes in each iteration, its sum only at the end. Blocks of keys that need no mask skip it, and
blocks after the last query are not computed.

Compiled for 8.0, 9.0 and 10.0: 232–255 registers, no spills; for 12.0 and d = 128, one register is spilled outside of
the loop. Dynamic shared memory: 32 KiB for d = 64, 48 KiB for d = 128. One iteration has 640–980 instructions, 128 of
them HMMA.16816. On an H100 SXM: 300 TFLOP/s with d = 128, 8,192 keys and a causal mask, 30 % of the peak, which
only wgmma reaches.
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
"""Supported head dimensions."""
QUERIES, THREADS = 128, 128
"""Queries and threads of a block; these and `keys` must agree with mma.cu."""


def keys(head: int) -> int:
    """Return the number of keys per iteration."""
    return 4096 // head


def shared_bytes(head: int) -> int:
    """Return the shared memory of a block in bytes: its queries, and the keys and values of one iteration."""
    return (QUERIES + 2 * keys(head)) * head * 2


def options(dtype: str, head: int) -> tuple[str, ...]:
    """Return the compiler options for a type and a head dimension."""
    return (*OPTIONS[dtype], f"-DHEAD={head}")


def prepare(point: Point) -> Task:
    """Return the point's task; Skip for an unsupported head dimension or device, or too little memory."""
    if point["head"] not in HEADS:
        raise Skip(f"the mma kernel supports head dimensions {' and '.join(map(str, HEADS))}, not {point['head']}")
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
    """Return one kernel per type and head dimension."""
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
