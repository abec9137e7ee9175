"""The records as flat tables, one line per point: `records.csv`, and `records.parquet` with each column described."""

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
    "run_id": ("str", "the run"),
    "benchmark": ("str", "the benchmark"),
    "device": ("str", "cpu, gpu or tpu"),
    "backend": ("str", "the framework under Keras; null for a kernel"),
    "seed": ("int", "seed of the random inputs"),
    "status": ("str", "measured, failed or skipped"),
    "reason": ("str", "why it failed or was skipped"),
    "started": ("time", "when the point was begun, UTC"),
    "elapsed_s": ("float", "wall seconds of the point, all phases"),
    "rounds": ("int", "fresh processes that measured the point; the median and its interval are over them"),
    "median_s": ("float", "median seconds of one execution, or of one training step"),
    "ci_low_s": ("float", "lower bound of the median's interval, seconds"),
    "ci_high_s": ("float", "upper bound of the median's interval, seconds"),
    "ci_confidence": ("float", "the coverage that the interval really has"),
    "minimum_s": ("float", "the fastest sample, seconds"),
    "q1_s": ("float", "first quartile, seconds"),
    "q3_s": ("float", "third quartile, seconds"),
    "maximum_s": ("float", "the slowest sample, seconds"),
    "mean_s": ("float", "mean, seconds; of a training without the turns of epochs"),
    "relative_stdev": ("float", "standard deviation over mean"),
    "samples": ("int", "how many samples were taken"),
    "outliers": ("int", "samples beyond Tukey's inner fences"),
    "discarded": ("int", "samples thrown away because the device was throttled"),
    "loops": ("int", "executions per sample"),
    "stop": ("str", "the rule that ended the sampling"),
    "timer": ("str", "host, nvbench or steps"),
    "steady_steps": ("int", "a training's steps after its warm-up, of which the rate is"),
    "steady_s": ("float", "the seconds of these steps, turns of epochs included and the suite's own evaluation not"),
    "batch_s": ("float", "GPU: seconds per execution back to back"),
    "figure": ("str", "what the rate counts: flops, bytes, items, or time"),
    "rate": ("float", "work per second at the median, of a training over all steady time; of a time the seconds"),
    "rate_low": ("float", "the same at the slower bound of the interval (of a time: the lower bound)"),
    "rate_high": ("float", "the same at the faster bound of the interval (of a time: the upper bound)"),
    "unit": ("str", "unit of the rate"),
    "flops": ("float", "floating-point operations of one execution"),
    "bytes": ("float", "bytes that one execution must move"),
    "items": ("float", "items of one execution"),
    "item": ("str", "what an item is"),
    "data": ("str", "what a training experiment was trained and tested on"),
    "data_note": ("str", "a fact that a quality measured on that data must be read with"),
    "data_synthetic": ("bool", "whether that was drawn by rule; null where nothing was trained"),
    "arithmetic_intensity": ("float", "flops over bytes"),
    "dtype": ("str", "the arithmetic whose peak and ceiling are the point's"),
    "peak": ("float", "the vendor's peak, FLOP/s or byte/s"),
    "peak_reason": ("str", "why no peak is known"),
    "peak_unit_kind": ("str", "the hardware unit that reaches the peak"),
    "peak_source": ("str", "where the vendor states it"),
    "share_of_peak": ("float", "rate over peak; for training the MFU"),
    "share_of_peak_at_clock": ("float", "the same with the peak scaled to the observed clock"),
    "observed_clock_mhz": ("float", "GPU: the median SM clock while the point was measured"),
    "observed_clock_source": ("str", "who read it: NVBench in the samples that were kept, or NVML meanwhile"),
    "ceiling": ("float", "the best such rate measured on this device, FLOP/s or byte/s"),
    "share_of_ceiling": ("float", "rate over ceiling"),
    "share_of_ceiling_reason": ("str", "why that share is unknown"),
    "verified": ("bool", "whether the answer was right; null if it was not checked"),
    "verification": ("str", "how the answer was checked"),
    "error": ("float", "the answer's error"),
    "tolerance": ("float", "the error tolerated"),
    "import_s": ("float", "seconds of imports, of all its workers"),
    "prepare_s": ("float", "seconds of preparation"),
    "first_call_s": ("float", "seconds of the first execution: compilation, autotuning, tracing"),
    "warmup_s": ("float", "seconds of warm-up"),
    "measure_s": ("float", "seconds of measurement"),
    "verify_s": ("float", "seconds of verification"),
    "profile_s": ("float", "seconds of the pass under the profilers, after all that was measured"),
    "bottleneck": ("str", "what holds a training back; null where it is unknown or was not asked"),
    "bottleneck_beside": ("str", "what cannot be told from it as the larger cause, separated by semicolons"),
    "bottleneck_reason": ("str", "why it is unknown"),
    "noise": ("str", "what disturbed the measurement, separated by semicolons; empty if nothing was seen"),
    "held_back": ("str", "what kept the libraries that did the work below what the CPU can, separated by semicolons"),
    "cpu_first": ("int", "the logical CPU of the measuring thread when measuring began, in the first round"),
    "cpu_last": ("int", "the logical CPU of the measuring thread when measuring ended, in the first round"),
    "pinned": ("bool", "whether the measuring thread was kept to one CPU"),
    "throttle_reasons": ("str", "the device's own throttle reasons, separated by semicolons"),
    "command": ("str", "the command line that measures the point again"),
}
"""The type and the meaning of the columns that every table has.

Further ones, as the records have them: `param.<axis>`; `metric.<name>` in the unit that its description gives;
`quality.<name>.low` and `.high`, its interval; `telemetry.<gauge>`, the median reading, over all cores where there is
one gauge per core; `counter.<name>`.
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
    """Write `records.csv` and `records.parquet` with all points of the run into its folder, piece by piece."""
    columns = find_columns(run.all_records())
    schema = _schema(columns)
    sink = pa.BufferOutputStream()  # Arrow opens no file whose name is not Unicode

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
    """Write the records of several runs into one CSV file with the label of the run as first column."""
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
    """Return one row per point, with the columns of `records.csv` in pandas' nullable types."""
    columns = find_columns(run.all_records())
    schema = _schema(columns)
    tables = (_arrow_table(lines, columns, schema) for lines in _pieces(run, columns))
    frame: pd.DataFrame = pa.concat_tables([schema.empty_table(), *tables]).to_pandas()
    return frame


def _arrow_table(lines: Sequence[Sequence[Any]], columns: Mapping[str, tuple[str, str]], schema: pa.Schema) -> pa.Table:
    """Return lines with a cell per column as a table."""
    arrays = [_array(cells, kind) for cells, (kind, _) in zip(zip(*lines, strict=True), columns.values(), strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _schema(columns: Mapping[str, tuple[str, str]]) -> pa.Schema:
    """Return the schema with descriptions, and the metadata by which pandas reads nullable columns."""
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
    """Return the cells of a column as an array, built from buffers: `pyarrow.array` would load pandas."""
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
    """Return the cells with a quote before each text that a spreadsheet would compute."""
    return [
        f"'{cell}" if isinstance(cell, str) and cell.lstrip().startswith(("=", "+", "-", "@")) else cell
        for cell in line
    ]


def find_columns(records: Iterable[Record]) -> dict[str, tuple[str, str]]:
    """Return the type and the meaning of each column of a table of these records."""
    meanings: dict[str, str] = {}
    kinds: dict[str, str | None] = {}
    for record in records:
        meanings |= _descriptions(record)
        for name, value in _own(record).items():
            kinds[name] = _wider(kinds.get(name), value)
    return {**COLUMNS, **{name: (kinds.get(name) or "float", meanings[name]) for name in sorted(meanings)}}


def _wider(kind: str | None, value: Any) -> str | None:
    """Return the type of a column of that type, None of one without a value so far, once it holds this value, too.

    An axis whose values are words in one benchmark and numbers in another is written as words.
    """
    if value is None:
        return kind
    if kind == "str" or isinstance(value, str):
        return "str"
    return "int" if kind in (None, "int") and isinstance(value, int) else "float"


def _pieces(run: Run, columns: Mapping[str, tuple[str, str]]) -> Iterator[list[list[Any]]]:
    """Yield the lines of the run's records in pieces, each line with a cell per column."""
    measured = run.ceilings if run.info.settings.ceilings else None
    lines = (_line(run.info, record, measured) for record in run.all_records())
    while piece := list(islice(lines, PIECE)):
        yield [[_cell(line.get(name), kind) for name, (kind, _) in columns.items()] for line in piece]


def _cell(value: Any, kind: str) -> Any:
    """Return the value in the type of its column; None for unknown values and for numbers that are none."""
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
        "ceiling": of_ceiling.bound,
        "share_of_ceiling": of_ceiling.value,
        "share_of_ceiling_reason": of_ceiling.reason,
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
    if checked is not None:
        line |= {"verified": checked.passed, "verification": checked.method}
        line |= {"error": checked.error, "tolerance": checked.tolerance}
    if record.telemetry is not None:
        line["throttle_reasons"] = "; ".join(record.telemetry.throttle_reasons)
    return line | _timing(record)


def _own(record: Record) -> dict[str, Any]:
    """Return the values of the columns that not every table has."""
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
    }
    if timing.steady:
        line |= {"steady_steps": timing.steady.steps, "steady_s": timing.steady.seconds}
    if found := record.rate_interval():
        line |= dict(zip(("rate", "rate_low", "rate_high"), found, strict=True)) | {"unit": record.unit}
    return line


def _descriptions(record: Record) -> dict[str, str]:
    found = {f"param.{axis}": f"the point's value of the axis {axis}" for axis in record.point.values}
    found |= {f"metric.{name}": f"{name} in {m.unit}" if m.unit else name for name, m in record.metrics.items()}
    for quality in record.qualities:
        if quality_interval(record, quality):
            by = "of its 95 % interval by the number of held-out examples"
            found |= {f"quality.{quality.name}.{end}": f"{quality.name}: the {end} end {by}" for end in ("low", "high")}
    gauges = summarize_gauges(record.telemetry)
    found |= {f"telemetry.{kind}": f"median of {kind} in {gauge.unit}" for kind, gauge in gauges.items()}
    shares = record.profile.bottleneck.shares if record.profile else {}
    found |= {f"bottleneck.{cause}": f"share of the mean step that goes to {cause}" for cause in shares}
    counters = record.telemetry.counters if record.telemetry else {}
    return found | {f"counter.{name}": f"{name} over the measurement" for name in counters}
