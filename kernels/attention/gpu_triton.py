"""Attention in Triton, as its users write it (FlashAttention-2): a program per block of queries, `tl.dot` twice.

Algorithm: Dao, "FlashAttention-2", 2023. Bound: tensor-core FLOP. Triton maps `tl.dot` to mma.sync on compute
capability 8 and 12, to wgmma on 9.0 (with the weights in registers) and to tcgen05 on 10.0.

Compiled by Triton 3.9 for d = 128: 216–255 registers for 8.0, 188–197 for 9.0; 96 KiB of shared memory on 8 and 12, 128
KiB on 9.0. No spills, except 72 bytes for 8.0 with a causal mask and, for d = 64, 16 bytes for 10.0 without one, both
outside of the loop. One iteration has 385–389 instructions for 9.0. Not measured yet on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from accelbench.kernels.attention.gpu_task import AttentionOperands, gpu_task
from accelbench.kernels.lib.gpu.device_code import DeviceKernel, TritonKernel
from accelbench.kernels.lib.gpu.triton_compiler import bind_triton, require_triton
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

TYPES = {"float16": "fp16", "bfloat16": "bf16"}
"""Names of the types in Triton."""
HEADS = (64, 128)
"""Supported head dimensions: powers of two, for which tiles and launch have been chosen."""
QUERIES, KEYS = 128, 64
"""Queries of a block, and keys of an iteration: 128×128 sums take 64 registers of each of 256 threads, scores 32."""
WARPS, STAGES = 8, 3


def kernel_for(dtype: str, head: int, causal: bool) -> TritonKernel:
    """Return the kernel for a type, a head dimension and a mask."""
    return TritonKernel(
        " ".join(("attention triton", dtype, str(head), "causal" if causal else "full")),
        "accelbench.kernels.attention.triton_attention",
        "attention_triton",
        arguments=(
            *((name, f"*{TYPES[dtype]}") for name in ("q", "k", "v", "o")),
            ("sequence", "i32"),
            ("scale", "fp32"),
        ),
        constants=(("HEAD", head), ("QUERIES", QUERIES), ("KEYS", KEYS), ("CAUSAL", causal)),
        warps=WARPS,
        stages=STAGES,
        unit=f"{QUERIES}x{KEYS}",
    )


def device_code() -> list[DeviceKernel]:
    """Return one kernel per type, head dimension and mask."""
    return [kernel_for(dtype, head, causal) for dtype in TYPES for head in HEADS for causal in (True, False)]


def prepare(point: Point) -> Task:
    """Return the point's task; Skip without Triton, a supported head dimension or device, or enough memory."""
    if point["head"] not in HEADS:
        raise Skip(f"the Triton kernel supports head dimensions {' and '.join(map(str, HEADS))}, not {point['head']}")
    require_triton()
    return gpu_task(point, bind)


def bind(operands: AttentionOperands) -> Callable[[int], None]:
    """Return `run(stream)`, which enqueues the attention."""
    size = operands.size
    kernel = kernel_for(operands.dtype, size.head, size.causal)
    scale = math.log2(math.e) / math.sqrt(size.head)
    grid = (-(-size.sequence // QUERIES), size.heads)
    return bind_triton(kernel, grid, (operands.q, operands.k, operands.v, operands.o, size.sequence, scale))
