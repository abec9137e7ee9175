"""Tests of the trace analysis: the bottleneck of a training, and reasons for missing findings."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from accelbench.profiling.records.trace import TraceAnalysis
from accelbench.profiling.trace import analysis, events
from accelbench.profiling.trace.analysis import analyze, verdict
from tests.fixtures.made_traces import replicate, write_trace
from tests.profiling.trace.conftest import Traced

HOST = {"python": [("train", i * 100.0, i * 100.0 + 90) for i in range(4)]}


def broken_down(traces: Traced, name: str) -> tuple[TraceAnalysis, analysis.Breakdown]:
    found = analyze(traces.folder / name, "cpu")
    assert found.failure is None
    assert found.breakdown is not None
    assert sum(found.breakdown.parts.values()) == pytest.approx(found.breakdown.step_s)
    return found, found.breakdown


@pytest.mark.slow
def test_a_slow_generator_gives_input_wait(traces: Traced) -> None:
    found, steps = broken_down(traces, "slow input")
    assert steps.steps == 8
    assert steps.share("input_wait") > 0.6
    assert str(found.input_verdict).startswith("highly input-bound")


@pytest.mark.slow
def test_large_matrix_products_give_kernel_time(traces: Traced) -> None:
    found, steps = broken_down(traces, "big products")
    assert steps.share("kernel") > 0.6
    assert str(found.input_verdict).startswith("not input-bound") or steps.share("input_wait") < 0.2
    assert found.operations


@pytest.mark.slow
def test_small_steps_give_host_time(traces: Traced) -> None:
    """Fetching the next batch takes about half of the 0.2 ms, with large variation."""
    _, steps = broken_down(traces, "small")
    assert steps.share("host") > 3 * steps.share("kernel")


@pytest.mark.slow
def test_xprof_finds_the_same_share_of_input(tensorflow_traces: Traced) -> None:
    found, steps = broken_down(tensorflow_traces, "slow input")
    assert found.xprof_steps is not None
    # xprof omits the first and the last step.
    assert found.xprof_steps.parts["input"] / found.xprof_steps.step_s == pytest.approx(
        steps.share("input_wait"), abs=0.1
    )
    assert "HIGHLY input-bound" in str(found.xprof_verdict)


@pytest.mark.slow
def test_tensorflow_operations_are_from_xprof_and_jax_operations_from_raw_events(
    tensorflow_traces: Traced, jax_traces: Traced
) -> None:
    products, _ = broken_down(tensorflow_traces, "big products")
    assert products.operations_by == "xprof"
    assert "MatMul" in str(products.operations[0].kind)
    assert "MatMul" in products.kinds[0].kind
    assert products.kinds[0].share > 0.5
    compiled, _ = broken_down(jax_traces, "big products")
    assert compiled.operations_by == "raw events"
    assert compiled.operations[0].self_s > 0
    for found in (products, compiled):
        assert sum(kind.share for kind in found.kinds) == pytest.approx(1, abs=0.05)


def test_a_cpu_trace_has_no_memory_peak(traces: Traced) -> None:
    found, _ = broken_down(traces, "small")
    assert found.memory_peak_bytes is None
    assert "allocations" in found.missing["memory_peak_bytes"]


def test_the_trace_folder_is_not_changed(traces: Traced) -> None:
    files = sorted((traces.folder / "small").rglob("*"))
    analyze(traces.folder / "small", "cpu")
    assert sorted((traces.folder / "small").rglob("*")) == files


def test_an_empty_device_plane_is_a_failure_with_the_remedy(tmp_path: Path) -> None:
    refused = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
    write_trace(tmp_path, {"/host:CPU": HOST, "/device:GPU:0": {"Stream #7(Compute)": []}}, errors=[refused])
    found = analyze(tmp_path, "gpu")
    assert found.devices == ["/device:GPU:0"]
    assert found.device_events == 0
    for part in ("--cap-add=SYS_ADMIN", "--privileged", "NVreg_RestrictProfilingToAdminUsers=0", refused):
        assert part in str(found.failure)
    assert found.breakdown is not None, "the host was traced"


@pytest.mark.slow
def test_a_gpu_trace_without_a_device_plane_is_the_same_failure(tmp_path: Path) -> None:
    write_trace(tmp_path, {"/host:CPU": HOST})
    assert "--cap-add=SYS_ADMIN" in str(analyze(tmp_path, "gpu").failure)
    assert analyze(tmp_path, "cpu").failure is None


def test_an_empty_folder_is_a_failure(tmp_path: Path) -> None:
    assert "*.xplane.pb" in str(analyze(tmp_path, "cpu").failure)


def test_a_truncated_trace_is_a_failure(traces: Traced, tmp_path: Path) -> None:
    shutil.copytree(traces.folder / "small", tmp_path / "copy")
    file = tmp_path / "copy" / str(traces.outcomes["small"].file)
    file.write_bytes(file.read_bytes()[:-10])
    found = analyze(tmp_path / "copy", "cpu")
    assert "truncated" in str(found.failure)
    assert found.breakdown is None


def test_without_xprof_there_is_a_breakdown_and_a_reason_for_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_trace(tmp_path, {"/host:CPU": HOST})
    monkeypatch.setattr(analysis, "find_spec", lambda name: None)
    found = analyze(tmp_path, "cpu")
    assert found.breakdown is not None
    assert "xprof" in found.missing["operations"]


def test_a_failed_reader_gives_its_stderr_as_reason() -> None:
    found = analysis.run_reader("accelbench.profiling.trace.no_such_reader", [], events.EventFindings)
    assert "No module named" in str(found)


@pytest.mark.slow
def test_xprof_reads_only_the_first_steps_of_a_large_trace(tensorflow_traces: Traced, tmp_path: Path) -> None:
    source = tensorflow_traces.folder / "small" / str(tensorflow_traces.outcomes["small"].file)
    times = replicate(source, tmp_path / "plugins/profile/large/host.xplane.pb", 2 * events.CUT_BYTES)
    found = analyze(tmp_path, "cpu")
    assert found.breakdown is not None
    assert found.breakdown.steps == 8 * times
    assert found.xprof_steps is not None
    assert 0 < found.xprof_steps.steps < found.breakdown.steps / 1.5
    assert f" {8 * times * events.CUT_BYTES // found.size} steps" in str(found.xprof_covers)


def test_the_thresholds_of_the_input_verdict() -> None:
    assert [verdict(share).split(":")[0] for share in (0.0, 0.049, 0.05, 0.2, 1.0)] == [
        "not input-bound",
        "not input-bound",
        "moderately input-bound",
        "highly input-bound",
        "highly input-bound",
    ]
