"""Errors of the simulated driver, which are those of a real driver."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.rehearsal.conftest import Rehearsed

pytestmark = pytest.mark.slow

Execute = Callable[[str], "subprocess.CompletedProcess[str]"]

KERNELS = """
import cupy
import numpy as np
from cuda.bindings import driver

SOURCE = '''
extern "C" __global__ void __launch_bounds__(256) fill(int* out, int at) {
    extern __shared__ int s[];
    s[threadIdx.x] = at;
    out[at + threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void many_registers(float* x) {
    float v[160];
    for (int i = 0; i < 160; ++i) v[i] = x[i * blockDim.x + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 160; ++i) x[i * blockDim.x + threadIdx.x] = v[i] * v[159 - i];
}'''
module = cupy.RawModule(code=SOURCE)
fill, many = module.get_function("fill"), module.get_function("many_registers")
out = cupy.empty(256, np.int32)

def fails(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except RuntimeError as error:
        return str(error).removeprefix("CUresult: CUDA_ERROR_")
    return "nothing"

def resident(kernel, threads, shared):
    return driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel._function, threads, shared)[1]
"""


@pytest.fixture
def execute(rehearse: Rehearsed) -> Execute:
    """Return a function that runs Python lines after `KERNELS` on the simulated machine."""
    return lambda lines: rehearse("-c", KERNELS + lines)


def printed(process: subprocess.CompletedProcess[str]) -> list[str]:
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


def test_launches_beyond_a_limit_fail(execute: Execute) -> None:
    lines = """
print(fails(fill, (1,), (64,), (out, np.int32(3)), shared_mem=48 << 10), out.get()[3:5])
print(fails(fill, (1,), (64,), (out, np.int32(0)), shared_mem=49 << 10))
fill.max_dynamic_shared_size_bytes = 49 << 10
print(fails(fill, (1,), (64,), (out, np.int32(0)), shared_mem=49 << 10))
print(fails(setattr, fill, "max_dynamic_shared_size_bytes", 228 << 10))
print(fails(fill, (1,), (512,), (out, np.int32(0)), shared_mem=4096))
print(fails(many, (1,), (512,), (cupy.empty(160 * 512, np.float32),)))
print(fails(module.get_function, "missing"))
"""
    assert printed(execute(lines)) == [
        "nothing [3 3]", "INVALID_VALUE", "nothing", "INVALID_VALUE", "INVALID_VALUE", "LAUNCH_OUT_OF_RESOURCES",
        "NOT_FOUND",
    ]  # fmt: skip


def test_occupancy_includes_registers_and_reserved_shared_memory(execute: Execute) -> None:
    lines = """
registers = driver.cuFuncGetAttribute(driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, many._function)[1]
print(128 < registers <= 255, resident(many, 256, 0), resident(many, 512, 0))
print(resident(fill, 256, 0), resident(fill, 256, 113 << 10), resident(fill, 256, (113 << 10) + 1))
"""
    assert printed(execute(lines)) == ["True 1 0", "8 2 1"]


def test_a_kernel_error_is_reported_and_fails_every_later_call(execute: Execute) -> None:
    process = execute("""
print(fails(fill, (1,), (64,), (out, np.int32(200)), shared_mem=4096))
print(fails(fill, (1,), (64,), (out, np.int32(0)), shared_mem=4096))
print(fails(cupy.empty, 4, np.int32), fails(cupy.cuda.runtime.deviceSynchronize))
""")
    assert printed(process) == ["ILLEGAL_ADDRESS"] * 2 + ["ILLEGAL_ADDRESS ILLEGAL_ADDRESS"]
    assert "PTX interpreter: bounds in fill, line " in process.stderr


def test_stream_capture_records_launches_and_rejects_synchronization(execute: Execute) -> None:
    lines = """
stream = cupy.cuda.Stream()
with stream:
    stream.begin_capture()
    out[0] = 9
    fill((1,), (64,), (out, np.int32(0)), shared_mem=4096)
    print(out.get()[0], fails(stream.synchronize), fails(cupy.empty, 4, np.int32))
    graph = stream.end_capture()
graph.launch(stream)
print(out.get()[0])
"""
    assert printed(execute(lines)) == ["9 STREAM_CAPTURE_UNSUPPORTED STREAM_CAPTURE_UNSUPPORTED", "0"]


def test_an_invalid_tensor_map_is_an_error(execute: Execute) -> None:
    lines = """
from accelbench.kernels.matmul.tensor_map import tensor_map
print(tensor_map(1 << 20, (1, 3, 8), 64).ctypes.data % 128)
for address, shape, rows in [(8, (1, 3, 8), 64), (1 << 20, (1, 3, 9), 64), (1 << 20, (1, 3, 8), 257)]:
    print(fails(tensor_map, address, shape, rows).split(":")[0])
"""
    assert printed(execute(lines)) == ["0", *["cuTensorMapEncodeTiled"] * 3]


def test_invalid_ptx_is_an_error(execute: Execute) -> None:
    process = execute("""
load = lambda image: cupy.cuda.checked(driver.cuModuleLoadData(image))
print(fails(load, b"not a module\\0"), fails(load, b".version 8.0\\n.target sm_90\\n.visible .entry k() { frob; }\\0"))
""")
    assert printed(process) == ["INVALID_IMAGE INVALID_PTX"]
