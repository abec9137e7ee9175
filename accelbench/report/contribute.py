"""The figures of a run as references: what this machine measured, for its later runs and for others to take over."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from accelbench.profiling.analysis.roofline import observed_clock
from accelbench.profiling.records.record import Record
from accelbench.references.reference import OWN, Kind, Reference, device_name, own
from accelbench.report.stored_run import Run
from accelbench.writing import write_atomically

HEAD = (
    "# What this machine measured, by 'accelbench contribute RUN'; reports of later runs put their figures beside it.\n"
)


def references_of(run: Run) -> Iterator[Reference]:
    """Yield a reference for each rate of the run that nothing disturbed."""
    environment = run.info.environment
    for row in run.rows:
        record = row.record
        found, device = record.rate_interval(), record.point.device
        kind: Kind | None = "cpu" if device == "cpu" else "gpu" if device == "gpu" else None
        name = kind and device_name(environment, kind)
        if kind and name and found and record.figure != "time" and not row.disturbed:
            yield Reference(
                device=re.escape(name),
                kind=kind,
                cpus=environment.cpu.usable if device == "cpu" else None,
                benchmark=record.point.benchmark,
                backend=record.point.backend,
                axes={axis: (value,) for axis, value in record.point.values.items()},
                value=found[0],
                unit=record.unit,
                how=_how(run, record),
                date=f"{run.info.created:%Y-%m-%d}",
                source=_source(run),
            )


def contribute(run: Run, folder: Path) -> tuple[Path, int]:
    """Write the run's references into the file beside the runs; return its path, and how many of this run it has.

    What it has of other runs stays. Raises UserError for a file that is not understood.
    """
    new = list(references_of(run))
    kept = [reference for reference in own(folder) if reference.source != _source(run)]
    text = HEAD + "\n".join(["", *map(_table, (*kept, *new))])
    path = write_atomically(folder / OWN, lambda path: path.write_text(text, encoding="utf-8"))
    return path, len(new)


def _source(run: Run) -> str:
    return f"run {run.info.run_id}"


def _how(run: Run, record: Record) -> str:
    environment, clock = run.info.environment, observed_clock(record)
    driver = environment.cuda.driver if environment.cuda and record.point.device == "gpu" else None
    rounds = len(record.rounds) or 1
    parts = [f"accelbench {environment.software.accelbench}", f"{rounds} fresh process{'es' * (rounds > 1)}"]
    if driver:
        parts.append(f"driver {driver}")
    if clock:
        parts.append(f"{clock.mhz:.0f} MHz")
    return ", ".join(parts)


def _table(reference: Reference) -> str:
    lines = ["[[reference]]"]
    for name, value in reference.model_dump(exclude_none=True).items():
        if value != {}:
            lines.append(f"{name} = {_written(value)}")
    return "\n".join([*lines, ""])


def _written(value: object) -> str:
    if isinstance(value, dict):
        pairs = ", ".join(f"{_written(name)} = {_written(inner)}" for name, inner in value.items())
        return f"{{ {pairs} }}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return f"[{', '.join(map(_written, value))}]"
    return json.dumps(value, ensure_ascii=False)
