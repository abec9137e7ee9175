"""Every GPU kernel compiled without a GPU, for the architectures in use: by NVVM for Numba, by NVRTC for CUDA C++."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import pytest
from numba import cuda, float32, float64, int32, int64, uint32, uint64, void

from kernels.launch import gpu_cupy as cupy_launch
from kernels.launch import gpu_numba as launch
from kernels.matmul import gpu_numba as matmul
from kernels.nqueens import gpu_prefix as nqueens
from kernels.stream import gpu_cupy as cupy_stream
from kernels.stream import gpu_numba as stream

pytestmark = pytest.mark.skipif(
    find_spec("numba_cuda") is None, reason="numba-cuda is not installed (extra dev on Linux has it)"
)

CAPABILITIES = [(8, 0), (9, 0), (10, 0)]
REAL = {"float32": float32, "float64": float64}


def numba_kernels() -> dict[str, tuple[Any, Any]]:
    """Name → Python function and signature, with the types that `prepare` passes."""
    kernels: dict[str, tuple[Any, Any]] = {
        "launch empty": (launch.empty.py_func, void()),
        "launch count": (launch.count.py_func, void(int64[::1])),
        "nqueens search": (
            nqueens.search.py_func,
            void(uint32[::1], uint32[::1], uint32[::1], uint32, uint32, uint64[::1], uint64[::1]),
        ),
    }
    for dtype, real in REAL.items():
        vector, square = real[::1], real[:, ::1]
        kernels[f"matmul {dtype}"] = (matmul.DEFINITIONS[dtype][0], void(square, square, square, int32))
        for op, kernel in stream.ELEMENTWISE.items():
            kernels[f"stream {op} {dtype}"] = (kernel.py_func, void(vector, vector, real, vector))
        partial, total = stream.DOT_FUNCTIONS[dtype]
        kernels[f"stream dot partial {dtype}"] = (partial, void(vector, vector, vector))
        kernels[f"stream dot total {dtype}"] = (total, void(vector, vector))
    return kernels


@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
@pytest.mark.parametrize("name", numba_kernels())
def test_numba_kernel_compiles_and_keeps_its_arrays_in_registers(name: str, capability: tuple[int, int]) -> None:
    function, signature = numba_kernels()[name]
    ptx, _ = cuda.compile_ptx(function, signature, cc=capability)
    assert f".target sm_{capability[0]}{capability[1]}" in ptx
    assert ".entry" in ptx
    assert not re.search(r"\.local\b", ptx), "an array went to local memory"


def test_matmul_uses_fused_multiply_adds_of_its_own_precision() -> None:
    for dtype, count, instruction in (("float32", 64, "fma.rn.f32"), ("float64", 16, "fma.rn.f64")):
        ptx, _ = cuda.compile_ptx(*numba_kernels()[f"matmul {dtype}"], cc=(9, 0))
        assert ptx.count(instruction) >= count
    ptx, _ = cuda.compile_ptx(*numba_kernels()["matmul float32"], cc=(9, 0))
    assert ".f64" not in ptx, "float32 arithmetic was widened"


def compile_cuda_cpp(source: str, options: tuple[str, ...], capability: tuple[int, int]) -> str:
    """The PTX that NVRTC makes of the source; fails with its log."""
    from cuda.bindings import nvrtc

    def call(function: Any, *args: Any) -> Any:
        error, *results = function(*args)
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(str(error))
        return results[0] if results else None

    program = call(nvrtc.nvrtcCreateProgram, source.encode(), b"kernels.cu", 0, [], [])
    flags = [f"--gpu-architecture=compute_{capability[0]}{capability[1]}".encode(), *(o.encode() for o in options)]
    (outcome,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    log = b" " * call(nvrtc.nvrtcGetProgramLogSize, program)
    call(nvrtc.nvrtcGetProgramLog, program, log)
    assert outcome == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()
    ptx = b" " * call(nvrtc.nvrtcGetPTXSize, program)
    call(nvrtc.nvrtcGetPTX, program, ptx)
    return ptx.decode()


@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
@pytest.mark.parametrize(("dtype", "access"), [("float32", r"v4\.[fb]32"), ("float64", r"v2\.[fb]64")])
def test_stream_in_cuda_cpp_reads_and_writes_sixteen_bytes_at_once(
    capability: tuple[int, int], dtype: str, access: str
) -> None:
    ptx = compile_cuda_cpp(cupy_stream.SOURCE, cupy_stream.options(dtype), capability)
    assert len(re.findall(r"\.entry (copy|mul|add|triad|dot_partial|dot_total)\b", ptx)) == 6
    assert re.search(rf"ld\.global(\.nc)?(\.\w+)*\.{access}", ptx)
    assert re.search(rf"st\.global(\.\w+)*\.{access}", ptx)
    assert not re.search(r"\.local\b", ptx)


@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
def test_launch_kernels_in_cuda_cpp_compile(capability: tuple[int, int]) -> None:
    ptx = compile_cuda_cpp(cupy_launch.SOURCE, (), capability)
    assert re.findall(r"\.entry (\w+)", ptx) == ["empty", "count"]
