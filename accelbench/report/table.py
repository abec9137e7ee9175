"""Records as flat tables, one row per point: `records.csv`, and `records.parquet` with descriptions of the columns."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from accelbench.output.atomic_file import write_atomically
from accelbench.profiling.analysis.energy import energy_of_execution, mean_power, work_per_joule
from accelbench.profiling.analysis.roofline import (
    Ceiling,
    arithmetic_intensity,
    observed_clock,
    share_of_ceiling,
    share_of_peak,
    share_of_peak_at_clock,
)
from accelbench.profiling.analysis.uncertain_quality import quality_interval
from accelbench.profiling.records.record import Record
from accelbench.report.rows import shell_command, summarize_gauges

if TYPE_CHECKING:
    import pandas as pd

    from accelbench.execution.store import RunInfo, RunStore
    from accelbench.report.section import Run

COLUMNS: Mapping[str, tuple[str, str]] = {
    "run_id": ("str", "id of the run"),
    "benchmark": ("str", "benchmark"),
    "device": ("str", "cpu, gpu or tpu"),
    "backend": ("str", "Keras backend; null for a kernel"),
    "seed": ("int", "seed of the random inputs"),
    "status": ("str", "measured, failed or skipped"),
    "reason": ("str", "reason why the point failed or was skipped"),
    "started": ("time", "start time of the point, UTC"),
    "elapsed_s": ("float", "wall seconds of the point, all phases"),
    "rounds": ("int", "repetitions, each in a new process; the median and its interval are over them"),
    "median_s": ("float", "median seconds of one execution, or of one training step"),
    "ci_low_s": ("float", "lower bound of the median's interval, seconds"),
    "ci_high_s": ("float", "upper bound of the median's interval, seconds"),
    "ci_confidence": ("float", "actual coverage of the interval"),
    "minimum_s": ("float", "fastest sample, seconds"),
    "q1_s": ("float", "first quartile, seconds"),
    "q3_s": ("float", "third quartile, seconds"),
    "maximum_s": ("float", "slowest sample, seconds"),
    "mean_s": ("float", "mean, seconds; for training workloads without the time between epochs"),
    "relative_stdev": ("float", "standard deviation divided by the mean"),
    "samples": ("int", "number of samples"),
    "outliers": ("int", "samples beyond Tukey's inner fences"),
    "discarded": ("int", "samples discarded because the device was throttled"),
    "loops": ("int", "executions per sample"),
    "stop": ("str", "rule that ended sampling"),
    "timer": ("str", "host, nvbench or steps"),
    "steady_steps": ("int", "training steps after warm-up, over which the rate is computed"),
    "steady_s": ("float", "seconds of these steps, including time between epochs, without the suite's own evaluation"),
    "batch_s": ("float", "GPU: seconds per execution, back to back"),
    "clean_share": ("float", "share of the samples without a recorded disturbance; null if the causes are unknown"),
    "upper_bound": ("str", "reason why times are upper bounds and rates lower ones; null for an estimate"),
    "figure": ("str", "metric: flops, bytes, items, or time"),
    "rate": ("float", "work per second at the median (training: over all steady time); the seconds if figure is time"),
    "rate_low": ("float", "rate at the slower end of the interval (figure time: lower end, null for a bound)"),
    "rate_high": ("float", "rate at the faster end of the interval, null for a bound (figure time: upper end)"),
    "unit": ("str", "unit of the rate"),
    "flops": ("float", "floating-point operations of one execution"),
    "bytes": ("float", "bytes that one execution must move"),
    "items": ("float", "items of one execution"),
    "item": ("str", "name of an item"),
    "data": ("str", "training and test data"),
    "data_note": ("str", "note on the quality metrics measured with the data"),
    "data_synthetic": ("bool", "whether the data are synthetic; null if nothing was trained"),
    "arithmetic_intensity": ("float", "flops per byte"),
    "dtype": ("str", "dtype of the arithmetic that peak and ceiling refer to"),
    "peak": ("float", "vendor's peak, FLOP/s or byte/s"),
    "peak_reason": ("str", "reason why no peak is known"),
    "peak_unit_kind": ("str", "hardware unit with this peak"),
    "peak_source": ("str", "vendor's document with the peak"),
    "share_of_peak": ("float", "rate divided by peak; for training the MFU"),
    "share_of_peak_at_clock": ("float", "rate divided by the peak at the observed clock"),
    "observed_clock_mhz": ("float", "GPU: median SM clock during the measurement"),
    "observed_clock_source": ("str", "source of the clock: NVBench (kept samples), or NVML (during the measurement)"),
    "ceiling": ("float", "highest rate of this kind measured on this device, FLOP/s or byte/s"),
    "share_of_ceiling": ("float", "rate divided by ceiling"),
    "share_of_ceiling_reason": ("str", "reason why share_of_ceiling is unknown"),
    "mean_power_w": ("float", "mean power of the GPUs or CPU packages during the measurement, watts"),
    "energy_j": ("float", "joules of one execution, or of one training step, at most that for an upper bound"),
    "work_per_joule": ("float", "flops, bytes or items per joule, at least that for an upper bound of the time"),
    "verified": ("bool", "whether the result was correct; null if not checked"),
    "verification": ("str", "method of verification"),
    "error": ("float", "error of the result"),
    "tolerance": ("float", "tolerated error"),
    "import_s": ("float", "seconds of imports, all workers"),
    "prepare_s": ("float", "seconds of preparation"),
    "first_call_s": ("float", "seconds of the first execution: compilation, autotuning, tracing"),
    "warmup_s": ("float", "seconds of warm-up"),
    "measure_s": ("float", "seconds of measurement"),
    "verify_s": ("float", "seconds of verification"),
    "profile_s": ("float", "seconds of profiling, after the measurement"),
    "bottleneck": ("str", "bottleneck of a training workload; null if unknown or not profiled"),
    "bottleneck_beside": ("str", "causes that may be as large as the bottleneck, separated by semicolons"),
    "bottleneck_reason": ("str", "reason why the bottleneck is unknown"),
    "noise": ("str", "causes of noise, separated by semicolons; empty if the result is not noisy"),
    "held_back": ("str", "settings that limit the libraries below the CPU's capability, separated by semicolons"),
    "cpu_first": ("int", "logical CPU of the measuring thread at the start of the first repetition"),
    "cpu_last": ("int", "logical CPU of the measuring thread at the end of the first repetition"),
    "pinned": ("bool", "whether the measuring thread was pinned to one CPU"),
    "throttle_reasons": ("str", "throttle reasons reported by the device, separated by semicolons"),
    "command": ("str", "command line that repeats the measurement"),
}
"""Type and description of the columns of every table.

Additional columns depend on the records: `param.<axis>`; `metric.<name>`, with its unit in the description;
`quality.<name>.low` and `.high`, the interval; `telemetry.<gauge>`, the median reading, combined over all cores for
gauges per core; `counter.<name>`.
"""

PIECE = 1000
"""Maximum number of lines in memory at once."""
EPOCH = datetime.fromtimestamp(0, UTC)
_ARROW = {
    "str": pa.large_string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us", tz="UTC"),
}
_PANDAS = {"str": ("object", "string"), "int": ("int64", "Int64"), "float": ("float64", "Float64")}
_PANDAS |= {"bool": ("bool", "boolean"), "time": ("datetimetz", "datetime64[us]")}


def write_tables(store: RunStore, run: Run) -> None:
    """Write `records.csv` and `records.parquet` with all points of the run into its directory."""
    columns = find_columns(run.all_records())
    schema = _schema(columns)
    sink = pa.BufferOutputStream()  # Arrow cannot open files with names that are not Unicode

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file, pq.ParquetWriter(sink, schema) as parquet:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(columns)
            for lines in _pieces(run, columns):
                table.writerows(map(_no_formulas, lines))
                parquet.write_table(_arrow_table(lines, columns, schema))

    write_atomically(store.path / "records.csv", write)
    write_atomically(store.path / "records.parquet", lambda path: path.write_bytes(sink.getvalue()))


def write_joined_table(path: Path, runs: Sequence[tuple[str, Run]]) -> None:
    """Write the records of several runs to one CSV file; the first column is the run's label."""
    columns = find_columns(record for _, run in runs for record in run.all_records())

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["run", *columns])
            for label, run in runs:
                for lines in _pieces(run, columns):
                    table.writerows(_no_formulas([label, *line]) for line in lines)

    write_atomically(path, write)


def make_table(run: Run) -> pd.DataFrame:
    """Return a data frame with one row per point and the columns of `records.csv`, in pandas' nullable types."""
    columns = find_columns(run.all_records())
    schema = _schema(columns)
    tables = (_arrow_table(lines, columns, schema) for lines in _pieces(run, columns))
    frame: pd.DataFrame = pa.concat_tables([schema.empty_table(), *tables]).to_pandas()
    return frame


def _arrow_table(lines: Sequence[Sequence[Any]], columns: Mapping[str, tuple[str, str]], schema: pa.Schema) -> pa.Table:
    arrays = [_array(cells, kind) for cells, (kind, _) in zip(zip(*lines, strict=True), columns.values(), strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _schema(columns: Mapping[str, tuple[str, str]]) -> pa.Schema:
    """Return the Arrow schema with descriptions, and with metadata for nullable columns in pandas."""
    fields = [pa.field(name, _ARROW[kind], metadata={"description": text}) for name, (kind, text) in columns.items()]
    described = [
        {
            "name": name,
            "field_name": name,
            "pandas_type": _PANDAS[kind][0],
            "numpy_type": _PANDAS[kind][1],
            "metadata": {"timezone": "UTC"} if kind == "time" else None,
        }
        for name, (kind, _) in columns.items()
    ]
    creator = {"library": "pyarrow", "version": pa.__version__}
    pandas = {"index_columns": [], "column_indexes": [], "columns": described, "creator": creator}
    return pa.schema(fields, metadata={"pandas": json.dumps(pandas)})


def _array(cells: Sequence[Any], kind: str) -> pa.Array:
    """Return the cells of a column as an Arrow array, built from buffers because `pyarrow.array` imports pandas."""
    known = np.array([cell is not None for cell in cells])
    buffers: list[Any] = [np.packbits(known, bitorder="little")]
    if kind == "str":
        texts = [(cell or "").encode() for cell in cells]
        buffers += [np.cumsum([0, *map(len, texts)], dtype=np.int64), b"".join(texts)]
    elif kind == "bool":
        buffers += [np.packbits([bool(cell) for cell in cells], bitorder="little")]
    elif kind == "time":
        buffers += [np.array([(cell - EPOCH) // timedelta(microseconds=1) for cell in cells], np.int64)]
    else:
        buffers += [np.array([cell or 0 for cell in cells], np.float64 if kind == "float" else np.int64)]
    return pa.Array.from_buffers(_ARROW[kind], len(cells), [pa.py_buffer(buffer) for buffer in buffers])


def _no_formulas(line: Sequence[Any]) -> list[Any]:
    """Return the cells with a quote before each text that a spreadsheet would read as a formula."""
    return [
        f"'{cell}" if isinstance(cell, str) and cell.lstrip().startswith(("=", "+", "-", "@")) else cell
        for cell in line
    ]


def find_columns(records: Iterable[Record]) -> dict[str, tuple[str, str]]:
    """Return the type and the description of each column for these records."""
    meanings: dict[str, str] = {}
    kinds: dict[str, str | None] = {}
    for record in records:
        meanings |= _descriptions(record)
        for name, value in _own(record).items():
            kinds[name] = _wider(kinds.get(name), value)
    return {**COLUMNS, **{name: (kinds.get(name) or "float", meanings[name]) for name in sorted(meanings)}}


def _wider(kind: str | None, value: Any) -> str | None:
    """Return the type for a column of type `kind` (None: no values yet) and an additional value.

    A column with text and numbers (an axis of several benchmarks) has the type `str`.
    """
    if value is None:
        return kind
    if kind == "str" or isinstance(value, str):
        return "str"
    return "int" if kind in (None, "int") and isinstance(value, int) else "float"


def _pieces(run: Run, columns: Mapping[str, tuple[str, str]]) -> Iterator[list[list[Any]]]:
    """Yield the rows of the table in pieces of at most `PIECE` rows."""
    measured = run.ceilings if run.info.settings.ceilings else None
    lines = (_line(run.info, record, measured) for record in run.all_records())
    while piece := list(islice(lines, PIECE)):
        yield [[_cell(line.get(name), kind) for name, (kind, _) in columns.items()] for line in piece]


def _cell(value: Any, kind: str) -> Any:
    """Return the value in the type of its column; None for unknown values and NaN."""
    if value is None or (isinstance(value, float) and isnan(value)):
        return None
    if kind == "time":
        return value.astimezone(UTC)
    return str(value) if kind == "str" else float(value) if kind == "float" else int(value) if kind == "int" else value


def _line(info: RunInfo, record: Record, measured: Sequence[Ceiling] | None) -> dict[str, Any]:
    of_ceiling = share_of_ceiling(record, measured)
    work, checked = record.work, record.verification
    peak = record.peak
    line: dict[str, Any] = {
        "run_id": info.run_id,
        "benchmark": record.point.benchmark,
        "device": record.point.device,
        "backend": record.point.backend,
        "seed": record.point.seed,
        "status": record.status,
        "reason": record.reason,
        "started": record.started,
        "elapsed_s": record.elapsed_s,
        "figure": record.figure,
        "dtype": record.bound.dtype,
        "arithmetic_intensity": arithmetic_intensity(record),
        "share_of_peak": share_of_peak(record).value,
        "share_of_peak_at_clock": share_of_peak_at_clock(record).value,
        "ceiling": of_ceiling.bound if of_ceiling.doubtful is None else None,
        "share_of_ceiling": of_ceiling.value,
        "share_of_ceiling_reason": of_ceiling.reason,
        "mean_power_w": mean_power(record),
        "energy_j": energy.value if (energy := energy_of_execution(record)) else None,
        "work_per_joule": per_joule.value if (per_joule := work_per_joule(record)) else None,
        "noise": "; ".join(record.noise),
        "held_back": "; ".join(record.held_back),
        "command": shell_command(record, info.settings),
    }
    if clock := observed_clock(record):
        line |= {"observed_clock_mhz": clock.mhz, "observed_clock_source": clock.source}
    line |= record.phases.model_dump() | _own(record)
    if record.profile is not None:
        found = record.profile.bottleneck
        line |= {"bottleneck": found.bound, "bottleneck_beside": "; ".join(found.beside)}
        line |= {"bottleneck_reason": found.reason}
    if work is not None:
        line |= {"flops": work.flops, "bytes": work.bytes, "items": work.items, "item": work.item}
    if record.data is not None:
        line |= {"data": record.data.source, "data_note": record.data.note, "data_synthetic": record.data.synthetic}
    if peak is not None:
        line |= {"peak": peak.value, "peak_reason": peak.reason}
        line |= {"peak_unit_kind": peak.unit_kind, "peak_source": peak.source}
    if place := record.placement:
        line |= {"cpu_first": place.first, "cpu_last": place.last, "pinned": place.pinned}
        line |= {"core_kind": place.core_kind} if place.core_kind else {}
    if checked is not None:
        line |= {"verified": checked.passed, "verification": checked.method}
        line |= {"error": checked.error, "tolerance": checked.tolerance}
    if record.telemetry is not None:
        line["throttle_reasons"] = "; ".join(record.telemetry.throttle_reasons)
    return line | _timing(record)


def _own(record: Record) -> dict[str, Any]:
    """Return the values of the additional columns."""
    line: dict[str, Any] = {f"param.{axis}": value for axis, value in record.point.values.items()}
    line |= {f"metric.{name}": metric.value for name, metric in record.metrics.items()}
    for quality in record.qualities:
        if ends := quality_interval(record, quality):
            line |= {f"quality.{quality.name}.low": ends[0], f"quality.{quality.name}.high": ends[1]}
    if record.profile is not None:
        line |= {f"bottleneck.{cause}": share for cause, share in record.profile.bottleneck.shares.items()}
    if record.telemetry is not None:
        line |= {f"telemetry.{kind}": gauge.median for kind, gauge in summarize_gauges(record.telemetry).items()}
        line |= {f"counter.{name}": value for name, value in record.telemetry.counters.items()}
    return line


def _timing(record: Record) -> dict[str, Any]:
    timing = record.timing
    if timing is None:
        return {}
    summary = timing.summary
    line: dict[str, Any] = {
        "rounds": len(record.rounds) or 1,
        "median_s": summary.median,
        "ci_low_s": summary.ci_low,
        "ci_high_s": summary.ci_high,
        "ci_confidence": summary.ci_confidence,
        "minimum_s": summary.minimum,
        "q1_s": summary.q1,
        "q3_s": summary.q3,
        "maximum_s": summary.maximum,
        "mean_s": summary.mean,
        "relative_stdev": summary.relative_stdev,
        "samples": summary.count,
        "outliers": summary.outliers,
        "discarded": timing.discarded,
        "loops": timing.loops,
        "stop": timing.stop,
        "timer": timing.timer,
        "batch_s": timing.batch,
        "clean_share": timing.clean_share,
        "upper_bound": timing.upper_bound,
    }
    if timing.steady:
        line |= {"steady_steps": timing.steady.steps, "steady_s": timing.steady.seconds}
    if found := record.rate_interval():
        line |= dict(zip(("rate", "rate_low", "rate_high"), found, strict=True)) | {"unit": record.unit}
        line |= {"≥ ": {"rate_high": None}, "≤ ": {"rate_low": None}}.get(record.bound_sign(), {})
    return line


def _descriptions(record: Record) -> dict[str, str]:
    found = {f"param.{axis}": f"the point's value of the axis {axis}" for axis in record.point.values}
    found |= {f"metric.{name}": f"{name} in {m.unit}" if m.unit else name for name, m in record.metrics.items()}
    for quality in record.qualities:
        if quality_interval(record, quality):
            by = "end of the 95 % interval by the number of held-out examples"
            found |= {f"quality.{quality.name}.{end}": f"{quality.name}: {end} {by}" for end in ("low", "high")}
    gauges = summarize_gauges(record.telemetry)
    found |= {f"telemetry.{kind}": f"median of {kind} in {gauge.unit}" for kind, gauge in gauges.items()}
    shares = record.profile.bottleneck.shares if record.profile else {}
    found |= {f"bottleneck.{cause}": f"share of {cause} in the mean step" for cause in shares}
    counters = record.telemetry.counters if record.telemetry else {}
    return found | {f"counter.{name}": f"{name} over the measurement" for name in counters}
