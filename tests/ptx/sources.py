"""PTX of the project's kernels, the text that is assembled for a device."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from accelbench import kernels
from accelbench.kernels import report
from accelbench.kernels.lib.gpu import compilation
from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel, NumbaKernel, TritonKernel
from accelbench.kernels.lib.gpu.triton_compiler import compile_triton

Capability = tuple[int, int]
HOPPER: Capability = (9, 0)


@cache
def ptx_of(kernel: DeviceKernel, capability: Capability = HOPPER) -> str:
    """Return the PTX of a kernel for a compute capability; RuntimeError if it does not compile.

    Numba's comes from the linker, which optimises all of a kernel's code together; CUDA C++ is compiled by NVRTC.
    """
    if isinstance(kernel, TritonKernel):
        return str(compile_triton(kernel, capability).asm["ptx"])
    architecture = compilation._architecture(kernel, capability)
    if isinstance(kernel, NumbaKernel):
        return _link(compilation._compile_numba(kernel, architecture, "ltoir"), f"sm_{architecture}")
    return compile_cuda(kernel.source, kernel.options, f"sm_{architecture}")


def numba_ptx(function: Any, signature: Any, capability: Capability = HOPPER) -> str:
    """Return the PTX of a Numba kernel that no `device_code` lists."""
    return ptx_of(NumbaKernel("unlisted", function, signature), capability)


def _link(code: bytes, architecture: str) -> str:
    command = [sys.executable, "-m", "tests.ptx.link", architecture]
    linked = subprocess.run(command, input=code, capture_output=True, cwd=Path(__file__).parents[2])
    if linked.returncode != 0:
        raise RuntimeError(f"nvJitLink: {linked.stderr.decode()}")
    return linked.stdout.decode()


@cache
def compile_cuda(source: str, options: tuple[str, ...] = (), architecture: str = "sm_90a") -> str:
    """Return the PTX that NVRTC makes of CUDA C++; RuntimeError with its messages if it does not compile."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    own = [option for option in options if "gpu-architecture" not in option]
    target = architecture.replace("sm_", "compute_")  # without machine code
    flags = [option.encode() for option in (f"--gpu-architecture={target}", *own)]
    (outcome,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    if outcome != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(f"NVRTC: {log.rstrip(bytes(1)).decode()}")
    text = b" " * nvrtc.nvrtcGetPTXSize(program)[1]
    nvrtc.nvrtcGetPTX(program, text)
    return text.rstrip(b"\0").decode()


def find_kernels(*words: str) -> list[DeviceKernel]:
    """Return the listed kernels whose names have all of these words; KeyError if there is none."""
    found = [kernel for kernel in _listed() if set(words) <= set(kernel.name.split())]
    if not found:
        raise KeyError(" ".join(words))
    return found


@cache
def _listed() -> tuple[DeviceKernel, ...]:
    return tuple(report.device_kernels())


def entry_of(kernel: DeviceKernel) -> str | None:
    """Return the name by which a module's kernel is launched; None for the only one."""
    if isinstance(kernel, TritonKernel):
        return kernel.function
    return kernel.entry if isinstance(kernel, CudaKernel) else None


@cache
def module_of(name: str) -> Any:
    """Return the module whose `device_code` lists the kernel of that exact name; KeyError if none does."""
    for module in report._gpu_modules(kernels):
        if any(kernel.name == name for kernel in module.device_code()):
            return module
    raise KeyError(name)
