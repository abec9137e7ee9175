"""The device timer: NVBench (`cuda-bench`) times work enqueued on a CUDA stream, isolated and in batches.

An isolated sample has the L2 cache flushed before it and its launch hidden behind a blocking kernel; the batch is the
same work back to back. NVBench's `stdrel` criterion stops the sampling, with the constants of
`accelbench.profiling.timing.host`.

NVBench registers benchmarks in one list per process and runs that list once: a process can be timed once, so the
runner gives every GPU point a worker of its own. That also keeps a CUDA error, which poisons the whole
context, from costing more than its own point.
"""

from __future__ import annotations

import ctypes
import json
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Literal

from accelbench.profiling.machine.nvidia.cuda import library
from accelbench.profiling.records.telemetry import Gauge
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.timing.host import MAX_RELATIVE_STDEV, MIN_SAMPLES, MIN_SECONDS
from accelbench.profiling.timing.statistics import summarize

THROTTLE_THRESHOLD = 0.75
"""The share of the default SM clock under which a sample counts as throttled; it is NVBench's own.

NVBench would throw such samples away itself, without saying how many, and leave a row empty on a card whose power limit
keeps it there. So it is told to keep them all, and `parse_timing` sorts them out by the clock recorded with each.
"""

Stop = Literal["relative spread", "steady noise", "time limit"]


def time_nvbench(run: Callable[[int], object], max_seconds: float) -> Timing:
    """Time `run(stream)`, which enqueues its work on that CUDA stream and returns, on device 0 of this process.

    `max_seconds` is NVBench's time limit, for the isolated and the batch measurement each. Whatever `run` raises is
    raised here. RuntimeError where there is no NVIDIA driver, or where this process has been timed before.
    """
    _require_driver()
    nvbench = library("cuda.bench")
    raised: list[BaseException] = []

    def launch(launch: Any) -> None:
        try:
            run(launch.get_stream().addressof())
        except BaseException as error:
            raised.append(error)  # NVBench would turn it into a skipped state with a shortened text
            raise

    def measure(state: Any) -> None:
        state.exec(launch)

    with TemporaryDirectory(prefix="accelbench-nvbench-") as folder:
        results = Path(folder) / "results.json"
        try:
            benchmark = nvbench.register(measure)
            benchmark.set_stopping_criterion("stdrel")
            benchmark.set_criterion_param_float64("max-noise", MAX_RELATIVE_STDEV)
            benchmark.set_criterion_param_float64("min-time", MIN_SECONDS)
            benchmark.set_min_samples(MIN_SAMPLES)
            benchmark.set_timeout(max_seconds)
            benchmark.set_throttle_threshold(0.0)
            # The first argument stands for the program; the user's own command line is none of NVBench's business.
            nvbench.run_all_benchmarks(["accelbench", "--quiet", "--devices", "0", "--jsonbin", str(results)])
        except Exception as error:
            if raised:
                raise raised[0] from None
            if "already executed" in str(error) or "after benchmark was run" in str(error):
                raise RuntimeError("NVBench times once per process: give each GPU point its own worker") from error
            raise
        if raised:
            raise raised[0]
        return read_timing(results, max_seconds)


def _require_driver() -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise RuntimeError(
            "GPU timing needs the NVIDIA driver, and libcuda.so.1 was not found: "
            "install the driver, or start the container with GPU access (docker --gpus all, apptainer --nv)"
        ) from error


def read_timing(results: Path, max_seconds: float) -> Timing:
    """Read the timing of the one state in an NVBench `--jsonbin` result file and the sample files beside it."""
    document = json.loads(results.read_text(encoding="utf-8"))
    state = document["benchmarks"][0]["states"][0]
    return parse_timing(
        document,
        samples=_read_floats(results, state, "nv/json/bin:nv/cold/sample_times"),
        clocks=_read_floats(results, state, "nv/json/freqs-bin:nv/cold/sample_freqs"),
        max_seconds=max_seconds,
    )


def _read_floats(results: Path, state: Mapping[str, Any], tag: str) -> list[float]:
    """Read the little-endian float32 values in the file that a state's summary names; none where it names none."""
    summary = _summaries(state).get(tag)
    if summary is None:
        return []
    # NVBench records the path it wrote to: absolute like the one it was given, or relative to the result file.
    values = array("f", (results.parent / str(summary["filename"])).read_bytes())
    if len(values) != int(summary["size"]):
        raise ValueError(f"{summary['filename']} holds {len(values)} values, and {results.name} says {summary['size']}")
    return list(values)


def parse_timing(
    document: Mapping[str, Any], samples: Sequence[float], clocks: Sequence[float], max_seconds: float
) -> Timing:
    """Return the timing that an NVBench result document describes; this is a pure function.

    `samples` are seconds per isolated execution, `clocks` the mean SM clock in Hz during each (or none). Throttled
    samples are discarded and counted as long as `MIN_SAMPLES` remain; on a card that is always throttled all are
    kept, and telemetry says why they are slow. RuntimeError with NVBench's reason where it skipped the state.

    Source of the format: `cuda/bench/results/_benchmark_result.py` in the cuda-bench 0.3.0 wheel.
    """
    state = document["benchmarks"][0]["states"][0]
    if state.get("is_skipped"):
        raise RuntimeError(f"NVBench skipped the measurement: {state.get('skip_reason') or 'no reason given'}")
    if not samples:
        raise RuntimeError("NVBench returned no samples")
    if clocks and len(clocks) != len(samples):
        raise ValueError(f"NVBench returned {len(samples)} samples and {len(clocks)} clocks")
    summaries = _summaries(state)
    unthrottled = _unthrottled(clocks, _default_clock(document, state)) or range(len(samples))
    kept = unthrottled if len(unthrottled) >= MIN_SAMPLES else range(len(samples))
    seconds = [samples[number] for number in kept]
    batch = summaries.get("nv/batch/time/gpu/mean", {}).get("value")
    return Timing(
        samples=seconds,
        stop=_stop(summaries, samples, max_seconds),
        timer="nvbench",
        batch=None if batch is None else float(batch),
        discarded=len(samples) - len(seconds),
        sm_clock=_clock([clocks[number] for number in kept] if clocks else []),
        sm_clock_first_last=_first_last(clocks),
        summary=summarize(seconds),
    )


def _summaries(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the named values of each of a state's summaries, by tag; NVBench writes 64-bit numbers as strings."""
    return {
        summary["tag"]: {field["name"]: field["value"] for field in summary.get("data") or []}
        for summary in state.get("summaries") or []
    }


def _default_clock(document: Mapping[str, Any], state: Mapping[str, Any]) -> float | None:
    """Return the default SM clock in Hz of the device that the state ran on."""
    for device in document.get("devices") or []:
        if device["id"] == state.get("device"):
            return float(device["sm_default_clock_rate"])
    return None


def _unthrottled(clocks: Sequence[float], default_clock: float | None) -> list[int]:
    """Return the numbers of the samples whose clock was above the threshold; none where clocks are not known."""
    if default_clock is None:
        return []
    floor = THROTTLE_THRESHOLD * default_clock
    return [number for number, clock in enumerate(clocks) if clock >= floor or not _is_clock(clock)]


def _clock(clocks: Sequence[float]) -> Gauge | None:
    """Return the smallest, median and largest of these clocks, given in Hz, as MHz."""
    known = [clock / 1e6 for clock in clocks if _is_clock(clock)]
    return Gauge(minimum=min(known), median=median(known), maximum=max(known), unit="MHz") if known else None


def _first_last(clocks: Sequence[float]) -> tuple[float, float] | None:
    """Return the median clock in MHz of the samples' first and last third; None of fewer than `MIN_SAMPLES`."""
    known = [clock / 1e6 for clock in clocks if _is_clock(clock)]
    third = len(known) // 3
    return (median(known[:third]), median(known[-third:])) if len(known) >= MIN_SAMPLES else None


def _is_clock(clock: float) -> bool:
    """Return whether it is a clock: NVBench divides by a timer of 1 µs, which gives infinity for short kernels."""
    return math.isfinite(clock) and clock > 0


def _stop(summaries: Mapping[str, Mapping[str, Any]], samples: Sequence[float], max_seconds: float) -> Stop:
    """Return the rule that ended the sampling; NVBench does not name it, but what it wrote tells it.

    It asks for the spread first, then for a noise that has stopped changing, and last for the time (`measure_cold.cu`,
    `stdrel_criterion.cxx`).
    """
    spread = summaries["nv/cold/time/gpu/stdev/relative"]["value"]
    enough = len(samples) >= MIN_SAMPLES and sum(samples) >= MIN_SECONDS
    if enough and spread is not None and float(spread) < MAX_RELATIVE_STDEV:
        return "relative spread"
    if float(summaries["nv/cold/walltime"]["value"]) > max_seconds:
        return "time limit"
    return "steady noise"
