"""Tests of reading NVBench's results, on a synthetic document in the format of cuda-bench 0.3.0.

The format is in `cuda/bench/scripts/test_ref.json` and `cuda/bench/results/_benchmark_result.py` of the wheel:
summaries by tag, 64-bit numbers as strings, samples and clocks as float32 files next to the JSON.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.machine.nvidia.nvbench import launch_times, parse_timing, read_timing, time_nvbench
from accelbench.profiling.records.telemetry import Gauge

DEFAULT_CLOCK = 1_980_000_000
FULL_SPEED, THROTTLED = 1_755_000_000.0, 1_200_000_000.0
LIMIT = 15.0


def summary(tag: str, **values: float | int | str) -> dict[str, Any]:
    types = {int: "int64", float: "float64", str: "string"}
    data = [{"name": name, "type": types[type(v)], "value": str(v)} for name, v in values.items()]
    return {"tag": tag, "name": tag.rsplit("/", 1)[-1], "hint": "duration", "description": "…", "data": data}


def document(
    *, spread: float = 0.0006, walltime: float = 0.6, extra: tuple[dict[str, Any], ...] = ()
) -> dict[str, Any]:
    state = {
        "name": "Device=0", "min_samples": 10, "skip_time": -1.0, "timeout": LIMIT, "device": 0,
        "type_config_index": 0, "axis_values": None,
        "summaries": [
            summary("nv/cold/sample_size", value=499),
            summary("nv/cold/time/cpu/mean", value=0.00101),
            summary("nv/cold/time/gpu/mean", value=0.001003),
            summary("nv/cold/time/gpu/stdev/relative", value=spread),
            summary("nv/cold/walltime", value=walltime),
            summary("nv/cold/sm_clock_rate/mean", value=1.75e9),
            summary("nv/batch/sample_size", value=524),
            summary("nv/batch/time/gpu/mean", value=0.000912),
            *extra,
        ],
        "is_skipped": False,
    }  # fmt: skip
    return {
        "meta": {"argv": ["accelbench"], "version": {"json": {"string": "1.0.0"}}},
        "devices": [{"id": 0, "name": "NVIDIA H200", "sm_default_clock_rate": DEFAULT_CLOCK}],
        "benchmarks": [{"name": "measure", "index": 0, "devices": [0], "axes": None, "states": [state]}],
    }


def state_of(result: dict[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = result["benchmarks"][0]["states"][0]
    return state


def test_isolated_samples_and_batch_time_are_both_reported() -> None:
    samples = [0.001, 0.0011, 0.0009] * 200
    timing = parse_timing(document(), samples, [FULL_SPEED] * 600, LIMIT)
    assert (timing.samples, timing.batch, timing.timer, timing.discarded) == (samples, 0.000912, "nvbench", 0)
    assert timing.summary.median == 0.001


@pytest.mark.parametrize(
    ("spread", "walltime", "stop"),
    [(0.0006, 0.6, "relative spread"), (0.03, 4.0, "steady noise"), (0.03, 15.002, "time limit")],
)
def test_the_rule_that_stopped_the_sampling_is_named(spread: float, walltime: float, stop: str) -> None:
    timing = parse_timing(document(spread=spread, walltime=walltime), [0.001] * 600, [FULL_SPEED] * 600, LIMIT)
    assert timing.stop == stop


def test_a_small_spread_of_too_few_samples_is_not_the_stop_rule() -> None:
    timing = parse_timing(document(spread=0.0, walltime=15.1), [6.0, 6.0, 6.0], [FULL_SPEED] * 3, LIMIT)
    assert timing.stop == "time limit"


@given(throttled=st.lists(st.booleans(), min_size=1, max_size=60))
def test_throttled_samples_are_kept(throttled: list[bool]) -> None:
    samples = [0.001 * (2 if slow else 1) for slow in throttled]
    clocks = [THROTTLED if slow else FULL_SPEED for slow in throttled]
    timing = parse_timing(document(), samples, clocks, LIMIT)
    assert (timing.samples, timing.discarded) == (samples, 0)


def test_samples_without_clocks_are_all_kept() -> None:
    timing = parse_timing(document(), [0.001] * 20, [], LIMIT)
    assert (timing.discarded, timing.sm_clock, timing.sm_clock_first_last) == (0, None, None)


def test_the_clock_is_the_one_of_all_samples() -> None:
    clocks = [FULL_SPEED + 1e6 * number for number in range(11)] + [THROTTLED] * 9
    timing = parse_timing(document(), [0.001] * 20, clocks, LIMIT)
    assert timing.sm_clock == Gauge(minimum=1200, median=1755.5, maximum=1765, unit="MHz")
    assert timing.sm_clock_first_last == (1757.5, 1200), "first and last six"


def test_an_invalid_clock_is_not_in_the_median() -> None:
    clocks = [FULL_SPEED] * 12 + [math.inf, math.nan, 0.0]
    timing = parse_timing(document(), [0.001] * 15, clocks, LIMIT)
    assert timing.sm_clock == Gauge(minimum=1755, median=1755, maximum=1755, unit="MHz")
    assert parse_timing(document(), [0.001] * 3, [math.inf] * 3, LIMIT).sm_clock is None


def test_clocks_that_do_not_match_the_samples_are_an_error() -> None:
    with pytest.raises(ValueError, match="20 samples and 19 clocks"):
        parse_timing(document(), [0.001] * 20, [FULL_SPEED] * 19, LIMIT)


def test_a_skipped_state_is_an_error_with_nvbenchs_reason() -> None:
    result = document()
    state_of(result).update(is_skipped=True, skip_reason="cudaErrorIllegalAddress", summaries=None)
    with pytest.raises(RuntimeError, match="cudaErrorIllegalAddress"):
        parse_timing(result, [], [], LIMIT)


def test_no_samples_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no samples"):
        parse_timing(document(), [], [], LIMIT)


def write(folder: Path, samples: list[float], size: int) -> Path:
    path = folder / "results.json"
    files = {"bin:nv/cold/sample_times": samples, "freqs-bin:nv/cold/sample_freqs": [FULL_SPEED] * len(samples)}
    extra = []
    for kind, values in files.items():
        binary = folder / f"results.json-{kind.split(':')[0]}" / "0.bin"
        binary.parent.mkdir()
        binary.write_bytes(struct.pack(f"<{len(values)}f", *values))
        extra.append(summary(f"nv/json/{kind}", filename=str(binary), size=size))
    path.write_text(json.dumps(document(extra=tuple(extra))), encoding="utf-8")
    return path


def test_samples_are_read_from_the_files_named_in_the_result(tmp_path: Path) -> None:
    timing = read_timing(write(tmp_path, [0.5, 0.25, 0.125], size=3), LIMIT)
    assert timing.samples == [0.5, 0.25, 0.125]
    assert timing.sm_clock is not None
    assert timing.sm_clock.median == pytest.approx(1755)  # a float32 in the file


def test_a_truncated_sample_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"0\.bin .*3 .*4$"):
        read_timing(write(tmp_path, [0.5, 0.25, 0.125], size=4), LIMIT)


def test_without_a_driver_the_error_names_the_library_and_the_container_flags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> NoReturn:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", missing)
    with pytest.raises(RuntimeError, match=r"libcuda\.so\.1 .*--gpus all"):
        time_nvbench(lambda stream: None, 1.0)


def test_launch_times_are_those_of_the_samples() -> None:
    samples = [0.001] * 20
    calls = [0.002 * number for number in range(21)] + [1.0] * 50
    assert launch_times(calls, samples) == calls[1:21]
    assert launch_times(calls[:20], samples) == [], "a call is missing"
    assert launch_times([0.0001 * number for number in range(100)], samples) == [], "calls of a batch"
