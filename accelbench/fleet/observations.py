"""Results of many nodes: stored runs, bundles and answers of the gate, joined by node, hardware and metric.

They are read from folders, from remote folders, and from standard input.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import log
from pathlib import Path

from pydantic import ValidationError

from accelbench.errors import UserError, collect_damage, reason_of
from accelbench.execution.store import RunStore
from accelbench.fleet.documents import read_documents
from accelbench.fleet.remote_results import ResultFile, download_results
from accelbench.gate.answer import GateAnswer
from accelbench.gate.limits import repetition_values
from accelbench.gate.node_gate import attributes_of
from accelbench.history.fingerprint import fingerprint
from accelbench.history.run_labels import NODE_TAG, node_of
from accelbench.output.plain_text import one_line
from accelbench.pack.read import find_pack
from accelbench.profiling.analysis.course import disturbances
from accelbench.profiling.files import read_regular
from accelbench.profiling.records.stored import first_fault
from accelbench.remote_folder import local_name
from accelbench.results.find_run import OF_MACHINE, find_runs, runs_of_arguments

DIRECTORY = "run.json"
STANDARD_INPUT = "-"


@dataclass
class FleetData:
    """Values of all nodes as columns, with the attributes of the nodes."""

    nodes: list[str] = field(default_factory=list)
    """Node of each value."""
    machines: list[str] = field(default_factory=list)
    """Hardware fingerprint of each value."""
    metrics: list[str] = field(default_factory=list)
    """Metric of each value: point and unit."""
    log_speeds: array[float] = field(default_factory=lambda: array("d"))
    """Logarithm of each value; of the reciprocal for a time, so that higher is always faster."""
    days: array[int] = field(default_factory=lambda: array("i"))
    """Day of each value (UTC), as the proleptic ordinal of `datetime.date`."""
    times: set[str] = field(default_factory=set)
    """Metrics that are times, of which the lower value is the faster one."""
    units: dict[str, str] = field(default_factory=dict)
    """Unit of each metric."""
    attributes: dict[tuple[str, str], dict[str, set[str]]] = field(default_factory=dict)
    """Values of each attribute, by hardware and node."""
    noisy: int = 0
    """Number of noisy results that were left out."""
    skipped: list[str] = field(default_factory=list)
    """Message for each file that was not read."""

    def add(self, machine: str, node: str, attributes: Iterable[tuple[str, str]]) -> None:
        """Add the attributes of a node."""
        known = self.attributes.setdefault((machine, node), {})
        for name, value in attributes:
            known.setdefault(name, set()).add(value)

    def add_values(
        self, machine: str, node: str, metric: str, values: Iterable[float], is_time: bool, day: int = 1, unit: str = ""
    ) -> None:
        """Add the values of a node's metric, one for each repetition of a day."""
        self.units[metric] = unit
        if is_time:
            self.times.add(metric)
        for value in values:
            self.days.append(day)
            self.nodes.append(node)
            self.machines.append(machine)
            self.metrics.append(metric)
            self.log_speeds.append(-log(value) if is_time else log(value))


def read_fleet(sources: Sequence[str], include_noisy: bool = False) -> FleetData:
    """Return the values of all runs and answers that the arguments name; each run or answer counts once.

    Unreadable files are skipped with a message. Raises UserError if nothing is readable, or a store cannot be reached.
    """
    data = FleetData()
    known: set[tuple[str, str]] = set()
    for file in _files(sources, data.skipped):
        _add_file(data, file, known, include_noisy)
    if STANDARD_INPUT in sources:
        for number, text in enumerate(read_documents(sys.stdin.buffer), 1):
            _add_answer(data, text, f"standard input, document {number}", "", known, include_noisy)
    if not data.nodes:
        reasons = "; ".join(data.skipped[:3]) or "they contain no measured point"
        noisy = f"; {data.noisy} noisy results (--include-noisy)" if data.noisy else ""
        raise UserError(f"no result of a node in {', '.join(sources)}: {reasons}{noisy}")
    return data


def _files(sources: Sequence[str], skipped: list[str]) -> Iterator[ResultFile]:
    """Yield the local results by path, and the remote ones by URL and name; each is valid until the next one."""
    urls = {source for source in sources if local_name(source) is None}
    names = {name for source in sources if source != STANDARD_INPUT and (name := local_name(source)) is not None}
    for path in sorted({path for name in names for path in _places(name)}):
        yield ResultFile(path, str(path), path.stem if path.suffix == ".json" else path.name)
    for url in sorted(urls):
        yield from download_results(url, skipped)


def _add_file(data: FleetData, file: ResultFile, known: set[tuple[str, str]], include_noisy: bool) -> None:
    first = len(data.skipped)
    if file.path.suffix == ".json":
        try:
            content = read_regular(file.path)
        except OSError as error:
            data.skipped.append(f"{file.name} cannot be read: {reason_of(error)}")
        else:
            _add_answer(data, content, file.name, file.node, known, include_noisy)
    elif (file.path / DIRECTORY).exists():
        _add_run(data, RunStore(file.path), file.node, known, include_noisy)
    else:
        try:
            stores = find_runs(str(file.path))
        except UserError as error:  # a corrupt bundle
            data.skipped.append(str(error))
            stores = []
        for store in stores:
            _add_run(data, store, store.path.name, known, include_noisy)
    data.skipped[first:] = [text.replace(str(file.path), file.name) for text in data.skipped[first:]]


def _places(source: str) -> Iterator[Path]:
    """Yield the run directories, bundles and answers that an argument names, in any depth of a folder."""
    if source.startswith(OF_MACHINE):
        yield from (store.path for store in runs_of_arguments([source]))
    elif not os.path.isdir(source):
        if source.endswith(".json") and os.path.basename(source) != DIRECTORY and os.path.isfile(source):
            yield Path(source)
        else:
            yield from (store.path for store in find_runs(source))
    elif os.path.exists(os.path.join(source, DIRECTORY)):
        yield Path(source)
    else:
        for place, folders, names in os.walk(source):
            folders[:] = [name for name in folders if not name.startswith(".")]
            if DIRECTORY in names:
                folders.clear()
                yield Path(place)
                continue
            for name in names:
                path = Path(place, name)
                if (name.endswith(".json") and not name.startswith(".")) or (".tar" in name and find_pack(str(path))):
                    yield path


def _add_answer(
    data: FleetData, content: bytes | str, name: str, node: str, known: set[tuple[str, str]], include_noisy: bool
) -> None:
    """Add an answer of the gate; `node` is the name of the node if the answer has none."""
    try:
        answer = GateAnswer.model_validate_json(content)
    except ValidationError as error:
        data.skipped.append(f"{name} is not an answer of the gate: {first_fault(error)}")
        return
    if (answer.id, str(answer.started)) in known:
        return
    known.add((answer.id, str(answer.started)))
    if answer.hardware is None:
        data.skipped.append(f"{name} has no measurement: {answer.summary}")
        return
    machine, node = answer.hardware.machine, one_line(answer.node) or node or answer.id
    data.add(machine, node, answer.attributes.items())
    for check in answer.checks:
        if check.value is None:
            continue
        if check.noise and not include_noisy:
            data.noisy += 1
            continue
        metric = f"{check.name} ({check.unit})"
        values = check.repetitions or [check.value]
        data.add_values(machine, node, metric, values, check.figure == "time", day_of(answer.started), check.unit)


def _add_run(data: FleetData, store: RunStore, name: str, known: set[tuple[str, str]], include_noisy: bool) -> None:
    """Add a run; `name` is the name of the node if the run has none."""
    try:
        with collect_damage() as damage:
            info, records = store.info(), store.records()
    except UserError as error:
        data.skipped.append(str(error))
        return
    except OSError as error:
        data.skipped.append(f"{store.path} cannot be read: {reason_of(error)}")
        return
    data.skipped += damage
    if (info.run_id, str(info.created)) in known:
        return
    known.add((info.run_id, str(info.created)))
    machine, tags = fingerprint(info), info.label.tags
    node = one_line(node_of(info) or info.label.name or "") or name
    data.add(machine, node, attributes_of(info.environment).items())
    pairs = (tag.partition("=") for tag in tags if not tag.startswith(NODE_TAG))
    data.add(machine, node, ((name, value or "yes") for name, _, value in pairs))
    for record in records:
        value = record.rate()
        if not value:
            continue
        if disturbances(record) and not include_noisy:
            data.noisy += 1
            continue
        metric = f"{record.point} ({record.unit})"
        values = repetition_values(record, value)
        data.add_values(machine, node, metric, values, record.figure == "time", day_of(info.created), record.unit)


def day_of(moment: datetime) -> int:
    """Return the day of a time in UTC as the ordinal of `datetime.date`."""
    return moment.astimezone(UTC).date().toordinal()
