"""Tests of the step breakdown: each instant belongs to exactly one part, by precedence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.records.trace import PARTS, Breakdown, Part
from accelbench.profiling.trace.breakdown import Activity, Intervals
from accelbench.profiling.trace.operations import TOP, longest, operations, without_number
from accelbench.profiling.trace.xplane import XplaneTrace
from tests.fixtures.made_traces import Planes, write_trace

intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=20)


def broken_down(folder: Path, planes: Planes) -> Breakdown:
    found = Activity(XplaneTrace(write_trace(folder, planes))).breakdown()
    assert found is not None
    return found


def microseconds(found: Breakdown) -> dict[Part, float]:
    return {part: round(seconds * 1e6, 6) for part, seconds in found.parts.items() if seconds}


def test_overlapped_parts_are_not_counted(tmp_path: Path) -> None:
    found = broken_down(
        tmp_path,
        {
            "/host:CPU": {"python": [("train", 0, 100)], "tf_data_iterator": [("IteratorGetNextOp::DoCompute", 0, 25)]},
            "/device:GPU:0": {
                "Stream #7(Compute)": [("gemm", 20, 50)],
                "Stream #8(MemcpyH2D)": [("MemcpyH2D", 15, 30)],
                "Stream #9(Compute)": [("ncclDevKernel_AllReduce_Sum_f32", 40, 60)],
                "Stream #10(MemcpyD2H)": [("MemcpyD2H", 60, 62)],
                "XLA Modules": [("jit_train_step", 0, 100)],
            },
        },
    )
    assert microseconds(found) == {
        "kernel": 30,
        "collective": 10,
        "host_to_device": 5,
        "device_to_host": 2,
        "input_wait": 15,
        "host": 38,
    }


def test_synchronization_without_device_work_is_idle(tmp_path: Path) -> None:
    planes: Planes = {
        "/host:CPU": {"python": [("train", 0, 100), ("cuStreamSynchronize", 30, 80)]},
        "/device:GPU:0": {"Stream #7(Compute)": [("gemm", 40, 60)]},
    }
    assert microseconds(broken_down(tmp_path, planes)) == {"kernel": 20, "idle": 30, "host": 50}


@pytest.mark.parametrize(
    ("waits", "makes", "expected"),
    [
        (30, 80, {"input_wait": 75, "kernel": 5, "host": 20}),
        (2, 80, {"input_wait": 2, "kernel": 5, "host": 93}),
        (0, 95, {"input_wait": 90, "kernel": 5, "host": 5}),
    ],
    ids=["waiting step", "short wait", "continuous input"],
)
def test_python_input_counts_as_input_wait_only_if_the_step_is_input_bound(
    tmp_path: Path, waits: int, makes: int, expected: dict[Part, float]
) -> None:
    planes: Planes = {
        "/host:CPU": {
            "python": [("train", 0, 100)],
            "tf_Compute/1": [("model/dense/MatMul:MatMul", 60, 65)],
            "tf_data_iterator_get_next/2": [("IteratorGetNextOp::DoCompute", 10, 10 + waits)],
            "tf_data_private_threadpool/3": [("PyFunc:PyFunc", 5, 5 + makes)],
        }
    }
    assert microseconds(broken_down(tmp_path, planes)) == expected


@pytest.mark.parametrize(
    ("thread", "works", "expected"),
    [
        ("$thread.py:53 run", 98, {"input_wait": 95, "kernel": 5}),
        ("$py_dataset_adapter.py:284 get_index", 98, {"input_wait": 95, "kernel": 5}),
        ("$thread.py:53 run", 60, {"kernel": 5, "host": 95}),
        ("$threading.py:1045 run", 98, {"kernel": 5, "host": 95}),
    ],
    ids=["pool thread", "Keras thread", "thread with pauses", "unknown thread"],
)
def test_a_continuously_busy_input_thread_in_python_is_input_wait(
    tmp_path: Path, thread: str, works: int, expected: dict[Part, float]
) -> None:
    planes: Planes = {
        "/host:CPU": {
            "python": [("train", 0, 100), ("PjitFunction(train_step)", 10, 90)],
            "tf_XLAPjRtCpuClient/1": [("ThunkExecutor::Execute", 60, 65)],
            "python 2": [(thread, 0, works), (thread, works, works + 2)] if works > 90 else [(thread, 0, works)],
        }
    }
    assert microseconds(broken_down(tmp_path, planes)) == expected


def test_compilation_is_a_separate_part(tmp_path: Path) -> None:
    planes: Planes = {"/host:CPU": {"python": [("train", 0, 100), ("CpuCompiler::RunBackend", 10, 70)]}}
    assert microseconds(broken_down(tmp_path, planes)) == {"compile": 60, "host": 40}


def test_cpu_operations_are_kernels_only_without_another_device(tmp_path: Path) -> None:
    host = {"python": [("train", 0, 100)], "tf_Compute/1": [("model/dense/MatMul:MatMul", 0, 40)]}
    assert microseconds(broken_down(tmp_path / "cpu", {"/host:CPU": host})) == {"kernel": 40, "host": 60}
    gpu: Planes = {"/host:CPU": host, "/device:GPU:0": {"Stream #7(Compute)": [("gemm", 0, 10)]}}
    assert microseconds(broken_down(tmp_path / "gpu", gpu)) == {"kernel": 10, "host": 90}


def test_a_step_lasts_from_the_end_of_the_previous_one(tmp_path: Path) -> None:
    """Work of callbacks before a step's marker is host time: here 40 of the 50 µs of the second step."""
    planes: Planes = {
        "/host:CPU": {
            "python": [("step ended", 2, 2), ("train", 12, 22), ("train", 62, 72)],
            "tf_Compute/1": [("a/MatMul:MatMul", 12, 22), ("a/MatMul:MatMul", 62, 72)],
        }
    }
    found = broken_down(tmp_path, planes)
    assert found.steps == 2
    assert microseconds(found) == {"kernel": 10, "host": 25}
    assert found.of_steps["host"] == pytest.approx([10e-6, 40e-6])
    assert found.kernels == 1


def test_a_step_with_unknown_beginning_is_omitted(tmp_path: Path) -> None:
    planes: Planes = {"/host:CPU": {"python": [("train", 0, 10), ("train", 50, 60)]}}
    found = broken_down(tmp_path, planes)
    assert (found.steps, microseconds(found)) == (1, {"host": 50})
    alone = broken_down(tmp_path / "alone", {"/host:CPU": {"python": [("train", 0, 10)]}})
    assert (alone.steps, microseconds(alone)) == (1, {"host": 10}), "the only step is kept"


def test_the_time_between_epochs_is_in_no_step(tmp_path: Path) -> None:
    steps = [("step ended", 0, 0), ("train", 1, 10), ("epoch begins", 500, 500), ("train", 510, 520)]
    found = broken_down(tmp_path, {"/host:CPU": {"python": [*steps, ("train", 521, 530)]}})
    assert (found.steps, microseconds(found)) == (2, {"host": 10})


def test_a_trace_without_steps_has_no_breakdown(tmp_path: Path) -> None:
    assert Activity(XplaneTrace(write_trace(tmp_path, {"/host:CPU": {"python": [("f", 0, 1)]}}))).breakdown() is None


def test_self_time_excludes_nested_operations(tmp_path: Path) -> None:
    planes: Planes = {"/host:CPU": {"tf_XLAEigen/1": [("while.1", 0, 10), ("dot.2", 2, 5), ("dot.2", 6, 9)]}}
    found = {
        o.name: (o.occurrences, round(o.self_s * 1e6, 6))
        for o in operations(XplaneTrace(write_trace(tmp_path, planes)))
    }
    assert found == {"dot.2": (2, 6), "while.1": (1, 4)}


def test_operations_are_summed_by_kind_with_shares(tmp_path: Path) -> None:
    many = [(f"fusion.{number}", 10 * number, 10 * number + 1) for number in range(2, 2 * TOP)]
    products = [("dot.2", 0, 2), ("dot.14", 4, 6 + 2 * TOP)]
    planes: Planes = {"/host:CPU": {"tf_XLAEigen/1": products, "tf_XLAEigen/2": many}}
    found = longest(operations(XplaneTrace(write_trace(tmp_path, planes))))
    assert len(found["operations"]) == TOP
    total = 2 * TOP + 4 + 2 * TOP - 2
    assert [(kind.kind, kind.operations, kind.occurrences) for kind in found["kinds"]] == [
        ("dot", 2, 2),
        ("fusion", 2 * TOP - 2, 2 * TOP - 2),
    ]
    assert sum(kind.share for kind in found["kinds"]) == pytest.approx(1)
    assert found["kinds"][0].share == pytest.approx((2 * TOP + 4) / total)
    assert found["operations"][0].share == pytest.approx((2 * TOP + 2) / total)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("fusion.12", "fusion"),
        ("loop_add_fusion.3.1", "loop_add_fusion"),
        ("dense_1", "dense"),
        ("aten::mm", "aten::mm"),
        ("void gemm<float, 128>(float*, int)", "void gemm"),
        ("<lambda>", "<lambda>"),
        (".7", ".7"),
    ],
)
def test_a_kind_is_an_operations_name_without_number_and_arguments(name: str, kind: str) -> None:
    assert without_number(name) == kind


@given(intervals, intervals)
def test_the_parts_add_up_to_the_steps(steps: list[tuple[int, int]], kernels: list[tuple[int, int]]) -> None:
    from accelbench.profiling.trace.breakdown import exposed

    def arrays(found: list[tuple[int, int]]) -> Intervals:
        begins = np.asarray([begin for begin, _ in found], np.int64)
        return Intervals(begins, begins + np.asarray([length for _, length in found], np.int64))

    within = arrays(steps)
    parts = exposed(within.begins, within.ends, {"kernel": arrays(kernels)})
    in_step = {t for begin, length in steps for t in range(begin, begin + length)}
    in_kernel = {t for begin, length in kernels for t in range(begin, begin + length)}
    assert parts["kernel"].sum() == pytest.approx(len(in_step & in_kernel) * 1e-12)
    assert parts["host"].sum() == pytest.approx(len(in_step - in_kernel) * 1e-12)
    assert set(parts) == set(PARTS)
