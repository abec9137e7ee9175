"""Tests of reading PyTorch's traces, complete or rejected with a reason.

The GPU traces are synthetic, with the categories and names of Kineto; none was recorded on a GPU.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelbench.profiling.records.trace import Breakdown, EventFindings, Part
from accelbench.profiling.trace.analysis import analyze
from accelbench.profiling.trace.chrome import finish
from accelbench.profiling.trace.events import read_events
from accelbench.profiling.trace.lines import Unreadable
from tests.fixtures.made_traces import chrome_event, write_chrome
from tests.profiling.trace.conftest import Traced

NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
STEPS = [chrome_event("user_annotation", f"ProfilerStep#{n}", n * 100.0, n * 100.0 + 90) for n in range(4)]
GPU = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000}
FIXTURE = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(file: Path) -> EventFindings:
    return read_events(file, file.with_name("cut"))


def broken_down(file: Path) -> tuple[dict[Part, float], Breakdown]:
    found = read(file).breakdown
    assert found is not None
    return {part: round(seconds * 1e6, 2) for part, seconds in found.parts.items() if seconds}, found


def test_on_a_cpu_operators_are_kernels_and_the_data_loader_is_input_wait(tmp_path: Path) -> None:
    events = [
        chrome_event("user_annotation", "step ended", 0, 0.1),
        chrome_event("user_annotation", NEXT, 1, 11),
        chrome_event("cpu_op", "aten::copy_", 8, 10),
        chrome_event("user_annotation", "ProfilerStep#3", 12, 100),
        chrome_event("cpu_op", "aten::linear", 20, 60),
        chrome_event("cpu_op", "aten::t", 21, 25),
        chrome_event("cpu_op", "aten::addmm", 30, 55),
        chrome_event("cpu_op", "aten::view", 62, 70),
        chrome_event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 70, 95),
        chrome_event("cpu_op", "MmBackward0", 71, 94),
        chrome_event("cpu_op", "aten::mm", 75, 90),
    ]
    parts, found = broken_down(write_chrome(tmp_path, events))
    assert parts == {"kernel": 55, "input_wait": 10, "host": 34.9}
    assert found.kernels == 2, "nested operators are not counted"


def test_operations_have_their_self_time(tmp_path: Path) -> None:
    events = [chrome_event("cpu_op", "aten::linear", 20, 60), chrome_event("cpu_op", "aten::addmm", 30, 55)]
    found = read(write_chrome(tmp_path, [*STEPS, *events]))
    assert [(o.name, o.where, o.occurrences, round(o.self_s * 1e6, 2)) for o in found.operations] == [
        ("aten::addmm", "host", 1, 25),
        ("aten::linear", "host", 1, 15),
    ]


def test_a_cpu_collective_lasts_until_its_end_on_its_own_thread(tmp_path: Path) -> None:
    events = [
        chrome_event("user_annotation", "ProfilerStep#1", 0, 100),
        chrome_event("cpu_op", "c10d::allreduce_", 10, 15),
        chrome_event("cpu_op", "aten::mm", 20, 40),
        chrome_event("user_annotation", "gloo:all_reduce", 12, 70, tid=9),
    ]
    assert broken_down(write_chrome(tmp_path, events))[0] == {"kernel": 20, "collective": 40, "host": 40}


@pytest.mark.parametrize(
    ("works", "expected"), [(98, {"input_wait": 78, "kernel": 20, "host": 2}), (60, {"kernel": 20, "host": 80})]
)
def test_a_continuously_busy_input_thread_is_input_wait(
    tmp_path: Path, works: int, expected: dict[Part, float]
) -> None:
    """The operators of an input thread are not kernels of the step."""
    events = [
        chrome_event("user_annotation", "ProfilerStep#1", 0, 100),
        chrome_event("cpu_op", "aten::mm", 20, 40),
        chrome_event("user_annotation", "input made", 0, works, tid=9),
        chrome_event("cpu_op", "aten::stack", 50, 55, tid=9),
    ]
    assert broken_down(write_chrome(tmp_path, events))[0] == expected


@pytest.mark.parametrize(
    ("meanwhile", "afterwards", "expected"),
    [
        (2, 18, {"input_wait": 58, "kernel": 20, "host": 22}),
        (12, 8, {"kernel": 20, "host": 80}),
        (0, 2, {"kernel": 2, "host": 98}),
    ],
    ids=["slow steps", "equally fast steps", "few kernels"],
)
def test_input_threads_that_slow_down_the_step_are_input_wait(
    tmp_path: Path, meanwhile: int, afterwards: int, expected: dict[Part, float]
) -> None:
    """An input thread that holds the GIL, with a full queue during the rest of the step."""
    begins = [*(2 * number for number in range(meanwhile)), *(60 + 2 * number for number in range(afterwards))]
    events = [
        chrome_event("user_annotation", "ProfilerStep#1", 0, 100),
        chrome_event("user_annotation", "input made", 0, 60, tid=9),
        *(chrome_event("cpu_op", "aten::mm", begin, begin + 1) for begin in begins),
    ]
    assert broken_down(write_chrome(tmp_path, events))[0] == expected


def test_on_a_gpu_kernels_are_those_of_its_streams(tmp_path: Path) -> None:
    step = 500.0
    events = [
        chrome_event("user_annotation", "ProfilerStep#6", step, step + 100),
        chrome_event("gpu_user_annotation", "ProfilerStep#6", step + 5, step + 95, pid=0, tid=7),
        chrome_event("cpu_op", "aten::mm", step + 2, step + 8),
        chrome_event("cuda_runtime", "cudaLaunchKernel", step + 4, step + 7),
        chrome_event("cuda_runtime", "cudaStreamSynchronize", step + 60, step + 95),
        chrome_event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", step + 5, step + 15, pid=0, tid=7),
        chrome_event("kernel", "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n", step + 15, step + 45, pid=0, tid=7),
        chrome_event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", step + 40, step + 55, pid=0, tid=20),
        chrome_event("cuda_sync", "Stream Sync", step + 60, step + 95, pid=0, tid=7),
        chrome_event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", step + 85, step + 90, pid=0, tid=7),
        *(
            {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 7, "tid": 7, "ts": step}
            | {"args": {"Total Allocated": total, "Bytes": 512, "Device Id": 0, "Device Type": kind, "Addr": 1}}
            for total, kind in ((4096, 1), (1_000_000, 1), (512, 1), (9_000_000, 0))
        ),
    ]
    file = write_chrome(tmp_path, events, devices=[GPU])
    parts, found = broken_down(file)
    assert parts == {
        "kernel": 30,
        "collective": 10,
        "host_to_device": 10,
        "device_to_host": 5,
        "idle": 30,
        "host": 15,
    }
    assert found.kernels == 1
    analysis = analyze(tmp_path, "gpu")
    assert analysis.failure is None
    assert (analysis.devices, analysis.device_events) == (["/device:GPU:0"], 4)
    assert analysis.memory_peak_bytes == 1_000_000
    assert analysis.operations[0].name.startswith("sm90_xmma_gemm")
    assert {operation.where for operation in analysis.operations} == {"device", "host"}


def test_a_gpu_trace_without_kernels_is_a_failure_with_the_remedy(tmp_path: Path) -> None:
    write_chrome(tmp_path, STEPS, devices=[GPU])
    found = analyze(tmp_path, "gpu")
    assert "--cap-add=SYS_ADMIN" in str(found.failure)
    assert found.devices == ["/device:GPU:0"]


def test_findings_of_xprof_are_missing_with_a_reason(tmp_path: Path) -> None:
    write_chrome(tmp_path, STEPS)
    found = analyze(tmp_path, "cpu")
    assert found.failure is None
    assert found.breakdown is not None
    for name in ("xprof_steps", "xprof_verdict"):
        assert "xprof" in found.missing[name]
    assert "no operation" in found.missing["operations"]


def test_a_trace_without_a_step_marker_has_a_reason(tmp_path: Path) -> None:
    write_chrome(tmp_path, [])
    found = analyze(tmp_path, "cpu")
    assert found.failure is None
    assert "no step marker" in found.missing["breakdown"]


def test_host_and_folder_are_removed(tmp_path: Path) -> None:
    content = gzip.decompress(write_chrome(tmp_path, STEPS).read_bytes()).decode()
    assert "skynet" not in content
    assert "sarah" not in content
    assert json.loads(content)["host_name"] == "localhost"


@pytest.mark.parametrize(
    ("wrote", "kept"),
    [
        ("", False),
        ("{", False),
        ('{"schemaVersion": 1, "traceEvents": [{"ph"', False),
        ("{}", True),
        ('{"schemaVersion": 1, "traceEvents": [{"name": "a"b"}]}\n', True),
    ],
)
def test_an_incomplete_file_of_pytorch_is_rejected_and_an_invalid_one_kept(
    tmp_path: Path, wrote: str, kept: bool
) -> None:
    (tmp_path / "raw.json").write_text(wrote)
    with pytest.raises(Unreadable):
        finish(tmp_path / "raw.json", tmp_path / "new")
    assert [file.name for file in tmp_path.iterdir()] == ["raw.json"] * kept


def test_a_name_that_is_no_text_is_replaced(tmp_path: Path) -> None:
    raw, new = tmp_path / "raw.json", tmp_path / "new.pt.trace.json.gz"
    document = {"deviceProperties": [], "schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": 0}
    events = [chrome_event("cpu_op", "aten::mm", 110, 140), chrome_event("user_annotation", "Gr??e", 110, 150)]
    raw.write_bytes(json.dumps(document | {"traceEvents": [*STEPS, *events]}).encode().replace(b"?", b"\xff"))
    finish(raw, new)
    assert not raw.exists()
    assert broken_down(new)[0]["kernel"] == 10
    new.write_bytes(gzip.compress(gzip.decompress(new.read_bytes()).replace(rb"\ufffd", b"\xff")))
    assert broken_down(new)[0]["kernel"] == 10


@given(data=st.data())
@FIXTURE
def test_a_file_truncated_anywhere_is_rejected_with_a_reason(tmp_path: Path, data: st.DataObject) -> None:
    file = write_chrome(tmp_path, STEPS)
    complete = file.read_bytes()
    file.write_bytes(complete[: data.draw(st.integers(0, len(complete) - 1))])
    assert read(file).unreadable


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=3)
KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")


@given(noise=st.binary(max_size=300))
@FIXTURE
def test_random_bytes_are_rejected_with_a_reason(tmp_path: Path, noise: bytes) -> None:
    file = tmp_path / "noise.pt.trace.json.gz"
    for data in (noise, gzip.compress(noise)):
        file.write_bytes(data)
        assert read(file).unreadable


@given(changes=st.dictionaries(st.sampled_from(KEYS), JSON, min_size=1))
@FIXTURE
def test_a_malformed_event_never_raises(tmp_path: Path, changes: dict[str, object]) -> None:
    event = chrome_event("cpu_op", "aten::mm", 1, 2) | changes
    found = read(write_chrome(tmp_path, [*STEPS, event]))
    assert found.breakdown or "spans more than" in (found.unreadable or "")


@pytest.mark.parametrize("broken", [{"dur": -1}, {"ts": 1.7e15}, {"ph": None}, {"name": ["a"]}])
def test_an_invalid_event_is_left_out_and_counted(tmp_path: Path, broken: dict[str, object]) -> None:
    events = [
        *STEPS,
        chrome_event("cpu_op", "aten::mm", 110, 140),
        chrome_event("cpu_op", "aten::mm", 160, 180) | broken,
    ]
    file = write_chrome(tmp_path, events)
    assert broken_down(file)[0]["kernel"] == 10
    (error,) = read(file).errors
    assert re.search(r"\b1 of \d+ events", error)


def test_times_since_1970_are_named(tmp_path: Path) -> None:
    file = write_chrome(tmp_path, [event | {"ts": 1.7e15} for event in STEPS])
    assert "1970" in (read(file).unreadable or "")


@given(spans=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), max_size=30))
@FIXTURE
def test_the_parts_add_up_to_the_step_and_no_self_time_is_negative(
    tmp_path: Path, spans: list[tuple[int, int]]
) -> None:
    events = [chrome_event("cpu_op", "aten::mm", begin, begin + length) for begin, length in spans]
    found = read(write_chrome(tmp_path, [*STEPS, *events]))
    assert found.breakdown is not None
    assert sum(found.breakdown.parts.values()) == pytest.approx(found.breakdown.step_s)
    assert all(operation.self_s >= 0 for operation in found.operations)


@pytest.mark.slow
def test_a_real_trace_has_its_operators_and_no_host_name(torch_traces: Traced) -> None:
    folder = torch_traces.folder / "big products"
    found = analyze(folder, "cpu")
    assert found.operations_by == "raw events"
    assert "aten::mm" in {operation.name for operation in found.operations[:5]}
    content = json.loads(gzip.decompress((folder / str(found.file)).read_bytes()))
    assert content["host_name"] == "localhost"
    assert not re.search(rf'"{re.escape(socket.gethostname())}"|{re.escape(str(folder))}', json.dumps(content))
