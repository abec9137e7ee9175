"""Tests of the shares of host time: categories of stacks and of threads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.host.rules import classify, classify_thread
from accelbench.profiling.host.shares import cpu_shares, data_makers, running_shares, step_thread_shares, thread_shares
from accelbench.profiling.host.stacks import Stack, parse_stack
from accelbench.profiling.host.threads import ThreadTotals
from accelbench.profiling.records.host import CATEGORIES, WINDOW_KINDS, Category

TRAINER = "<module> (run.py:3);TensorFlowTrainer.fit (keras/src/backend/tensorflow/trainer.py:399)"
EXECUTE = f"{TRAINER};quick_execute (tensorflow/python/eager/execute.py:53)"

KNOWN: list[tuple[str, Category]] = [
    ("<module> (run.py:3);step (run.py:9)", "dispatch"),
    (f"{TRAINER};map_structure (tensorflow/python/util/nest.py:628)", "dispatch"),
    (EXECUTE, "runtime"),
    (f"{EXECUTE};TFE_Py_ExecuteCancelable (_pywrap_tensorflow_internal.so)", "runtime"),
    (
        f"{EXECUTE};tsl::Run (libtensorflow_cc.so);Eigen::internal::gebp_kernel (libtensorflow_cc.so)",
        "kernels",
    ),
    (
        f"{EXECUTE};tsl::Notification::WaitForNotification (libtensorflow_framework.so);pthread_cond_wait (libc.so.6)",
        "waiting",
    ),
    (f"{EXECUTE};pthread_cond_wait (libc.so.6);0x7f12 (libc.so.6)", "waiting"),
    (
        "fit (keras/src/backend/jax/trainer.py:1);iterator_step (keras/src/backend/jax/trainer.py:257)",
        "runtime",
    ),
    (
        "logs (keras/src/utils/python_utils.py:18);convert_to_numpy (keras/src/backend/jax/core.py:409)",
        "runtime",
    ),
    ("Tensor.backward (torch/_tensor.py:6);_engine_run_backward (torch/autograd/graph.py:979)", "runtime"),
    (
        "matmul (keras/src/backend/torch/numpy.py:156);mkl_blas_avx512_sgemm (libtorch_cpu.so)",
        "kernels",
    ),
    (
        "<module> (run.py:3);DOUBLE_matmul (_multiarray_umath.so);dgemm_nn (libscipy_openblas64_.so)",
        "kernels",
    ),
    ("<module> (run.py:3);memmove (libc.so.6)", "dispatch"),
    ("_worker (concurrent/futures/thread.py:83)", "waiting"),
    ("Thread.run (threading.py:982);main (a.py:1);Event.wait (threading.py:629)", "waiting"),
    ("main (a.py:2);time_sleep (libpython3.11.so.1.0);clock_nanosleep (libc.so.6)", "waiting"),
    (
        "_get_iterator (keras/src/trainers/data_adapters/generator_data_adapter.py:9);examples (run.py:4)",
        "input",
    ),
    ("__call__ (tensorflow/python/ops/script_ops.py:270);finalize (mine.py:4);decode (mine.py:9)", "input"),
    ("_next_data (torch/utils/data/dataloader.py:1);get (queue.py:171)", "input"),
    ("0x7f00 (?)", "other"),
    ("f (unknown.so)", "other"),
]


@pytest.mark.parametrize(("stack", "category"), KNOWN)
def test_category_of_a_stack(stack: str, category: Category) -> None:
    assert classify(parse_stack(f"thread (1): MainThread;{stack}")) == category


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("python", "kernels"),  # threads of BLAS and OpenMP have the process's name
        ("tf_XLAEigen", "kernels"),
        ("tf_Compute", "kernels"),
        ("tf_data_iterato", "input"),
        ("input_0", "input"),
        ("tf_graph_runner", "runtime"),
        ("llvm-worker-0", "runtime"),
        ("cuda-EvtHandlr", "runtime"),
        ("jemalloc_bg_thd", "other"),
        ("telemetry", "other"),
        ("anything", "other"),
    ],
)
def test_category_of_a_thread(name: str, category: Category) -> None:
    assert classify_thread(name, "python", "cpu") == category


def test_tensorflows_compute_threads_are_runtime_on_a_gpu() -> None:
    assert classify_thread("tf_Compute", "python", "gpu") == "runtime"


def stack(text: str, thread: int = 1, name: str = "MainThread") -> Stack:
    return parse_stack(f"thread ({thread}): {name};{text}")


PYTHON, CALL = stack("<module> (run.py:3);step (run.py:9)"), stack(EXECUTE)
DATA = stack("fit (keras/src/trainers/data_adapters/x.py:1);examples (run.py:4)")
ANY_STACK = st.sampled_from([PYTHON, CALL, DATA, *(stack(text) for text, _ in KNOWN)])
WINDOWS = st.fixed_dictionaries(
    {kind: st.dictionaries(ANY_STACK, st.integers(1, 100), max_size=5) for kind in WINDOW_KINDS}
)


def test_a_busy_thread_has_the_shares_of_its_samples() -> None:
    shares = step_thread_shares({"all": {PYTHON: 60, CALL: 40}, "running": {PYTHON: 30, CALL: 20}}, 1, busy=1.0)
    assert shares == {"dispatch": 0.6, "input": 0, "runtime": 0.4, "kernels": 0, "waiting": 0, "other": 0}


def test_a_call_that_is_not_running_counts_as_waiting() -> None:
    """A quarter of the samples are in Python, the rest in a call that is never running."""
    shares = step_thread_shares({"all": {PYTHON: 25, CALL: 75}, "running": {PYTHON: 50}}, 1, busy=0.25)
    assert shares is not None
    assert (shares["dispatch"], shares["waiting"]) == pytest.approx((0.25, 0.75))


def test_waiting_in_the_data_pipeline_is_input() -> None:
    shares = step_thread_shares({"all": {PYTHON: 10, DATA: 90}, "running": {PYTHON: 10}}, 1, busy=0.1)
    assert shares is not None
    assert (shares["dispatch"], shares["input"]) == pytest.approx((0.1, 0.9))


def test_native_frames_correct_the_category() -> None:
    """Without native frames, a matrix product is classified as Python."""
    product = stack("<module> (run.py:3);step (run.py:9);dgemm_kernel (libscipy_openblas64_.so)")
    windows = {"running": {PYTHON: 100}, "native": {product: 3, PYTHON: 1}}
    shares = running_shares(windows, 1)
    assert shares is not None
    assert (shares["kernels"], shares["dispatch"]) == pytest.approx((0.75, 0.25))


def test_a_thread_with_few_samples_has_no_shares() -> None:
    assert step_thread_shares({"all": {PYTHON: 4}}, 1, busy=1.0) is None
    assert step_thread_shares({"all": {PYTHON: 50}}, 2, busy=1.0) is None


@given(WINDOWS, st.none() | st.floats(0, 2))
def test_shares_add_up_to_one(windows: dict[str, dict[Stack, int]], busy: float | None) -> None:
    shares = step_thread_shares(windows, 1, busy)  # type: ignore[arg-type]
    if shares is not None:
        assert set(shares) == set(CATEGORIES)
        assert sum(shares.values()) == pytest.approx(1)
        assert min(shares.values()) >= 0


def totals(name: str, cpu_s: float) -> ThreadTotals:
    return ThreadTotals(name, cpu_s, 0.0, 0, 0)


def test_cpu_time_covers_python_and_native_threads() -> None:
    windows = {"running": {PYTHON: 50, CALL: 50}, "all": {stack("a (b.py:1)", 2, "input_0"): 9}}
    threads = {1: totals("python", 2.0), 2: totals("python", 1.0), 3: totals("python", 4.0), 4: totals("python", 1.0)}
    found = thread_shares(windows, threads, "python", "cpu")  # type: ignore[arg-type]
    assert [(thread.name, thread.threads, thread.cpu_s) for thread in found] == [
        ("unnamed native threads", 2, 5.0),
        ("MainThread", 1, 2.0),
        ("input_0", 1, 1.0),
    ]
    shares = cpu_shares(found)
    assert shares is not None
    assert shares == pytest.approx(
        {"kernels": 5 / 8, "dispatch": 1 / 8, "runtime": 1 / 8, "input": 1 / 8, "waiting": 0, "other": 0}
    )


def test_without_cpu_time_there_are_no_shares() -> None:
    assert cpu_shares([]) is None
    assert cpu_shares(thread_shares({}, {1: totals("python", 0.0)}, "python", "cpu")) is None


def test_a_busy_generator_is_one_data_maker() -> None:
    making = stack("__call__ (tensorflow/python/ops/script_ops.py:270)", 7, "")
    assert data_makers({CALL: 20, making: 19}, step_thread=1, samples=20) == pytest.approx(0.95)
    assert data_makers({}, 1, 0) is None
