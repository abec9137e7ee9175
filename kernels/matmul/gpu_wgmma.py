"""C = A·B of 16-bit floats by Hopper's warpgroup tensor-core instructions (sums in float32), in CUDA C++ through CuPy.

Bound: the tensor cores' operations, 4,096 floating-point operations per clock and multiprocessor: 1,024 clocks for
a stage of 128×256×64. A stage is 48 KiB, of which 16 KiB come from the neighbour's copy: 32 bytes per clock out of L2.

Two blocks one below the other are a cluster and compute 256×256 of C. In each, one thread has the bulk copy engine
(TMA) fill a ring of 4 stages: its own 128 rows of A, and half of the 256 columns of B, which go to both blocks. Two
warpgroups multiply, 64×256 sums in 128 registers per thread, with wgmma.mma_async straight from shared memory: A by
rows (K-major), B by rows (N-major, transposed by the instruction). They wait only for the stage before the present one,
then give it back. Registers are moved from the copying warpgroup to the multiplying ones. Clusters stay and walk all
tiles, in groups of 8 rows of clusters, so that A and B are shared in L2.

When a tile is done, its sums are rounded into 64 more registers, and the multiplications of the next tile's first stage
are issued, which is loaded already. Only then, while the tensor cores are at work, the rounded numbers are stored
through 4 KiB per warp by the copy engine, which also cuts off what lies outside of C and makes zeros of what lies
outside of A and B. So the tensor cores wait for 64 instructions that round, not for 16 writes to shared memory, 4
fences and 2 reads by the copy engine. Two tiles at a time, one for each warpgroup, would hide the rounding too, but
read 24 KiB from L2 and write 40 KiB to shared memory for the 512 clocks of 64×256×64: with the 80 bytes per clock that
wgmma reads there, this is 160 bytes per clock, and shared memory has 128.

Where tiles are fewer than the clusters that run at once, k is split (`split`, `gpu_parts`), and the sums are stored as
they are: 512×8×500,000 has 66 clusters on an H100 instead of 2. A tile of 8 columns costs as much as one of 256, 1,024
clocks for a stage, but its 16 KiB of A take 1,130 clocks of an H100's memory (3.35 TB/s at 1.755 GHz): there a narrower
tile would gain nothing.

Compiled for 9.0a: 168 registers at the launch (then 40 and 232), no spills, 229,440 bytes of dynamic shared memory, no
serialised wgmma. A turn of the multiplying loop is 4 HGMMA.64x256x16 and about 75 others; the copying one is 3 UTMALDG.
Its share of the bound is not measured yet on a GPU.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel
from accelbench.kernels.lib.gpu.tensor_cores import OPTIONS
from accelbench.kernels.matmul import gpu_parts
from accelbench.kernels.matmul.gpu_task import MatmulOperands, gpu_task
from accelbench.kernels.matmul.shapes import Product
from accelbench.kernels.matmul.split import parts_of, slices_each, workspace_bytes
from accelbench.kernels.matmul.tensor_map import tensor_map
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices.cupy_device import cupy_stream
from accelbench.profiling.machine.nvidia.cuda import attribute, compute_capability, library
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

CAPABILITY = (9, 0)
ARCHITECTURE = "sm_90a"
"""Hopper alone has these instructions; no later card runs code for it."""
ENTRY = "matmul_wgmma"
SOURCE = gpu_parts.SOURCE + Path(__file__).with_name("wgmma.cu").read_text(encoding="utf-8")

# These are as in wgmma.cu, where they are derived.
CLUSTER = 2
CLUSTER_M, TILE_N, TILE_K = 256, 256, 64
BOX_A, BOX_B, BOX_C = 128, 64, 16
"""Rows of 64 elements that one copy moves."""
THREADS = 384
SHARED_BYTES = 229_440


def prepare(point: Point) -> Task:
    """Return the point's task; Skip for a type or a card without these instructions, or too little memory."""
    dtype = str(point["dtype"])
    if dtype not in OPTIONS:
        raise Skip(f"our kernel multiplies {' and '.join(OPTIONS)}, not {dtype}")
    found = compute_capability()
    if found != CAPABILITY:
        raise Skip(f"wgmma needs compute capability 9.0, no other, and this device has {found[0]}.{found[1]}")
    return gpu_task(point, bind, workspace=workspace)


def parts_for(size: Product) -> int:
    """Return into how many parts k is split on the current device."""
    at_once = attribute("MultiProcessorCount") // CLUSTER
    return parts_of(tiles(size), -(-size.k // TILE_K), at_once, gpu_parts.FEWEST_K // TILE_K)


def workspace(size: Product) -> int:
    """Return the bytes of the parts' sums."""
    return workspace_bytes(parts_for(size), size.batch * size.m * size.n, gpu_parts.SUM_BYTES)


def bind(operands: MatmulOperands) -> Callable[[int], None]:
    """Return `run(stream)`, which enqueues the product of the whole, padded arrays."""
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
    """Return how many tiles of a cluster a product has."""
    return -(-size.m // CLUSTER_M) * -(-size.n // TILE_N) * size.batch


def blocks_of(work: int, multiprocessors: int) -> int:
    """Return the blocks to launch for so many tiles or parts: whole clusters, a block per multiprocessor, none idle."""
    return CLUSTER * min(work, max(1, multiprocessors // CLUSTER))


def load(options: tuple[str, ...]) -> tuple[Any, Any]:
    """Return the product's and the adding kernel on the current device.

    CuPy would compile for 9.0, not 9.0a: it is given the machine code, in a file that it reads when asked for a kernel.
    """
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "matmul.cubin"
        binary.write_bytes(machine_code(options))
        module = library("cupy").RawModule(path=str(binary))
        kernel, add = (module.get_function(name) for name in (ENTRY, gpu_parts.ENTRY))
    kernel.max_dynamic_shared_size_bytes = SHARED_BYTES
    return kernel, add


@cache
def machine_code(options: tuple[str, ...]) -> bytes:
    """Return the kernels' cubin by NVRTC; RuntimeError with the compiler's own words if they do not compile."""
    nvrtc = library("cuda.bindings.nvrtc")

    def call(function: str, *arguments: Any) -> Any:
        error, *results = getattr(nvrtc, function)(*arguments)
        if int(error) != 0:
            raise RuntimeError(f"{function}: {error.name}")
        return results[0] if results else None

    program = call("nvrtcCreateProgram", SOURCE.encode(), b"wgmma.cu", 0, [], [])
    flags = [option.encode() for option in (f"--gpu-architecture={ARCHITECTURE}", *options)]
    (outcome,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    if int(outcome) != 0:
        log = b" " * call("nvrtcGetProgramLogSize", program)
        call("nvrtcGetProgramLog", program, log)
        raise RuntimeError(f"NVRTC: {log.decode()}")
    code: bytes = b" " * call("nvrtcGetCUBINSize", program)
    call("nvrtcGetCUBIN", program, code)
    return code


def device_code() -> list[DeviceKernel]:
    """Return the kernels: for each type one, and one that multiplies parts of k."""
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
