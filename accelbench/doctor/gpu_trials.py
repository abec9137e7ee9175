"""One small thing on the device for each library of the GPU path: `python -m accelbench.doctor.gpu_trials NAME`.

A trial prints what it ran with; one that fails ends with exit status 1, and its error is the last line that it writes.
Each is run in a process of its own: a CUDA error sticks to the process that made it.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

import numpy as np

from accelbench.profiling.machine.environment.software import installed_version

SIZE = 1000
LONGEST = 300
"""The number of characters of an error that are shown: some list every place that was searched."""


def main() -> int:
    """Run the trial of that name."""
    try:
        print(TRIALS[sys.argv[1]]())
    except BaseException as error:  # noqa: BLE001 - whatever a library raises is what the trial is to find
        traceback.print_exc()
        words = " ".join(f"{type(error).__name__}: {error}".split())
        print(words if len(words) <= LONGEST else words[:LONGEST] + " …", file=sys.stderr)
        return 1
    return 0


def try_numba() -> str:
    """Compile a kernel with libNVVM, and launch it."""
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
    """Return libNVVM's path as Numba finds it; RuntimeError that names it, since Numba's own error may not."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    try:
        return str(load_nvidia_dynamic_lib("nvvm").abs_path)
    except Exception as error:
        raise RuntimeError(f"libNVVM, with which Numba compiles, is not found: {error}") from error


def try_cupy() -> str:
    """Compile CUDA C++ with NVRTC, and launch it."""
    import cupy

    source = 'extern "C" __global__ void twice(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }'
    values = cupy.asarray(np.arange(SIZE, dtype=np.float32))
    kernel = cupy.RawModule(code=source, options=("--std=c++17",)).get_function("twice")
    kernel((1,), (1024,), (values, np.int32(SIZE)))
    _require_doubled(cupy.asnumpy(values))
    return f"CuPy {cupy.__version__}"


def try_nvbench() -> str:
    """Time the clearing of a few bytes, which needs no compiler."""
    from accelbench.profiling.machine.nvidia.cuda import call
    from accelbench.profiling.machine.nvidia.nvbench import time_nvbench

    pointer = call("cudaMalloc", SIZE)
    timing = time_nvbench(lambda stream: call("cudaMemsetAsync", pointer, 0, SIZE, stream), max_seconds=2.0)
    clock = f"{timing.sm_clock.median:.0f} MHz" if timing.sm_clock else "a clock that it did not tell"
    return f"cuda-bench {installed_version('cuda-bench')}, {timing.summary.count} samples at {clock}"


def try_cublaslt() -> str:
    """Multiply integer matrices as the benchmark does, and check the product."""
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
        raise ArithmeticError(f"the product of integers is wrong: {verification}")
    return str(library("cuda.pathfinder").load_nvidia_dynamic_lib("cublasLt").abs_path)


def try_jax() -> str:
    """Compile a function with XLA, and run it."""
    import jax

    if jax.default_backend() != "gpu":
        raise RuntimeError(f"JAX sees no GPU, only {jax.devices()}")
    _require_doubled(np.asarray(jax.jit(lambda x: x * 2)(np.arange(SIZE, dtype=np.float32))))
    return f"JAX {jax.__version__}"


def try_torch() -> str:
    """Run one of PyTorch's own kernels."""
    import torch

    _require_doubled((torch.arange(SIZE, dtype=torch.float32, device="cuda") * 2).cpu().numpy())
    made_for = f"CUDA {torch.version.cuda}" if torch.version.cuda else f"HIP {torch.version.hip}"
    return f"PyTorch {torch.__version__}, for {made_for}"


def try_tensorflow() -> str:
    """Run one of TensorFlow's own kernels."""
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        raise RuntimeError("TensorFlow sees no GPU")
    with tf.device("/GPU:0"):
        _require_doubled((tf.range(SIZE, dtype=tf.float32) * 2).numpy())
    return f"TensorFlow {tf.__version__}"


def _require_doubled(found: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
    if not np.array_equal(found, 2 * np.arange(SIZE, dtype=np.float32)):
        raise ArithmeticError("the kernel ran, and its answer is wrong")


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
