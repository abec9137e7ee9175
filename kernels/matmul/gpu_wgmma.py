"""C = A·B of 16-bit floats by Hopper's warpgroup tensor-core instructions (sums in float32), in CUDA C++ through CuPy.

Bound: the tensor cores' operations, 4,096 floating-point operations per clock and multiprocessor: 1,024 clocks for
a stage of 128×256×64. A stage is 48 KiB, of which 16 KiB come from the neighbour's copy: 32 bytes per clock out of L2.

Two blocks one below the other are a cluster and compute 256×256 of C. In each, one thread has the bulk copy engine
(TMA) fill a ring of 4 stages: its own 128 rows of A, and half of the 256 columns of B, which go to both blocks. Two
warpgroups multiply, 64×256 sums in 128 registers per thread, with wgmma.mma_async straight from shared memory: A by
rows (K-major), B by rows (N-major, transposed by the instruction). They wait only for the stage before the present one,
then give it back. Registers are moved from the copying warpgroup to the multiplying ones. Sums are rounded and stored
through 4 KiB per warp by the copy engine, which also cuts off what lies outside of C and makes zeros of what lies
outside of A and B. Clusters stay and walk all tiles, in groups of 8 rows of clusters, so that A and B are shared in L2;
the next tile is loaded during the stores of the present one.

Compiled for 9.0a: 168 registers at the launch (then 40 and 232), no spills, 229,440 bytes of dynamic shared memory, no
serialised wgmma. A turn of the multiplying loop is 4 HGMMA.64x256x16 and about 85 others; the copying one is 3 UTMALDG.
Its share of the bound is not measured yet on a GPU.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kernels.device_code import CudaKernel, DeviceKernel
from kernels.matmul.gpu_task import Operands, gpu_task
from kernels.matmul.tensor_map import tensor_map
from profiling.benchmark import Point, Skip, Task
from profiling.cuda import attribute, compute_capability, cupy_stream, library

CAPABILITY = (9, 0)
ARCHITECTURE = "sm_90a"
"""Hopper alone has these instructions; no later card runs code for it."""
ENTRY = "matmul_wgmma"
SOURCE = Path(__file__).with_name("wgmma.cu").read_text(encoding="utf-8")
OPTIONS = {"float16": ("--std=c++17",), "bfloat16": ("--std=c++17", "-DBFLOAT16")}

# As in wgmma.cu, where they are derived.
CLUSTER = 2
CLUSTER_M, TILE_N = 256, 256
BOX_A, BOX_B, BOX_C = 128, 64, 16
"""Rows of 64 elements that one copy moves."""
THREADS = 384
SHARED_BYTES = 229_440


def prepare(point: Point) -> Task:
    """The task of the point's product; Skip for a type or a card without these instructions, or too little memory."""
    dtype = str(point["dtype"])
    if dtype not in OPTIONS:
        raise Skip(f"our kernel multiplies {' and '.join(OPTIONS)}, not {dtype}")
    found = compute_capability()
    if found != CAPABILITY:
        raise Skip(f"wgmma needs compute capability 9.0, no other, and this device has {found[0]}.{found[1]}")
    return gpu_task(point, bind)


def bind(operands: Operands) -> Callable[[int], None]:
    """`run(stream)`, which enqueues the product of the whole, padded arrays."""
    kernel = load(operands.dtype)
    size = operands.padded
    blocks = blocks_of(-(-size.m // CLUSTER_M) * -(-size.n // TILE_N) * size.batch, attribute("MultiProcessorCount"))
    maps = [
        tensor_map(array.data.ptr, array.shape, rows)
        for array, rows in ((operands.a, BOX_A), (operands.b, BOX_B), (operands.c, BOX_C))
    ]
    arguments = (*maps, *(np.int32(extent) for extent in (size.m, size.n, size.k, size.batch)))

    def run(stream: int) -> None:
        with cupy_stream(stream):
            kernel((blocks,), (THREADS,), arguments, shared_mem=SHARED_BYTES)

    return run


def blocks_of(tiles: int, multiprocessors: int) -> int:
    """Blocks to launch for that many tiles of a cluster: whole clusters, a block per multiprocessor, none idle."""
    return CLUSTER * min(tiles, max(1, multiprocessors // CLUSTER))


def load(dtype: str) -> Any:
    """The kernel on the current device. CuPy would compile for 9.0, not 9.0a: it is given the machine code."""
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "matmul.cubin"
        binary.write_bytes(machine_code(dtype))
        kernel = library("cupy").RawModule(path=str(binary)).get_function(ENTRY)
        kernel.max_dynamic_shared_size_bytes = SHARED_BYTES
    return kernel


@cache
def machine_code(dtype: str) -> bytes:
    """The kernel's cubin by NVRTC; RuntimeError with the compiler's own words if it does not compile."""
    nvrtc = library("cuda.bindings.nvrtc")

    def call(function: str, *arguments: Any) -> Any:
        error, *results = getattr(nvrtc, function)(*arguments)
        if int(error) != 0:
            raise RuntimeError(f"{function}: {error.name}")
        return results[0] if results else None

    program = call("nvrtcCreateProgram", SOURCE.encode(), b"wgmma.cu", 0, [], [])
    flags = [option.encode() for option in (f"--gpu-architecture={ARCHITECTURE}", *OPTIONS[dtype])]
    (outcome,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    if int(outcome) != 0:
        log = b" " * call("nvrtcGetProgramLogSize", program)
        call("nvrtcGetProgramLog", program, log)
        raise RuntimeError(f"NVRTC: {log.decode()}")
    code: bytes = b" " * call("nvrtcGetCUBINSize", program)
    call("nvrtcGetCUBIN", program, code)
    return code


def device_code() -> list[DeviceKernel]:
    """One kernel for each type."""
    return [
        CudaKernel(
            f"matmul wgmma {dtype}",
            ENTRY,
            SOURCE,
            options,
            tuned=True,
            unit="128x256x64",
            shared_bytes=SHARED_BYTES,
            capability=CAPABILITY,
            exact=True,
        )
        for dtype, options in OPTIONS.items()
    ]
