"""Compilation, linking and loading of machine code that CuPy's own compiler cannot make."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.nvidia.cuda import library
from accelbench.profiling.machine.packages import install_extra


def compile_cuda(source: str, options: Sequence[str], output: Literal["CUBIN", "PTX"]) -> bytes:
    """Return the machine code or PTX of CUDA C++ by NVRTC; RuntimeError with the compiler's message if it fails."""
    nvrtc = library("cuda.bindings.nvrtc")

    def call(function: str, *arguments: Any) -> Any:
        error, *results = getattr(nvrtc, function)(*arguments)
        if int(error) != 0:
            raise RuntimeError(f"{function}: {error.name}")
        return results[0] if results else None

    program = call("nvrtcCreateProgram", source.encode(), b"kernels.cu", 0, [], [])
    flags = [option.encode() for option in options]
    (outcome,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    if int(outcome) != 0:
        log = b" " * call("nvrtcGetProgramLogSize", program)
        call("nvrtcGetProgramLog", program, log)
        raise RuntimeError(f"NVRTC: {log.decode()}")
    code: bytes = b" " * call(f"nvrtcGet{output}Size", program)
    call(f"nvrtcGet{output}", program, code)
    return code


def link_device_runtime(ptx: bytes, architecture: str) -> bytes:
    """Link PTX with launches by kernels to the CUDA device runtime by nvJitLink, and return the cubin.

    The PTX is relocatable, and `architecture` is `sm_90`. Skip if the device runtime is not installed; RuntimeError
    with the linker's message if linking fails.
    """
    nvjitlink = library("cuda.bindings.nvjitlink")
    runtime = device_runtime()
    handle = nvjitlink.create(1, [f"-arch={architecture}"])
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, ptx, len(ptx), "kernels")
        nvjitlink.add_file(handle, nvjitlink.InputType.LIBRARY, runtime)
        nvjitlink.complete(handle)
        binary = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, binary)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        raise RuntimeError(f"nvJitLink: {log.decode() or error}") from error
    finally:
        nvjitlink.destroy(handle)
    return bytes(binary)


def device_runtime() -> str:
    """Return the path of the static library of the CUDA device runtime; Skip with the install command without it."""
    pathfinder = library("cuda.pathfinder")
    try:
        return str(pathfinder.find_static_lib("cudadevrt"))
    except pathfinder.StaticLibNotFoundError as error:
        install = f"{install_extra('gpu')} (CUDA 12) or {install_extra('gpu13')} (CUDA 13)"
        raise Skip(
            f"libcudadevrt.a, the CUDA device runtime, is not installed: {install}, or set CUDA_HOME to a CUDA toolkit"
        ) from error


def load_machine_code(binary: bytes) -> Any:
    """Return CuPy's module of a cubin on the current device; CuPy loads cubins from files only."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.cubin"
        path.write_bytes(binary)
        return library("cupy").RawModule(path=str(path))
