"""Kernels in Triton: compiled for a device or without one, and launched through CuPy.

Triton's compiler needs neither PyTorch nor a GPU. Its launcher, which needs both, is not used: kernels are enqueued by
CuPy on the given stream, so that they are timed and verified as all others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import TritonKernel
from accelbench.kernels.lib.gpu.machine_code import load_machine_code
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.devices.cupy_device import cupy_stream
from accelbench.profiling.machine.nvidia.cuda import compute_capability, require_compute_capability
from accelbench.profiling.machine.packages import install_extra

CAPABILITY = (8, 0)
"""Lowest compute capability that Triton supports."""
WARP = 32
POINTER_BYTES = 16
"""Alignment of all array arguments in bytes, which allows accesses of 16 bytes."""
STATIC_SHARED_BYTES = 48 * 1024
"""Shared memory of a block that needs no request before the launch."""
TYPES = {"fp32": np.float32, "i32": np.int32}
"""NumPy types of scalar arguments by their Triton type."""


def triton() -> ModuleType:
    """Import Triton; Skip with the install command without it, or if its interpreter replaces the compiler."""
    try:
        module = import_module("triton")
    except ImportError as error:
        raise Skip(f"Triton cannot be imported ({error}): {install_extra('triton')}") from error
    if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
        raise Skip("TRITON_INTERPRET is set, and Triton's interpreter is no compiler: unset TRITON_INTERPRET")
    return module


def require_triton() -> None:
    """Skip on a device that Triton does not support, or without Triton."""
    require_compute_capability(CAPABILITY, "Triton")
    triton()


def compile_triton(kernel: TritonKernel, capability: tuple[int, int]) -> Any:
    """Return Triton's compiled kernel: `asm` has its PTX and machine code, `metadata` its shared memory and name."""
    compiler = triton().compiler
    major, minor = capability
    names = [*dict(kernel.arguments), *dict(kernel.constants)]
    pointers = [place for place, (_, kind) in enumerate(kernel.arguments) if kind.startswith("*")]
    source = compiler.ASTSource(
        fn=getattr(import_module(kernel.module), kernel.function),
        signature=dict.fromkeys(names, "constexpr") | dict(kernel.arguments),
        constexprs=dict(kernel.constants),
        attrs={(place,): [["tt.divisibility", POINTER_BYTES]] for place in pointers},
    )
    target = import_module("triton.backends.compiler").GPUTarget("cuda", 10 * major + minor, WARP)
    options = {"num_warps": kernel.warps, "num_stages": kernel.stages, "enable_fp_fusion": True}
    return compiler.compile(source, target=target, options=options)


def hidden_arguments(kernel: TritonKernel, compiled: Any) -> list[Any]:
    """Return the arguments that Triton adds at the end: null pointers to scratch memory of zero bytes.

    Raise RuntimeError if the kernel needs scratch memory.
    """
    for name in ("global_scratch_size", "profile_scratch_size"):
        if getattr(compiled.metadata, name, 0):
            raise RuntimeError(f"{kernel.name}: Triton requires scratch memory ({name}), which is not provided")
    parameters = re.search(r"\.entry \w+\s*\(([^)]*)\)", compiled.asm["ptx"])
    count = parameters[1].count(".param") if parameters else 0
    return [np.uint64(0)] * (count - len(kernel.arguments))


def threads_of(kernel: TritonKernel) -> int:
    """Return the number of threads of a block."""
    return WARP * kernel.warps


def bind_triton(kernel: TritonKernel, grid: tuple[int, ...], arguments: Sequence[Any]) -> Callable[[int], None]:
    """Return `run(stream)`, which enqueues the kernel, compiled for the current device, on a grid of blocks.

    `arguments` are CuPy arrays and numbers, in the order of `kernel.arguments`.
    """
    compiled = compile_triton(kernel, compute_capability())
    function = load_machine_code(compiled.asm["cubin"]).get_function(compiled.metadata.name)
    shared = int(compiled.metadata.shared)
    if shared > STATIC_SHARED_BYTES:
        function.max_dynamic_shared_size_bytes = shared
    kinds = [kind for _, kind in kernel.arguments]
    passed = [
        argument if kind.startswith("*") else TYPES[kind](argument)
        for argument, kind in zip(arguments, kinds, strict=True)
    ]
    everything = (*passed, *hidden_arguments(kernel, compiled))
    block = (threads_of(kernel),)

    def run(stream: int) -> None:
        with cupy_stream(stream):
            function(grid, block, everything, shared_mem=shared)

    return run


def row_block(width: int, most: int) -> int:
    """Return the elements that a program holds of a row: the next power of two, from 128 to `most`."""
    return min(most, max(128, 1 << (width - 1).bit_length()))


def row_warps(block: int) -> int:
    """Return the warps of a program that holds `block` elements: 16 elements per thread, but 4 to 16 warps."""
    return min(16, max(4, block // (16 * WARP)))
