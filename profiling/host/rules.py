"""Classification of threads by the names of their frames, libraries and of the thread itself.

The rules are regular expressions over `Frame.__str__`, `name (file:line)`; a thread without a match is `other`.
"""

from __future__ import annotations

import re

from accelbench.profiling.host.stacks import Frame, Stack
from accelbench.profiling.records.host import Category
from accelbench.profiling.records.point import Device


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


INPUT = _any(
    r"\(keras/src/(trainers/data_adapters/|trainers/epoch_iterator\.py|utils/.*dataset)",
    r"\(tensorflow/python/data/ops/(?!optional_ops)",  # the training loop uses optional_ops to check for a batch
    r"\(tensorflow/python/ops/script_ops\.py",  # Python functions inside tf.data
    r"\(torch/utils/data/",
    r"\((grain|PIL|mlxtend/data)/",
    r"tensorflow::data::",
    r"^\S*next_batch \((accelbench/)?profiling/attach/session\.py",  # the input of a script under `diagnose`
)
"""Frames that classify the stack as input, at any depth: their callees and waits belong to the data pipeline."""
_input_folders: set[str] = set()
"""Folders of further input pipelines, added by `count_as_input`."""

WAIT = _any(
    r"^(__)?(pthread_cond_(timed|clock)?wait|futex\w*|sem_(timed|clock)?wait|do_futex_wait|_*lll_lock_wait\w*)\b",
    r"^(__)?(clock_)?nanosleep\b|^time_sleep\b|^pysleep\b|^usleep\b",
    r"^(__)?(e?poll|epoll_p?wait|ppoll|p?select|accept4?|recv\w*|wait4|waitpid|waitid|sigwait\w*)(64)? \(libc",
    r"^take_gil\b|^PyThread_acquire_lock_timed\b|^acquire_timed\b|^drop_gil\b",
    r"^(absl|nsync)::.*(Wait|Block)|^nsync_\w*wait|^tsl::Notification::WaitForNotification",
    r"^cu(da)?(Stream|Event|Ctx|Device)Synchronize\b",
    r"^\S*\b(wait|_wait_for_tstate_lock|join) \(threading\.py",
    r"^\S*\b(get|put) \(queue\.py|^_worker \(concurrent/futures/thread\.py|^\S*select \(selectors\.py",
    r"^\S*result \(concurrent/futures/_base\.py|^(_poll|wait|poll) \((multiprocessing/|subprocess\.py)",
)
"""Frames that classify the stack as waiting, at its top, below unnamed frames of the C library only."""

KERNELS = _any(
    r"(?i:openblas|\(lib(mkl|iomp|gomp|omp|blis|dnnl|tbb))",
    r"(?i:\b(cblas_)?[sdczb]?(gemm|gemv|dot|syrk|trsm)(_|\b))",
    r"\b(Eigen|dnnl|oneDNN|mkl|xnn|fbgemm|at::native|at::cpu|ruy)::|^(jit_|mkl_|xnn_|gebp)",
    r"\((_multiarray_umath|_umath_linalg|_pocketfft\w*|_fblas|_flapack|lapack_lite)\.",
    r"^(tensorflow::)?(functor::|Conv2D|MatMul|FusedMatMul)\w*::|(tensorflow|xla)::.*(OpKernel|Op)::Compute\b",
    r"^xla::cpu::.*(Thunk|Runtime)|^__xla_cpu_runtime",
)

RUNTIME_LIBRARY = _any(
    r"\((?:[^()]*/)?(_pywrap_\w*|libtensorflow\w*|libtorch\w*|libc10\w*|_C\.|libjax\w*|_jax\.|xla_extension|jaxlib|"
    r"libcu(da|dart|blas|dnn|fft|sparse)\w*|libnccl|libpywrap\w*|_dtensor|libxla\w*)",
    r"\b(tensorflow|tsl|xla|jax|torch|c10|pybind11|nanobind|TFE_\w+|tfrt)::|^(TFE_|TF_|PJRT_)",
)

RUNTIME_CALL = _any(
    r"^quick_execute \(tensorflow/python/eager/execute\.py",
    r"\(tensorflow/python/ops/gen_",
    r"^\S*\b(numpy|_numpy|__array__|__float__|__int__) \(tensorflow/python/framework/ops\.py",
    r"\(keras/src/backend/(tensorflow|jax|torch)/(core|numpy|nn|math|linalg|image|random|rnn)\.py",
    r"\biterator_step \(keras/src/backend/jax/trainer\.py",
    r"^\S*(_value|block_until_ready|__array__|cache_miss|_python_pjit_helper|ExecuteReplicated\.__call__) \(jax/_src/",
    r"^\S*(backend_compile\w*|_cached_compilation|compile_or_get_cached) \(jax/_src/",
    r"^_engine_run_backward \(torch/|\(torch/nn/functional\.py|\b_?\w*forward \(torch/nn/modules/|\(torch/_ops\.py",
    r"\(torch/optim/",
)
"""The last Python functions before the framework's native code, for stacks without native frames."""

SUITE_THREADS = ("host sampler", "host counters", "beats")
"""Names of the suite's own threads in a worker."""

THREADS: tuple[tuple[Category, re.Pattern[str]], ...] = (
    ("input", re.compile(r"(?i)^(tf_data|input|pt_data|data_?load|prefetch)")),
    ("kernels", re.compile(r"(?i)eigen|blas|^(lib)?[gi]?omp|mkl|dnn|numba|tbb")),
    ("runtime", re.compile(r"(?i)^(tf_|tsl|xla|pjrt|llvm|jax|grpc|cuda|nv|nccl|pt_)")),
    ("other", re.compile(rf"^({'|'.join(SUITE_THREADS)}|jemalloc)")),
)
"""Categories by name of native threads (truncated to 15 characters by the kernel) and Python threads."""

LIBRARY_FRAMES = re.compile(r"\((libc|libpthread|libm|libstdc\+\+|libgcc_s|ld-linux\S*|vdso|\?|linux-vdso)\b|\(\?\)$")


def count_as_input(package: str) -> None:
    """Classify stacks with a function of this Python package as input."""
    _input_folders.add(f"{package.replace('.', '/')}/")


def classify(stack: Stack) -> Category:
    """Return the category of a stack; without native frames the last Python function decides.

    Time in the data pipeline is `input`, including the time in which the thread waited for data.
    """
    labels = [str(frame) for frame in stack.frames]
    if any(INPUT.search(label) for label in labels) or any(
        frame.file.startswith(folder) for frame in stack.frames for folder in _input_folders
    ):
        return "input"
    for frame, label in zip(reversed(stack.frames), reversed(labels), strict=True):
        if WAIT.search(label):
            return "waiting"
        category = _of_frame(frame, label)
        if category is not None:
            return category
    return "other"


def _of_frame(frame: Frame, label: str) -> Category | None:
    """Return the category of a frame; None for a helper such as `memcpy`, which belongs to its caller."""
    if frame.is_python:
        return "runtime" if RUNTIME_CALL.search(label) else "dispatch"
    if LIBRARY_FRAMES.search(label):
        return None
    if KERNELS.search(label):
        return "kernels"
    if RUNTIME_LIBRARY.search(label):
        return "runtime"
    return "dispatch" if "libpython" in label or re.search(r"\.c:\d+\)$", label) else None


def classify_thread(name: str, unnamed: str, device: Device) -> Category:
    """Return the category of a thread by its name.

    `unnamed` is the name of the process, which unnamed threads inherit, as those in the pools of BLAS and OpenMP do.
    TensorFlow's `tf_Compute` threads compute on the CPU, but only launch kernels on a GPU.
    """
    if name == unnamed or (name == "tf_Compute" and device == "cpu"):
        return "kernels"
    return next((category for category, pattern in THREADS if pattern.search(name)), "other")
