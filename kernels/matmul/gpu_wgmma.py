"""C = A·B of float16 or bfloat16 by Hopper's wgmma with float32 sums, in CUDA C++ through CuPy.

Bound: tensor-core FLOP, 4,096 per clock and multiprocessor: 1,024 clocks for a stage of 128×256×64. A stage is 48 KiB,
of which the other block of the cluster multicasts 16 KiB: 32 bytes per clock from L2.

A cluster of two blocks computes 256×256 of C, each block 128 rows. In each block one producer thread fills a ring of 4
stages by the bulk copy engine (TMA): the block's 128 rows of A, and half of the 256 columns of B, which is multicast to
both blocks. Two consumer warpgroups execute wgmma.mma_async with operands in shared memory: A by rows (K-major), B by
rows (N-major, transposed by the instruction). Each has 64×256 sums, 128 registers per thread. After issuing a stage
they wait only for the previous stage and release it. The producer warpgroup gives registers to the consumers
(setmaxnreg). Clusters are persistent and process all tiles, in groups of 8 rows of clusters, so that A and B are shared
in L2.

At the end of a tile its sums are rounded into 64 additional registers, and the wgmma of the next tile's first stage,
which is already loaded, are issued. The rounded results are stored while the tensor cores work, through 4 KiB per warp
and by TMA, which also omits elements outside of C and fills elements outside of A and B with zeros. So the tensor cores
wait for 64 rounding instructions only, and not for 16 writes to shared memory, 4 fences and 2 TMA reads. One tile per
warpgroup would hide the rounding as well. But the 512 clocks of 64×256×64 would then read 24 KiB from L2 and write 40
KiB to shared memory; with the 80 bytes per clock that wgmma reads this is 160 bytes per clock, above the 128 of shared
memory.

If there are fewer tiles than resident clusters, k is split (`split`, `gpu_parts`), and the sums are stored unrounded:
512×8×500,000 has 66 clusters on an H100 instead of 2. A tile of 8 columns takes as long as one of 256, 1,024 clocks per
stage; but its 16 KiB of A take 1,130 clocks of an H100's memory bandwidth (3.35 TB/s at 1.755 GHz), so a narrower tile
would not be faster.

Compiled for 9.0a: 168 registers at launch (then 40 and 232), no spills, 229,440 bytes of dynamic shared memory, no
serialised wgmma. One iteration of the consumer loop has 4 HGMMA.64x256x16 and about 75 other instructions; one of the
producer loop has 3 UTMALDG. On an H100 SXM in bfloat16 (n = 8,192): 101 % of cuBLAS, 71 % of the peak at the
power limit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel
from accelbench.kernels.lib.gpu.machine_code import compile_cuda, load_machine_code
from accelbench.kernels.lib.gpu.tensor_cores import OPTIONS
from accelbench.kernels.matmul import gpu_parts
from accelbench.kernels.matmul.gpu_task import MatmulOperands, gpu_task
from accelbench.kernels.matmul.shapes import Product
from accelbench.kernels.matmul.split import parts_of, slices_each, workspace_bytes
from accelbench.kernels.matmul.tensor_map import tensor_map
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices.cupy_device import cupy_stream
from accelbench.profiling.machine.nvidia.cuda import attribute, compute_capability
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

CAPABILITY = (9, 0)
ARCHITECTURE = "sm_90a"
"""Architecture of the code: only Hopper has these instructions, and later GPUs do not run code for it."""
ENTRY = "matmul_wgmma"
SOURCE = gpu_parts.SOURCE + Path(__file__).with_name("wgmma.cu").read_text(encoding="utf-8")

# These constants must agree with wgmma.cu.
CLUSTER = 2
CLUSTER_M, TILE_N, TILE_K = 256, 256, 64
BOX_A, BOX_B, BOX_C = 128, 64, 16
"""Rows of 64 elements in one copy of A, B and C."""
THREADS = 384
SHARED_BYTES = 229_440


def prepare(point: Point) -> Task:
    """Return the point's task; Skip for an unsupported type or device, or too little memory."""
    dtype = str(point["dtype"])
    if dtype not in OPTIONS:
        raise Skip(f"the wgmma kernel supports {' and '.join(OPTIONS)}, not {dtype}")
    found = compute_capability()
    if found != CAPABILITY:
        raise Skip(f"wgmma requires compute capability 9.0 exactly; this device has {found[0]}.{found[1]}")
    return gpu_task(point, bind, workspace=workspace)


def parts_for(size: Product) -> int:
    """Return the number of parts of k on the current device."""
    at_once = attribute("MultiProcessorCount") // CLUSTER
    return parts_of(tiles(size), -(-size.k // TILE_K), at_once, gpu_parts.FEWEST_K // TILE_K)


def workspace(size: Product) -> int:
    """Return the bytes of the partial sums."""
    return workspace_bytes(parts_for(size), size.batch * size.m * size.n, gpu_parts.SUM_BYTES)


def bind(operands: MatmulOperands) -> Callable[[int], None]:
    """Return `run(stream)`, which enqueues the product of the padded arrays."""
    size = operands.padded
    parts = parts_for(size)
    kernel, adding = load(gpu_parts.options(operands.dtype, parts))
    add = gpu_parts.adder(adding, operands, parts)
    blocks = blocks_of(tiles(size) * parts, attribute("MultiProcessorCount"))
    maps = [
        tensor_map(array.data.ptr, array.shape, rows)
        for array, rows in ((operands.a, BOX_A), (operands.b, BOX_B), (operands.c, BOX_C))
    ]
    depth = slices_each(-(-size.k // TILE_K), parts) * TILE_K
    sizes = (np.int32(extent) for extent in (size.m, size.n, size.k, size.batch, depth))
    arguments = (*maps, operands.workspace, *sizes)

    def run(stream: int) -> None:
        with cupy_stream(stream):
            kernel((blocks,), (THREADS,), arguments, shared_mem=SHARED_BYTES)
            add()

    return run


def tiles(size: Product) -> int:
    """Return the number of cluster tiles of a product."""
    return -(-size.m // CLUSTER_M) * -(-size.n // TILE_N) * size.batch


def blocks_of(work: int, multiprocessors: int) -> int:
    """Return the grid size: complete clusters, at most `work` of them and one block per multiprocessor."""
    return CLUSTER * min(work, max(1, multiprocessors // CLUSTER))


def load(options: tuple[str, ...]) -> tuple[Any, Any]:
    """Return the kernels of the product and of the addition on the current device.

    CuPy would compile for 9.0 instead of 9.0a, so it loads machine code compiled here.
    """
    module = load_machine_code(machine_code(options))
    kernel, add = (module.get_function(name) for name in (ENTRY, gpu_parts.ENTRY))
    kernel.max_dynamic_shared_size_bytes = SHARED_BYTES
    return kernel, add


@cache
def machine_code(options: tuple[str, ...]) -> bytes:
    """Return the cubin of the kernels by NVRTC; raise RuntimeError with the compiler's message if it fails."""
    return compile_cuda(SOURCE, (f"--gpu-architecture={ARCHITECTURE}", *options), "CUBIN")


def device_code() -> list[DeviceKernel]:
    """Return the kernels: for each type one for all of k, and one for a part of k."""
    return [
        CudaKernel(
            " ".join(("matmul wgmma", dtype, *gpu_parts.words(parts))),
            ENTRY,
            SOURCE,
            gpu_parts.options(dtype, parts),
            tuned=True,
            unit=f"{CLUSTER_M // CLUSTER}x{TILE_N}x{TILE_K}",
            shared_bytes=SHARED_BYTES,
            capability=CAPABILITY,
            exact=True,
        )
        for dtype in OPTIONS
        for parts in (1, 2)
    ]
