"""Results of a run as references for later runs, written to `references.toml` next to the runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from accelbench.execution.store import RunInfo
from accelbench.output.atomic_file import write_atomically
from accelbench.output.format import counted
from accelbench.profiling.analysis.course import course_of, disturbances
from accelbench.profiling.analysis.roofline import observed_clock
from accelbench.profiling.records.record import Record
from accelbench.references.reference import (
    OWN,
    OWN_SOURCE,
    Reference,
    ReferenceDevice,
    core_title,
    device_name,
    has_hidden_name,
    own,
)

HEAD = "# Results of this machine, written by 'accelbench contribute RUN'; later runs are compared with them.\n"


def references_of(info: RunInfo, records: Iterable[Record]) -> Iterator[Reference]:
    """Yield a reference for each measured rate that is not noisy."""
    environment = info.environment
    for record in records:
        found, device = record.rate_interval(), record.point.device
        kind, name = _device(info, record)
        if kind and name and found and is_reference(info, record) and not disturbances(record, course_of(record)):
            yield Reference(
                device=re.escape(name),
                kind=kind,
                vendor=environment.gpus[0].vendor if device == "gpu" else None,
                cpus=environment.cpu.usable if device == "cpu" else None,
                core=core_title(environment.cpu) if device == "cpu" and has_hidden_name(environment.cpu) else None,
                benchmark=record.point.benchmark,
                backend=record.point.backend,
                axes={axis: (value,) for axis, value in record.point.values.items()},
                value=found[0],
                unit=record.unit,
                how=_how(info, record),
                date=f"{info.created:%Y-%m-%d}",
                source=_source(info),
            )


def _device(info: RunInfo, record: Record) -> tuple[ReferenceDevice | None, str | None]:
    """Return the kind and the name of the record's device, as far as references have it."""
    device = record.point.device
    kind: ReferenceDevice | None = "cpu" if device == "cpu" else "gpu" if device == "gpu" else None
    return kind, kind and device_name(info.environment, kind)


def is_reference(info: RunInfo, record: Record) -> bool:
    """Return whether the record can be a reference if it is not noisy: a rate on a device with a known name."""
    return _is_rate(record) and _device(info, record)[1] is not None


def _is_rate(record: Record) -> bool:
    return record.status == "measured" and record.figure != "time" and record.rate_interval() is not None


def reason_for_none(info: RunInfo, records: Iterable[Record]) -> str:
    """Return why a run has no references, as text."""
    rates = [record for record in records if _is_rate(record)]
    if not rates:
        return "the run has no verified rate"
    if not any(_device(info, record)[1] for record in rates):
        return "the name of the device is unknown, or several different devices were measured"
    return f"all of its {counted(len(rates), 'rate')} are noisy or only bounds; measure again on a quieter machine"


def contribute(info: RunInfo, records: Iterable[Record], folder: Path) -> tuple[Path, int]:
    """Write the run's references to the file in `folder`; return its path and the number of references of this run.

    References of other runs are kept, and an unchanged file is not written. Raises UserError for an invalid file.
    """
    path, before = folder / OWN, list(own(folder))
    new = list(references_of(info, records))
    kept = [reference for reference in before if reference.source != _source(info)]
    text = HEAD + "\n".join(["", *map(_table, (*kept, *new))])
    if [*kept, *new] != before:
        write_atomically(path, lambda path: path.write_text(text, encoding="utf-8"))
    return path, len(new)


def _source(info: RunInfo) -> str:
    return f"{OWN_SOURCE}{info.run_id}"


def _how(info: RunInfo, record: Record) -> str:
    environment, clock = info.environment, observed_clock(record)
    driver = environment.cuda.driver if environment.cuda and record.point.device == "gpu" else None
    rounds = len(record.rounds) or 1
    parts = [f"accelbench {environment.software.accelbench}", f"{rounds} process{'es' * (rounds > 1)}"]
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
