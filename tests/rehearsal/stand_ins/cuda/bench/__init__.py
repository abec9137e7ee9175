"""Stand-in for NVBench's Python interface (cuda-bench 0.3.0) on the simulated driver.

It calls the measured function NVBench's minimum number of times on a separate stream, first isolated, then batched. The
times are synthetic, about a millisecond each; the result files have NVBench's format. Like NVBench, it holds the GIL
during the measurement. It has only the functions that accelbench calls.
"""

from __future__ import annotations

import ctypes
import json
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, SupportsFloat, SupportsInt

SECONDS, SPREAD, COUNT = 1e-3, 1e-3, 600
CLOCK_HZ, DEFAULT_CLOCK_HZ = 1.650e9, 1_980_000_000
"""Clock during the samples, different from NVML's reading."""
ISOLATED, BATCHED = 12, 8
MEASURING_US = 700_000
STREAM = 0x7700

_registered: list[Benchmark] = []
_executed = False


class NVBenchRuntimeError(RuntimeError): ...


class CudaStream:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, STREAM

    def addressof(self) -> int:
        return STREAM


class Launch:
    def get_stream(self) -> CudaStream:
        return CudaStream()


class State:
    def exec(
        self, fn: Callable[[Launch], None], /, *, batched: bool | None = None, sync: bool = False, timer: bool = False
    ) -> None:
        for _ in range(ISOLATED + BATCHED * (batched is not False)):
            fn(Launch())
        ctypes.PyDLL(None).usleep(MEASURING_US)  # a call through PyDLL keeps the GIL


class Benchmark:
    def __init__(self, fn: Callable[[State], None]) -> None:
        self.measure = fn

    def set_stopping_criterion(self, criterion: str) -> Benchmark:
        if criterion not in ("stdrel", "entropy", "sample-count"):
            raise NVBenchRuntimeError(f"unknown stopping criterion {criterion}")
        return self

    def set_criterion_param_float64(self, name: str, value: SupportsFloat) -> Benchmark:
        if name not in ("max-noise", "min-time", "max-angle", "min-r2"):
            raise NVBenchRuntimeError(f"unknown criterion parameter {name}")
        return self

    def set_min_samples(self, count: SupportsInt) -> Benchmark:
        return self

    def set_timeout(self, duration_seconds: SupportsFloat) -> Benchmark:
        return self

    def set_throttle_threshold(self, threshold: SupportsFloat) -> Benchmark:
        return self


def register(fn: Callable[[State], None], /) -> Benchmark:
    if _executed:
        raise RuntimeError("Can not register more benchmarks after benchmark was run")
    _registered.append(Benchmark(fn))
    return _registered[-1]


def run_all_benchmarks(argv: Sequence[str]) -> None:
    global _executed
    if _executed:
        raise NVBenchRuntimeError("Benchmarks were already executed")
    _executed = True
    results = Path(argv[argv.index("--jsonbin") + 1])
    state: dict[str, Any] = {"name": "Device=0", "device": 0, "is_skipped": False, "summaries": None}
    try:
        _registered[0].measure(State())
    except Exception as error:  # noqa: BLE001 - NVBench turns any exception into a skipped state
        state |= {"is_skipped": True, "skip_reason": str(error)}
    else:
        state["summaries"] = _summaries(results)
    device = {
        "id": 0,
        "name": "NVIDIA H100 80GB HBM3 (PTX interpreter, no GPU)",
        "sm_default_clock_rate": DEFAULT_CLOCK_HZ,
    }
    benchmark = {"name": "measure", "index": 0, "devices": [0], "axes": None, "states": [state]}
    results.write_text(json.dumps({"meta": {}, "devices": [device], "benchmarks": [benchmark]}), encoding="utf-8")


def _summaries(results: Path) -> list[dict[str, Any]]:
    draw = random.Random(1)
    times = [SECONDS * draw.gauss(1, SPREAD) for _ in range(COUNT)]
    return [
        _summary("nv/cold/sample_size", value=COUNT),
        _summary("nv/cold/walltime", value=sum(times)),
        _summary("nv/cold/time/gpu/stdev/relative", value=SPREAD),
        _summary("nv/batch/time/gpu/mean", value=0.98 * SECONDS),
        _stored(results, "nv/json/bin:nv/cold/sample_times", "-bin", times),
        _stored(results, "nv/json/freqs-bin:nv/cold/sample_freqs", "-freqs-bin", [CLOCK_HZ] * COUNT),
    ]


def _stored(results: Path, tag: str, suffix: str, values: Sequence[float]) -> dict[str, Any]:
    """Write the values as 32-bit floats to a file next to the results, and return a summary with its name."""
    folder = results.with_name(results.name + suffix)
    folder.mkdir()
    (folder / "0.bin").write_bytes(struct.pack(f"<{len(values)}f", *values))
    return _summary(tag, filename=f"{folder.name}/0.bin", size=len(values))


def _summary(tag: str, **values: float | int | str) -> dict[str, Any]:
    """Return a summary in NVBench's format, with 64-bit numbers as strings."""
    kinds = {int: "int64", float: "float64", str: "string"}
    data = [{"name": name, "type": kinds[type(value)], "value": str(value)} for name, value in values.items()]
    return {"tag": tag, "name": tag.rpartition("/")[2], "data": data}
