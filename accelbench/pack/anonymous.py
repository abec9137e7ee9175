"""A copy of a run that does not tell who measured it and where: the figures, and what they must be read with.

What is kept is listed, not what is left out: `run.json` and `records.jsonl`, of which every text is looked through, and
the report that is made of them. Traces, stacks and logs hold names of files and hosts in ways that nobody can list, and
stay behind.
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
from accelbench.profiling.machine.identity import Identity, telling
from accelbench.profiling.records.record import Record
from accelbench.report import write_report

HIDDEN = "…"
"""What stands for a path, an address or a number of a device."""
LEFT_OUT = (
    "left out: names of hosts and users, folders, addresses, words of the command line, output, logs, traces and "
    "stacks; times of day and the identities of cards are replaced"
)
"""What an anonymous copy lacks, in a line."""
EMPTIED: Mapping[str, Any] = {
    "output_tail": [],
    "file": None,
    "files": {},
    "trace_folder": None,
    "host_folder": None,
    "gil_holders": {},
    "profiler_errors": [],
}
"""The fields that hold what was printed, or names of files and threads, and what takes their place."""

NAMED_BY_OTHERS = frozenset({"params", "metrics", "curves", "gauges", "counters", "axes", "sizes"})
"""The fields that hold values by names which are not the schema's, and may be the same words."""

_ADDRESS = re.compile(
    r"[\w.+-]+@[\w.-]+"  # of mail, or a login
    r"|\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"  # a UUID
    r"|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}:?[0-9a-fA-F]{1,4}\b|(?<![\w:])(?:[0-9a-fA-F]{1,4}:)+:[0-9a-fA-F:]*"
)
_PATH = re.compile(r"(?<![\w)\]/])(?:file://|~|\.{1,2})?(?:/[^\s\"'<>|;,:()\[\]{}]+|[A-Za-z]:\\[^\s\"'<>|;,]+)")


def write_anonymous_pack(
    runs: Sequence[RunStore], identity: Identity, out: Path | None = None, part_mib: float | None = None
) -> list[Path]:
    """Pack copies of the runs that do not tell who measured them and where; the rest is as for `write_pack`.

    `identity` is what this process's host and user are called, which any text may hold.
    """
    with TemporaryDirectory(prefix="accelbench-") as scratch:
        return write_pack([anonymous_copy(run, Path(scratch), identity) for run in runs], out, part_mib=part_mib)


def anonymous_copy(run: RunStore, where: Path, identity: Identity) -> RunStore:
    """Write a copy of the run, its report included, into a folder there that has the copy's name."""
    forget = Forget(run.info(), _names(identity))
    info = forget.info()
    copy = RunStore.create(where / info.run_id, info)
    for record in run.lines():
        copy.append(forget.record(record))
    copy.close()
    write_report(copy)
    for file in copy.path.iterdir():  # the pack keeps the time at which a file was written
        os.utime(file, (info.created.timestamp(),) * 2)
    return copy


@dataclass(frozen=True)
class Forget:
    """The rules by which a run's data lose what tells who and where."""

    run: RunInfo
    names: re.Pattern[str] | None

    def info(self) -> RunInfo:
        """Return the run without who and where; its name is of the day, and tells two runs of one day apart."""
        info = self.run
        data = self._walk(json.loads(info.model_dump_json()))
        data |= {
            "run_id": f"{self._midnight:%Y%m%d}-anonymous-{sha256(info.run_id.encode()).hexdigest()[:4]}",
            "command": self._command(),
            "suite": info.suite if info.suite in (None, *suite_names(), *RENAMED) else "own",
        }
        return RunInfo.model_validate(data)

    def record(self, record: Record) -> Record:
        """Return the record without who and where."""
        return Record.model_validate(self._walk(json.loads(record.model_dump_json())))

    @property
    def _midnight(self) -> datetime:
        """Return the day of the run, to which its beginning is moved: it tells no time of day and no time zone."""
        return self.run.created.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)

    def _walk(self, data: Any, field: str = "") -> Any:
        """Return the data of JSON, in which `field` is the name of the field that holds them."""
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
        if field == "uuid_hash":
            return self._card(text)
        return self._text(text)

    def _text(self, text: str) -> str:
        """Return the text without paths, addresses and the names of this host and its user."""
        text = _PATH.sub(HIDDEN, text)
        if re.search(r"\s", text):  # a lone word of numbers and points is a version
            text = _ADDRESS.sub(HIDDEN, text)
        return self.names.sub(HIDDEN, text) if self.names else text

    def _moved(self, when: str) -> str:
        """Return a moment as far from midnight as it was from the run's beginning."""
        apart: timedelta = datetime.fromisoformat(when) - self.run.created
        return (self._midnight + apart).isoformat()

    def _card(self, uuid_hash: str) -> str:
        """Return a number for a card, by its place among all cards of the run, which tells no other run's card."""
        environments = [self.run.environment, *(other.environment for other in self.run.other_ranks)]
        cards = list(dict.fromkeys(gpu.uuid_hash for there in environments for gpu in there.gpus))
        return f"{cards.index(uuid_hash):012x}"

    def _command(self) -> list[str]:
        """Return the command line, of which options, numbers and the plan's own words are left."""
        known = {"accelbench", "run", "cores", "launch", "auto", self.run.device, *suite_names()}
        for point in self.run.plan:
            known |= {point.benchmark, point.device, str(point.backend)}
            known |= {f"{axis}={value}" for axis, value in point.params.items()}
        return [_known_word(word, known) for word in self.run.command]


def _known_word(word: str, known: Collection[str]) -> str:
    option, is_set, value = word.partition("=") if word.startswith("-") else ("", "", word)
    if option:
        return f"{option}={_known_word(value, known)}" if is_set else option
    return word if word in known or re.fullmatch(r"[\d.]+", word) else HIDDEN


def _names(identity: Identity) -> re.Pattern[str] | None:
    """Return the pattern of the names of this host and its user as words, in small or capital letters."""
    words = _schema_words(RunInfo.model_json_schema()) | _schema_words(Record.model_json_schema())
    homes = {Path(home).name for home in identity.homes}
    names = {name for name in telling(identity.users | identity.hosts | homes) if name.lower() not in words}
    if not names:
        return None
    ordered = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, ordered))})(?![A-Za-z0-9])", re.IGNORECASE)


def _schema_words(schema: Any) -> set[str]:
    """Return the names of the schema's fields, and the words that they may be: no name is looked for in their place."""
    if isinstance(schema, dict):
        own = (*schema.get("enum", ()), schema.get("const", ""), *schema.get("properties", {}))
        found = {str(word).lower() for word in own}
        return found.union(*map(_schema_words, schema.values()))
    return set().union(*map(_schema_words, schema)) if isinstance(schema, list) else set()
