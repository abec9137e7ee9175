"""Tests of reading `*.xplane.pb` traces, complete or rejected with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelbench.profiling.trace.events import read_events
from accelbench.profiling.trace.lines import Unreadable
from accelbench.profiling.trace.xplane import CLOSING_PLANE, XplaneTrace, messages, remove_host
from tests.fixtures.made_traces import write_trace
from tests.profiling.trace.conftest import Traced

MADE = {
    "/host:CPU": {"python": [("train", i * 10.0, i * 10.0 + 9) for i in range(5)]},
    "/device:GPU:0": {"Stream #7(Compute)": [("gemm", i * 10.0, i * 10.0 + 5) for i in range(5)]},
}


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_truncated_anywhere_is_rejected_with_a_reason(tmp_path: Path, data: st.DataObject) -> None:
    complete = write_trace(tmp_path, MADE).read_bytes()
    cut = tmp_path / "cut.xplane.pb"
    cut.write_bytes(complete[: data.draw(st.integers(0, len(complete) - 1))])
    found = read_events(cut, tmp_path / "out")
    assert found.unreadable
    assert found.breakdown is None


@given(noise=st.binary(max_size=300))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_are_rejected_with_a_reason(tmp_path: Path, noise: bytes) -> None:
    file = tmp_path / "noise.xplane.pb"
    file.write_bytes(noise)
    assert read_events(file, tmp_path / "out").unreadable


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_flipped_byte_never_raises(tmp_path: Path, data: st.DataObject) -> None:
    complete = bytearray(write_trace(tmp_path, MADE).read_bytes())
    complete[data.draw(st.integers(0, len(complete) - 1))] = data.draw(st.integers(0, 255))
    file = tmp_path / "flipped.xplane.pb"
    file.write_bytes(complete)
    read_events(file, tmp_path / "out")


def test_a_truncated_real_trace_is_rejected(xplane_traces: Traced, tmp_path: Path) -> None:
    complete = (xplane_traces.folder / "small" / str(xplane_traces.outcomes["small"].file)).read_bytes()
    cut = tmp_path / "cut.xplane.pb"
    for size in range(0, len(complete), 1 + len(complete) // 60):
        cut.write_bytes(complete[:size])
        assert read_events(cut, tmp_path / "out").unreadable, f"{size} of {len(complete)} bytes"


def test_an_empty_trace_or_one_without_the_closing_plane_is_rejected(tmp_path: Path) -> None:
    file = write_trace(tmp_path, {})
    file.write_bytes(b"")
    with pytest.raises(Unreadable, match="is empty"):
        XplaneTrace(file)
    file.write_bytes(b"\x0a\x00")
    with pytest.raises(Unreadable, match=f"no plane '{CLOSING_PLANE}'"):
        XplaneTrace(file)


def test_a_cut_keeps_events_that_begin_before_it(tmp_path: Path) -> None:
    complete = XplaneTrace(write_trace(tmp_path, MADE))
    complete.cut(until_ps=25_000_000, path=tmp_path / "cut.xplane.pb")
    cut = XplaneTrace(tmp_path / "cut.xplane.pb")
    assert sorted(cut.planes) == sorted(complete.planes)
    assert {line.plane: len(line.kinds) for line in cut.lines()} == {"/host:CPU": 3, "/device:GPU:0": 3}


def test_the_host_is_removed_from_content_and_file_names(tmp_path: Path) -> None:
    file = write_trace(tmp_path, MADE)
    named = messages()["XSpace"].FromString(file.read_bytes())
    named.hostnames.append(b"skynet-7")
    old = file.with_name("skynet-7.xplane.pb")
    old.write_bytes(named.SerializeToString())
    file.unlink()
    old.with_name("skynet-7.trace.json.gz").touch()
    lines = [len(line.kinds) for line in XplaneTrace(old).lines()]
    new = remove_host(old)
    assert sorted(path.name for path in file.parent.iterdir()) == ["localhost.trace.json.gz", "localhost.xplane.pb"]
    assert b"skynet" not in new.read_bytes()
    assert messages()["XSpace"].FromString(new.read_bytes()).hostnames == [b"localhost"]
    assert [len(line.kinds) for line in XplaneTrace(new).lines()] == lines
    assert remove_host(new) == new


def test_a_captured_trace_contains_only_localhost(xplane_traces: Traced) -> None:
    file = xplane_traces.folder / "small" / str(xplane_traces.outcomes["small"].file)
    assert file.name == "localhost.xplane.pb"
    assert set(messages()["XSpace"].FromString(file.read_bytes()).hostnames) <= {b"localhost"}
    assert {path.name.partition(".")[0] for path in file.parent.iterdir()} == {"localhost"}
