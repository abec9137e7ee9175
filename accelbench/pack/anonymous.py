"""Anonymous copies of runs: results and environment without names of users, hosts and paths.

The copy contains only listed files: `run.json` and `records.jsonl`, with every text filtered, and the report generated
from them. Traces, stacks and logs are left out, because they contain names of files and hosts in any form.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from accelbench.execution.store import RunInfo, RunStore
from accelbench.execution.suite import RENAMED, suite_names
from accelbench.pack.write import write_pack
from accelbench.profiling.machine.identity import Identity, identifying
from accelbench.profiling.records.record import Record
from accelbench.report import write_report

HIDDEN = "…"
"""Replacement for a path, an address or a name."""
LEFT_OUT = (
    "left out: names of hosts and users, paths, addresses, image registries, the run's name, note and tags, arguments "
    "of the command line, output, logs, traces and stacks; times of day and GPU identifiers are replaced"
)
"""Summary of the parts that an anonymous copy lacks."""
KEPT = (
    "kept: the results with their date, names and axes of the benchmarks (also of your own), error messages, and the "
    "environment: models of CPU and GPU, memory, operating system, versions, thread settings, the image's digest"
)
"""Summary of the content of an anonymous copy."""
EMPTIED: Mapping[str, Any] = {
    "output_tail": [],
    "file": None,
    "files": {},
    "trace_folder": None,
    "host_folder": None,
    "gil_holders": {},
    "profiler_errors": [],
}
"""Fields with output or names of files and threads, and their replacements."""

NAMED_BY_OTHERS = frozenset({"params", "metrics", "curves", "gauges", "counters", "axes", "sizes"})
"""Mappings with keys that are not defined by the schema but may equal its field names."""

_ADDRESS = re.compile(
    r"[\w.+-]+@[\w.-]+"  # of mail, or a login
    r"|\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"  # a UUID
    r"|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}:?[0-9a-fA-F]{1,4}\b|(?<![\w:])(?:[0-9a-fA-F]{1,4}:)+:[0-9a-fA-F:]*"
)
_REGISTRY = re.compile(
    r"(?<![\w./-])(?:[\w-]+\.)+[A-Za-z]{2,}(?::\d+)?/[^\s\"'<>|;,()\[\]{}]*[\w]|\b(?:docker|podman):\S*\w", re.ASCII
)
_PATH = re.compile(r"(?<![\w)\]/])(?:file://|~|\.{1,2})?(?:/[^\s\"'<>|;,:()\[\]{}]+|[A-Za-z]:\\[^\s\"'<>|;,]+)")


def write_anonymous_pack(
    runs: Sequence[RunStore], identity: Identity, out: Path | None = None, part_mib: float | None = None
) -> list[Path]:
    """Write a bundle with anonymous copies of the runs; see `write_pack`.

    `identity` contains the names of this host and user, which are removed from every text.
    """
    with TemporaryDirectory(prefix="accelbench-") as scratch:
        return write_pack([anonymous_copy(run, Path(scratch), identity) for run in runs], out, part_mib=part_mib)


def anonymous_copy(run: RunStore, where: Path, identity: Identity) -> RunStore:
    """Write an anonymous copy of the run with its report to a new directory in `where`, and return it."""
    anonymizer = Anonymizer(run.info(), _names(identity))
    info = anonymizer.info()
    copy = RunStore.create(where / info.run_id, info)
    for record in run.lines():
        copy.append(anonymizer.record(record))
    copy.close()
    write_report(copy)
    for file in copy.path.iterdir():  # bundles keep the modification times of files
        os.utime(file, (info.created.timestamp(),) * 2)
    return copy


@dataclass(frozen=True)
class Anonymizer:
    """Removal of identifying data from a run."""

    run: RunInfo
    names: re.Pattern[str] | None

    def info(self) -> RunInfo:
        """Return the anonymous run info; the new id has the day and a hash of the original id."""
        info = self.run
        data = self._walk(json.loads(info.model_dump_json()))
        data |= {
            "run_id": f"{self._midnight:%Y%m%d}-{_hashed(info.run_id)}",
            "label": {},
            "command": self._command(),
            "suite": info.suite if info.suite in (None, *suite_names(), *RENAMED) else "own",
        }
        return RunInfo.model_validate(data)

    def record(self, record: Record) -> Record:
        """Return the anonymous record."""
        return Record.model_validate(self._walk(json.loads(record.model_dump_json())))

    @property
    def _midnight(self) -> datetime:
        """Return midnight (UTC) of the run's day, the replacement for its start time."""
        return self.run.created.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)

    def _walk(self, data: Any, field: str = "") -> Any:
        """Return the anonymous JSON data of the field named `field`."""
        if field in EMPTIED:
            return EMPTIED[field]
        if isinstance(data, str):
            return self._value(data, field)
        if isinstance(data, dict):
            own = field in NAMED_BY_OTHERS
            return {self._text(name): self._walk(value, "" if own else name) for name, value in data.items()}
        return [self._walk(value, field) for value in data] if isinstance(data, list) else data

    def _value(self, text: str, field: str) -> str:
        if field in ("created", "started"):
            return self._moved(text)
        if field == "run_id":
            return _hashed(text)
        if field == "uuid_hash":
            return self._card(text)
        return self._text(text)

    def _text(self, text: str) -> str:
        """Return the text without paths, registries, addresses and the names of this host and its user."""
        text = _PATH.sub(HIDDEN, _REGISTRY.sub(HIDDEN, text))
        if re.search(r"\s", text):  # a single word such as 1.2.3.4 may be a version
            text = _ADDRESS.sub(HIDDEN, text)
        return self.names.sub(HIDDEN, text) if self.names else text

    def _moved(self, when: str) -> str:
        """Return the time, shifted so that the run starts at midnight."""
        offset: timedelta = datetime.fromisoformat(when) - self.run.created
        return (self._midnight + offset).isoformat()

    def _card(self, uuid_hash: str) -> str:
        """Return the index of a GPU among all GPUs of the run, as a replacement for its hash."""
        environments = [self.run.environment, *(other.environment for other in self.run.other_ranks)]
        cards = list(dict.fromkeys(gpu.uuid_hash for there in environments for gpu in there.gpus))
        return f"{cards.index(uuid_hash):012x}"

    def _command(self) -> list[str]:
        """Return the command line with only options, numbers, and names that are in the plan."""
        known = {"accelbench", "run", "cores", "launch", "auto", self.run.device, *suite_names()}
        for point in self.run.plan:
            known |= {point.benchmark, point.device, str(point.backend)}
            known |= {f"{axis}={value}" for axis, value in point.params.items()}
        return [_known_word(word, known) for word in self.run.command]


def _hashed(run_id: str) -> str:
    return f"anonymous-{sha256(run_id.encode(errors='replace')).hexdigest()[:4]}"


def _known_word(word: str, known: Collection[str]) -> str:
    option, is_set, value = word.partition("=") if word.startswith("-") else ("", "", word)
    if option:
        return f"{option}={_known_word(value, known)}" if is_set else option
    return word if word in known or re.fullmatch(r"[\d.]+", word) else HIDDEN


def _names(identity: Identity) -> re.Pattern[str] | None:
    """Return a case-insensitive pattern for the names of this host and its user as whole words; None without names."""
    words = _schema_words(RunInfo.model_json_schema()) | _schema_words(Record.model_json_schema())
    homes = {Path(home).name for home in identity.homes}
    names = {name for name in identifying(identity.users | identity.hosts | homes) if name.lower() not in words}
    if not names:
        return None
    ordered = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, ordered))})(?![A-Za-z0-9])", re.IGNORECASE)


def _schema_words(schema: Any) -> set[str]:
    """Return the field names and enumerated values of a JSON schema, which are not treated as names of users."""
    if isinstance(schema, dict):
        own = (*schema.get("enum", ()), schema.get("const", ""), *schema.get("properties", {}))
        found = {str(word).lower() for word in own}
        return found.union(*map(_schema_words, schema.values()))
    return set().union(*map(_schema_words, schema)) if isinstance(schema, list) else set()
