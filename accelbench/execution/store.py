"""Run store: `run.json`, replaced atomically, and `records.jsonl`, appended and synced after each measurement."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from filelock import BaseFileLock, Timeout
from pydantic import Field

from accelbench.errors import DataDamaged, RunBroken, UserError, reason_of, report_damage
from accelbench.execution.schedule import ScheduledRun, schedule
from accelbench.execution.stored_file import opened, parse, point_of
from accelbench.execution.suite import ALLOWED, Allowed, KnownDevice, Rounds
from accelbench.output.format import counted
from accelbench.profiling.analysis.rounds import join
from accelbench.profiling.files import find_link, lines_of, open_for_appending, replace_file
from accelbench.profiling.locks import SOFT, acquire
from accelbench.profiling.machine.identity import identity_here
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import SCHEMA_VERSION, Record, Status
from accelbench.profiling.records.stored import FIRST_YEAR, LAST_YEAR, Moment, Readable, Seconds, Stored
from accelbench.settings.limits import MOST_SECONDS, MOST_SEED

RUNS = Path("runs")
"""Default folder of the run directories."""
LOCK = ".lock"
LOCKS = {LOCK, LOCK + SOFT}
"""Files that lock a run directory."""
MAX_INFO_BYTES = 256 << 20
"""Maximum size of `run.json` in bytes."""


class Settings(Stored):
    """Settings of the whole run, which `resume` reuses."""

    seed: Annotated[int, Field(ge=0, le=MOST_SEED)] = 1
    """Seed of the random inputs."""
    time_limit_s: Annotated[float | None, ALLOWED] = None
    """Time limit of one point in seconds of wall time, including preparation; null for the benchmark's own limit."""
    max_seconds: Allowed = 15.0
    """Maximum sampling time of a point in seconds, shared by its repetitions. It ends a training run after the first
    repetition, which runs to the last epoch."""
    patience_s: Annotated[float | None, Field(ge=0, le=MOST_SECONDS)] = None
    """Additional sampling time of the run in seconds, for points with too few undisturbed samples; null for half of the
    planned time."""
    rounds: Rounds = 1
    """Number of repetitions of a kernel, each in a new process."""
    training_rounds: Rounds = 1
    """Number of repetitions of a training workload, each in a new process."""
    ceilings: bool = True
    """Whether ceilings of the device are measured, too; without them, no result is a share of a ceiling."""
    require_quiet: bool = False
    """Whether a noisy point makes the finished run fail."""
    trace: bool = False
    """Whether traces of training steps are stored under `traces`."""
    trusted_network: bool = False
    """Whether TensorFlow's unauthenticated servers are permitted (option `--trusted-network`); `resume` ignores it."""
    host_profile: bool = False
    """Whether the host is profiled during training workloads, with the stacks stored under `host`."""

    def rounds_of(self, point: Point) -> int:
        """Return the number of repetitions of the point."""
        return self.training_rounds if point.backend else self.rounds


class Label(Stored):
    """Name, note and tags given by the user."""

    name: Readable = ""
    """Display name of the run."""
    note: Readable = ""
    """Note on the run."""
    tags: tuple[Readable, ...] = ()
    """Tags for searching runs."""

    @property
    def words(self) -> str:
        """Name, note and tags in one line; empty if none is set."""
        return " · ".join(filter(None, [self.name, self.note, " ".join(f"#{tag}" for tag in self.tags)]))


class OtherRank(Stored):
    """Rank other than 0, with its machine."""

    rank: int
    """Number of the rank, from 1."""
    node: int
    """Number of its host, as in the records; rank 0 is on node 0."""
    environment: Environment
    """Environment of the rank."""


class EarlierCeilings(Stored):
    """Ceilings from an earlier run on the same machine."""

    run_id: str
    """ID of the earlier run."""
    created: Moment
    """Start of the earlier run, with time zone."""
    records: list[Record]
    """Records of the ceilings, each with its repetitions combined."""


class RunInfo(Stored):
    """Content of `run.json`: the command, the plan, the machine and the status of the run."""

    schema_version: Literal[2] = SCHEMA_VERSION
    """Version of this schema; other versions are rejected."""
    run_id: str
    """ID of the run: its start time, a label and four random digits."""
    created: Moment
    """Start of the run, with time zone."""
    status: Literal["running", "finished", "interrupted"]
    """Status of the run; an interrupted run can be resumed."""
    command: list[str]
    """Command line that started the run, one entry per argument."""
    suite: str | None
    """Name of the suite; null if benchmarks were named instead."""
    study: bool = False
    """Whether the suite is a study; the report of a study starts with plots of its training workloads."""
    device: KnownDevice
    """Kind of device that was measured."""
    settings: Settings
    """Settings of the whole run."""
    label: Label = Label()
    """Name, note and tags given by the user."""
    plan: list[Point]
    """Points to measure, in order."""
    environment: Environment
    """Environment of rank 0, or of the single process."""
    other_ranks: list[OtherRank] = []
    """Ranks other than 0, each with its machine."""
    earlier_ceilings: EarlierCeilings | None = None
    """Ceilings reused from an earlier run; null if this run measured its own or none."""
    best_ceilings: list[EarlierCeilings] = []
    """Highest memory ceilings of past runs on this machine, each with its run; empty if none is known."""
    wall_s: Seconds = 0.0
    """Wall time of the run in seconds, summed over resumptions."""
    worker_s: Seconds = 0.0
    """Part of `wall_s` spent in workers: imports, preparation, warm-up, measurement and verification."""

    def schedule(self) -> list[ScheduledRun]:
        """Return all scheduled runs, in order."""
        return schedule(self.plan, self.settings.rounds_of, self.settings.seed)


def now() -> datetime:
    """Return the current local time; raise UserError if the year of the clock is implausible."""
    moment = datetime.now(UTC)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise UserError(f"the clock shows the year {moment.year}: set it, because records contain the date")
    return moment.astimezone()


def new_run_id(label: str) -> str:
    """Return the ID of a run that starts now: the time, the label and four random digits."""
    return f"{now():%Y%m%d-%H%M%S}-{label}-{os.urandom(2).hex()}"


class Contents(NamedTuple):
    """Valid and corrupt lines of `records.jsonl`."""

    lines: list[Record]
    """Last record of each repetition of each point, as measured."""
    damage: dict[int, str]
    """Reason why a line is corrupt, by line number from 1."""


class RunStore:
    """Run directory, written by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.info_path = path / "run.json"
        self.records_path = path / "records.jsonl"
        self._lock: BaseFileLock | None = None

    @classmethod
    def create(cls, path: Path, info: RunInfo) -> RunStore:
        """Create a run directory and acquire its lock.

        Raises `UserError` if the directory cannot be written or is not empty; then no file is left behind.
        """
        store = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not (path / LOCK).exists():
                store._refuse_if_taken()  # before the lock file is created
            store._acquire()
            store._refuse_if_taken()
            store._begin(info)
        except OSError as error:
            raise UserError(
                f"cannot write the run directory {path}: {reason_of(error)}; nothing was measured"
            ) from error
        return store

    def _begin(self, info: RunInfo) -> None:
        """Write the files of a run without records; on an error, remove them."""
        try:
            self._replace_info(info)
            os.close(open_for_appending(self.records_path))
        except OSError:
            self.close()
            for path in (self.info_path, self.path / LOCK):
                path.unlink(missing_ok=True)
            raise

    def _refuse_if_taken(self) -> None:
        taken = {file.name for file in self.path.iterdir()} - LOCKS
        if "run.json" in taken:
            advice = f"continue it with 'accelbench resume {self.path}', or choose another --out"
            raise UserError(f"{self.path} already holds a run: {advice}")
        if taken:
            raise UserError(f"{self.path} is not empty: choose a new directory with --out")

    @classmethod
    def open(cls, path: Path) -> RunStore:
        """Open an existing run directory for reading."""
        if not os.path.isfile(path / "run.json"):
            raise UserError(f"{path} is not a run directory: it has no run.json")
        return cls(path)

    def lock(self) -> None:
        """Acquire the lock for writing; raise `UserError` if another process holds it."""
        if link := find_link(self.path):
            raise UserError(
                f"cannot resume {self.path}: {link} is a symbolic link, which a run directory must not contain"
            )
        try:
            self._acquire()
        except OSError as error:
            raise UserError(f"cannot write the run directory {self.path}: {reason_of(error)}") from error

    def _acquire(self) -> None:
        try:
            self._lock = self._lock or acquire(self.path / LOCK)
        except Timeout:
            raise UserError(
                f"another accelbench process is writing {self.path}: wait for it, or choose another --out"
            ) from None

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def info(self) -> RunInfo:
        """Read `run.json`; raise `DataDamaged` if it is missing or corrupt."""
        with opened(self.info_path, MAX_INFO_BYTES) as file:
            return parse(RunInfo, file.read(), f"{self.info_path}")

    def write_info(self, info: RunInfo) -> None:
        """Replace `run.json` atomically; raise RunBroken if it cannot be written."""
        try:
            self._replace_info(info)
        except OSError as error:
            raise RunBroken(f"cannot write {self.info_path}: {reason_of(error)}; {self.recovery_text()}") from error

    def _replace_info(self, info: RunInfo) -> None:
        text = identity_here().anonymize_json(info.model_dump_json(indent=2), indent=2) + "\n"
        replace_file(self.info_path, lambda new: new.write_text(text, encoding="utf-8"), sync=True)

    def append(self, record: Record, text: str | None = None) -> None:
        """Append one record and sync it to the disk; `text` is its JSON, if already serialized.

        Raises RunBroken if the write fails; a failed write leaves no partial line.
        """
        line = (identity_here().anonymize_json(text or record.model_dump_json()) + "\n").encode()
        try:
            with open(open_for_appending(self.records_path), "ab", buffering=0) as file:
                size = file.seek(0, os.SEEK_END)
                try:
                    written = file.write(line)
                    if written < len(line):
                        file.write(line[written:])  # a full disk raises its error only here
                    os.fsync(file.fileno())
                except OSError:
                    file.truncate(size)
                    raise
        except OSError as error:
            what = f"cannot write the record of {record.point} to {self.records_path}: {reason_of(error)}"
            raise RunBroken(f"{what}; {self.recovery_text()}") from error

    def recovery_text(self) -> str:
        """Return the number of readable records, and the command to resume, as text for a failed write."""
        try:
            self.info()
            count = len(self.contents().lines)
        except UserError as error:
            return f"no record of this run is readable: {error}"
        return f"{counted(count, 'record')} stored; fix the cause, then run 'accelbench resume {self.path}'"

    def records(self) -> list[Record]:
        """Return one record per point, with its repetitions combined, in the order of the plan; see `points`."""
        return list(self.points())

    def points(self, only: Collection[str] | None = None) -> Iterator[Record]:
        """Yield one record per point, with its repetitions combined, in the order of the plan; `only` the named points.

        Only one point is in memory at a time. Corrupt lines are skipped with a `Damage` warning; a missing or
        unreadable file raises `DataDamaged`.
        """
        info = self.info()
        place = {str(point): number for number, point in enumerate(info.plan)}
        lines = self._lines_of_points()
        with opened(self.records_path) as file:
            wanted = lines if only is None else lines.keys() & only
            for point in sorted(wanted, key=lambda point: place.get(point, len(place))):
                rounds: dict[int, Record] = {}
                for number, begin in lines[point]:
                    file.seek(begin)
                    try:
                        record = self._parse_line(file.readline(), number)
                    except UserError as error:
                        report_damage(str(error))
                    else:
                        rounds[record.round] = record
                if rounds:
                    found = list(rounds.values())
                    yield join(found, info.settings.rounds_of(found[0].point))

    def _lines_of_points(self) -> dict[str, list[tuple[int, int]]]:
        """Return the lines of each point: line numbers from 1, and byte offsets."""
        found: dict[str, list[tuple[int, int]]] = {}
        begin = 0
        for number, line in self._numbered():
            try:
                point = point_of(line) or str(self._parse_line(line, number).point)
            except UserError as error:
                report_damage(str(error))
            else:
                found.setdefault(point, []).append((number, begin))
            begin += len(line)
        return found

    def lines(self) -> list[Record]:
        """Return the last record of each repetition of each point; skip corrupt lines with a `Damage` warning."""
        contents = self.contents()
        for reason in contents.damage.values():
            report_damage(reason)
        return contents.lines

    def contents(self) -> Contents:
        """Return the valid records and the corrupt lines; raise `DataDamaged` if the file cannot be read."""
        found: dict[tuple[str, int], Record] = {}
        damage: dict[int, str] = {}
        for number, line in self._numbered():
            try:
                record = self._parse_line(line, number)
            except UserError as error:
                damage[number] = str(error)
            else:
                found[str(record.point), record.round] = record
        return Contents(list(found.values()), damage)

    def _parse_line(self, line: bytes, number: int) -> Record:
        where = f"{self.records_path} line {number}"
        if not line.endswith(b"\n"):
            raise DataDamaged(f"{where} is cut off: 'accelbench resume {self.path}' measures its point again")
        return parse(Record, line, where)

    def _numbered(self) -> Iterator[tuple[int, bytes]]:
        """Yield line numbers from 1 and the lines of `records.jsonl`; raise `DataDamaged` if it cannot be read."""
        with opened(self.records_path) as file:
            yield from enumerate(lines_of(file, self.records_path), start=1)

    def remaining_runs(self, lines: Sequence[Record], again: Collection[Status] = ()) -> list[ScheduledRun]:
        """Return the scheduled runs without a record in `lines`, in order.

        The runs of a failed or skipped point are left out, unless its status is in `again`.
        """
        over = {str(line.point) for line in lines if line.status not in ("measured", *again)}
        done = {(str(line.point), line.round) for line in lines if line.status == "measured"}
        return [
            scheduled
            for scheduled in self.info().schedule()
            if str(scheduled.point) not in over and (str(scheduled.point), scheduled.round) not in done
        ]

    def unfinished_points(self, plan: Sequence[Point]) -> list[Point]:
        """Return the points of `plan` that this run has neither measured completely nor skipped."""
        lines = self.lines()
        recorded = {str(record.point) for record in lines}
        unfinished = {str(scheduled.point) for scheduled in self.remaining_runs(lines, again=["failed"])}
        return [point for point in plan if str(point) not in recorded - unfinished]

    def set_corrupt_lines_aside(self) -> list[str]:
        """Move corrupt lines to `records.jsonl.damaged` and return their reasons; the run can then be resumed."""
        damage = self.contents().damage
        if damage:
            parted: dict[bool, list[bytes]] = {True: [], False: []}
            for number, line in self._numbered():
                parted[number in damage].append(line)
            with open(open_for_appending(self.path / "records.jsonl.damaged"), "ab") as file:
                file.writelines(line.rstrip(b"\n") + b"\n" for line in parted[True])
            replace_file(self.records_path, lambda new: new.write_bytes(b"".join(parted[False])))
        return list(damage.values())
