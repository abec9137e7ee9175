"""Timing of CUDA streams with NVBench (`cuda-bench`), as isolated samples and as a batch.

Before an isolated sample the L2 cache is flushed, and a blocking kernel hides the launch latency; the batch is the
same work back to back. NVBench's `stdrel` criterion stops the sampling, with the constants of
`accelbench.profiling.timing.host`.

NVBench runs its list of benchmarks once per process, so the runner starts a separate worker for every GPU point. A CUDA
error, which invalidates the context, then affects only its own point.
"""

from __future__ import annotations

import ctypes
import json
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Literal

from accelbench.profiling.machine.nvidia.cuda import library
from accelbench.profiling.records.telemetry import Gauge
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.timing.host import MAX_RELATIVE_STDEV, MIN_SAMPLES, MIN_SECONDS
from accelbench.profiling.timing.statistics import summarize

CLOSEST = 0.99
"""Smallest distance of two launches, relative to the sample between them; a float32 has fewer digits than a clock."""

Stop = Literal["relative spread", "steady noise", "time limit"]


def time_nvbench(run: Callable[[int], object], max_seconds: float, launched: list[float] | None = None) -> Timing:
    """Time `run(stream)`, which enqueues work on a CUDA stream of device 0 without waiting; return the timing.

    `max_seconds` is NVBench's time limit, for the isolated and the batch measurement each. `launched` receives the time
    of each sample's launch by `perf_counter`; it remains empty if the calls do not fit the samples. Exceptions of `run`
    are reraised. Raises RuntimeError without an NVIDIA driver, or if this process has been timed before.
    """
    _require_driver()
    nvbench = library("cuda.bench")
    raised: list[BaseException] = []
    calls: list[float] = []

    def launch(launch: Any) -> None:
        calls.append(perf_counter())
        try:
            run(launch.get_stream().addressof())
        except BaseException as error:
            raised.append(error)  # NVBench would report a skipped state with a shortened message
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
            # NVBench would discard the samples with a low SM clock: at a card's power limit all but the first ones.
            benchmark.set_throttle_threshold(0.0)
            # The first argument is the program name; NVBench would otherwise parse accelbench's own arguments.
            nvbench.run_all_benchmarks(["accelbench", "--quiet", "--devices", "0", "--jsonbin", str(results)])
        except Exception as error:
            if raised:
                raise raised[0] from None
            if "already executed" in str(error) or "after benchmark was run" in str(error):
                raise RuntimeError("NVBench times once per process: use a new process for each measurement") from error
            raise
        if raised:
            raise raised[0]
        timing = read_timing(results, max_seconds)
        if launched is not None:
            launched += launch_times(calls, timing.samples)
        return timing


def launch_times(calls: Sequence[float], samples: Sequence[float]) -> list[float]:
    """Return the launch time of each sample, given the times of all calls; empty if they do not fit.

    NVBench calls once for its warm-up, then once for each isolated sample, which it waits for. The calls of the batch
    measurement follow.
    """
    found = list(calls[1 : 1 + len(samples)])
    apart = zip(samples, pairwise(found), strict=False)
    fits = len(found) == len(samples) and all(after - before >= CLOSEST * sample for sample, (before, after) in apart)
    return found if fits else []


def _require_driver() -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise RuntimeError(
            "GPU timing needs the NVIDIA driver, and libcuda.so.1 was not found: "
            "install the driver, or start the container with GPU access (docker --gpus all, apptainer --nv)"
        ) from error


def read_timing(results: Path, max_seconds: float) -> Timing:
    """Return the timing of the only state in an NVBench `--jsonbin` result file and its sample files."""
    document = json.loads(results.read_text(encoding="utf-8"))
    state = document["benchmarks"][0]["states"][0]
    return parse_timing(
        document,
        samples=_read_floats(results, state, "nv/json/bin:nv/cold/sample_times"),
        clocks=_read_floats(results, state, "nv/json/freqs-bin:nv/cold/sample_freqs"),
        max_seconds=max_seconds,
    )


def _read_floats(results: Path, state: Mapping[str, Any], tag: str) -> list[float]:
    """Return the little-endian float32 values in the file of a state's summary; empty without this summary."""
    summary = _summaries(state).get(tag)
    if summary is None:
        return []
    # The recorded path is absolute if the path of the result file was, else relative to the result file.
    values = array("f", (results.parent / str(summary["filename"])).read_bytes())
    if len(values) != int(summary["size"]):
        raise ValueError(f"{summary['filename']} has {len(values)} values instead of {summary['size']}")
    return list(values)


def parse_timing(
    document: Mapping[str, Any], samples: Sequence[float], clocks: Sequence[float], max_seconds: float
) -> Timing:
    """Return the timing in an NVBench result document.

    `samples` are seconds per isolated execution, `clocks` the mean SM clock in Hz during each sample (or empty).
    Raises RuntimeError with NVBench's reason if it skipped the state.

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
    batch = summaries.get("nv/batch/time/gpu/mean", {}).get("value")
    return Timing(
        samples=list(samples),
        stop=_stop(summaries, samples, max_seconds),
        timer="nvbench",
        batch=None if batch is None else float(batch),
        sm_clock=_clock(clocks),
        sm_clock_first_last=_first_last(clocks),
        summary=summarize(samples),
    )


def _summaries(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the values of a state's summaries by tag and name; NVBench writes 64-bit numbers as strings."""
    return {
        summary["tag"]: {field["name"]: field["value"] for field in summary.get("data") or []}
        for summary in state.get("summaries") or []
    }


def _clock(clocks: Sequence[float]) -> Gauge | None:
    """Return minimum, median and maximum of clocks in Hz, as MHz."""
    known = [clock / 1e6 for clock in clocks if _is_clock(clock)]
    return Gauge(minimum=min(known), median=median(known), maximum=max(known), unit="MHz") if known else None


def _first_last(clocks: Sequence[float]) -> tuple[float, float] | None:
    """Return the median clock in MHz of the first and last third of the samples; None below `MIN_SAMPLES` samples."""
    known = [clock / 1e6 for clock in clocks if _is_clock(clock)]
    third = len(known) // 3
    return (median(known[:third]), median(known[-third:])) if len(known) >= MIN_SAMPLES else None


def _is_clock(clock: float) -> bool:
    """Return whether the clock is valid: NVBench's timer has a resolution of 1 µs, so short kernels give infinity."""
    return math.isfinite(clock) and clock > 0


def _stop(summaries: Mapping[str, Mapping[str, Any]], samples: Sequence[float], max_seconds: float) -> Stop:
    """Return the rule that stopped the sampling, inferred from NVBench's summaries, which do not name it.

    NVBench checks the relative spread first, then whether the noise still changes, and last the time limit
    (`measure_cold.cu`, `stdrel_criterion.cxx`).
    """
    spread = summaries["nv/cold/time/gpu/stdev/relative"]["value"]
    enough = len(samples) >= MIN_SAMPLES and sum(samples) >= MIN_SECONDS
    if enough and spread is not None and float(spread) < MAX_RELATIVE_STDEV:
        return "relative spread"
    if float(summaries["nv/cold/walltime"]["value"]) > max_seconds:
        return "time limit"
    return "steady noise"
