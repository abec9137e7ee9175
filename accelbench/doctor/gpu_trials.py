"""Test programs of the GPU libraries: `python -m accelbench.doctor.gpu_trials NAME`.

A successful trial prints its versions. A failed trial has exit status 1, and its last line of stderr is the error. Each
trial is a process of its own: a CUDA error persists in its process.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

import numpy as np

from accelbench.profiling.machine.environment.software import installed_version

SIZE = 1000
LONGEST = 300
"""Maximum length of a printed error in characters; some errors list all searched paths."""


def main() -> int:
    """Run the trial named in the first argument, and return the exit status."""
    try:
        print(TRIALS[sys.argv[1]]())
    except BaseException as error:  # noqa: BLE001 - any error of a library is the result of its trial
        traceback.print_exc()
        text = " ".join(f"{type(error).__name__}: {error}".split())
        print(text if len(text) <= LONGEST else text[:LONGEST] + " …", file=sys.stderr)
        return 1
    return 0


def try_numba() -> str:
    """Compile and launch a kernel with libNVVM."""
    from accelbench.kernels.lib.gpu.numba_cuda import cuda

    libnvvm = find_libnvvm()

    @cuda.jit  # type: ignore[untyped-decorator, unused-ignore]
    def double(values):  # type: ignore[no-untyped-def]
        index = cuda.grid(1)
        if index < values.size:
            values[index] *= 2

    values = cuda.to_device(np.arange(SIZE, dtype=np.float32))
    double[8, 128](values)
    _require_doubled(values.copy_to_host())
    return f"numba-cuda {installed_version('numba-cuda')}, libNVVM in {libnvvm}"


def find_libnvvm() -> str:
    """Return the path of libNVVM as found by Numba; raise RuntimeError if it is missing."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    try:
        return str(load_nvidia_dynamic_lib("nvvm").abs_path)
    except Exception as error:
        raise RuntimeError(f"libNVVM, which Numba needs to compile, was not found: {error}") from error


def try_cupy() -> str:
    """Compile CUDA C++ with NVRTC, and launch the kernel."""
    import cupy

    source = 'extern "C" __global__ void twice(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }'
    values = cupy.asarray(np.arange(SIZE, dtype=np.float32))
    kernel = cupy.RawModule(code=source, options=("--std=c++17",)).get_function("twice")
    kernel((1,), (1024,), (values, np.int32(SIZE)))
    _require_doubled(cupy.asnumpy(values))
    return f"CuPy {cupy.__version__}"


def try_nvbench() -> str:
    """Time a small memset, which needs no compiler."""
    from accelbench.profiling.machine.nvidia.cuda import call
    from accelbench.profiling.machine.nvidia.nvbench import time_nvbench

    pointer = call("cudaMalloc", SIZE)
    timing = time_nvbench(lambda stream: call("cudaMemsetAsync", pointer, 0, SIZE, stream), max_seconds=2.0)
    clock = f"{timing.sm_clock.median:.0f} MHz" if timing.sm_clock else "an unknown clock"
    return f"cuda-bench {installed_version('cuda-bench')}, {timing.summary.count} samples at {clock}"


def try_cublaslt() -> str:
    """Run the int8 matrix product of the benchmark, and verify it."""
    from accelbench.execution.plan import discover
    from accelbench.profiling.benchmark import Task
    from accelbench.profiling.machine.nvidia.cuda import library, synchronize
    from accelbench.profiling.records.point import Point

    point = Point("matmul", "gpu", {"impl": "vendor", "dtype": "int8", "n": 64})
    task = discover()["matmul"].prepare(point)
    assert isinstance(task, Task)
    task.run(0)
    synchronize()
    verification = task.verify()
    if not verification.passed:
        raise ArithmeticError(f"the int8 matrix product is wrong: {verification}")
    return str(library("cuda.pathfinder").load_nvidia_dynamic_lib("cublasLt").abs_path)


def try_jax() -> str:
    """Compile and run a function with XLA."""
    import jax

    if jax.default_backend() != "gpu":
        raise RuntimeError(f"JAX finds no GPU, only {jax.devices()}")
    _require_doubled(np.asarray(jax.jit(lambda x: x * 2)(np.arange(SIZE, dtype=np.float32))))
    return f"JAX {jax.__version__}"


def try_torch() -> str:
    """Run a kernel of PyTorch."""
    import torch

    _require_doubled((torch.arange(SIZE, dtype=torch.float32, device="cuda") * 2).cpu().numpy())
    built_for = f"CUDA {torch.version.cuda}" if torch.version.cuda else f"HIP {torch.version.hip}"
    return f"PyTorch {torch.__version__}, built for {built_for}"


def try_tensorflow() -> str:
    """Run a kernel of TensorFlow."""
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        raise RuntimeError("TensorFlow finds no GPU")
    with tf.device("/GPU:0"):
        _require_doubled((tf.range(SIZE, dtype=tf.float32) * 2).numpy())
    return f"TensorFlow {tf.__version__}"


def _require_doubled(found: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
    if not np.array_equal(found, 2 * np.arange(SIZE, dtype=np.float32)):
        raise ArithmeticError("the kernel ran, but its result is wrong")


TRIALS: dict[str, Callable[[], str]] = {
    "numba": try_numba,
    "cupy": try_cupy,
    "nvbench": try_nvbench,
    "cublaslt": try_cublaslt,
    "jax": try_jax,
    "torch": try_torch,
    "tensorflow": try_tensorflow,
}

if __name__ == "__main__":
    sys.exit(main())
