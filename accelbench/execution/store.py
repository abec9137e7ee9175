"""The run store: `run.json`, replaced atomically, and `records.jsonl`, appended and synced per measurement."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from filelock import FileLock, Timeout
from pydantic import Field

from accelbench.errors import DataDamaged, RunBroken, UserError, tell_damage
from accelbench.execution.schedule import Turn, schedule
from accelbench.execution.stored_file import opened, parse, point_of, why
from accelbench.execution.suite import ALLOWED, Allowed, KnownDevice, Rounds
from accelbench.output.format import counted
from accelbench.profiling.analysis.rounds import join
from accelbench.profiling.files import find_link, lines_of, open_for_appending, replace_file
from accelbench.profiling.machine.identity import identity_here
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import SCHEMA_VERSION, Record, Status
from accelbench.profiling.records.stored import Moment, Seconds, Stored
from accelbench.settings.limits import MOST_SEED

RUNS = Path("runs")
"""The folder that holds the runs, unless they are given a place."""
LOCK = ".lock"
MAX_INFO_BYTES = 256 << 20
"""Maximum size of `run.json` in bytes."""


class Settings(Stored):
    """The user's choices for the whole run; `resume` goes on with the same."""

    seed: Annotated[int, Field(ge=0, le=MOST_SEED)] = 1
    """The seed of the random inputs."""
    time_limit_s: Annotated[float | None, ALLOWED] = None
    """The wall time in seconds allowed to one point, its preparation included; null for the benchmark's own limit."""
    max_seconds: Allowed = 15.0
    """The measuring time in seconds after which an unsteady point is taken as it is; its rounds share it. A training
    ends after it in its later rounds, and goes on to the last epoch in the first."""
    rounds: Rounds = 1
    """The number of rounds in which a kernel is measured, each in a fresh process."""
    training_rounds: Rounds = 1
    """The number of rounds in which a training is measured."""
    ceilings: bool = True
    """Whether the ceilings of the device are measured beside what was asked for; without them no share is of one."""
    require_quiet: bool = False
    """Whether a disturbed point makes the run fail, once everything is measured."""
    trace: bool = False
    """Whether traces of training steps are kept under `traces`."""
    trusted_network: bool = False
    """Whether the user trusts everyone who can reach the ports of the hosts, as TensorFlow's servers do."""
    host_profile: bool = False
    """Whether the host is profiled while trainings run, its stacks kept under `host`."""

    def rounds_of(self, point: Point) -> int:
        """Return the number of rounds in which the point is to be measured."""
        return self.training_rounds if point.backend else self.rounds


class Label(Stored):
    """What the user calls a run by."""

    name: str = ""
    """A name for people; the run's id stays what it is found by."""
    note: str = ""
    """A sentence on what the run is about."""
    tags: tuple[str, ...] = ()
    """Words by which runs are found together."""

    @property
    def words(self) -> str:
        """Return name, note and tags in a line; empty where there are none."""
        return " · ".join(filter(None, [self.name, self.note, " ".join(f"#{tag}" for tag in self.tags)]))


class OtherRank(Stored):
    """A rank besides rank 0, and what it ran on."""

    rank: int
    """The number of the rank."""
    node: int
    """The number of its host, as records have it; rank 0 is on node 0."""
    environment: Environment
    """The machine that the rank ran on."""


class EarlierCeilings(Stored):
    """The ceilings that a run took over from an earlier one on the same machine, and did not measure anew."""

    run_id: str
    """The earlier run."""
    created: Moment
    """The moment at which that run was begun, with its time zone."""
    records: list[Record]
    """The measurements that set them, each with its rounds joined."""


class RunInfo(Stored):
    """`run.json`: what was asked for, on which machine, and how the run ended."""

    schema_version: Literal[2] = SCHEMA_VERSION
    """The version of this schema; another is refused."""
    run_id: str
    """The run's name, made of the time at which it was begun and a label."""
    created: Moment
    """The moment at which the run was begun, with its time zone."""
    status: Literal["running", "finished", "interrupted"]
    """Whether the run goes on, has ended, or was ended early and can be gone on with."""
    command: list[str]
    """The command line that began the run, word by word."""
    suite: str | None
    """The suite that was measured; null where none was asked for."""
    study: bool = False
    """Whether that suite's trainings are a study, with whose drawings the page begins."""
    device: KnownDevice
    """The kind of device that was measured."""
    settings: Settings
    """The user's choices for the whole run."""
    label: Label = Label()
    """The user's own name, note and tags."""
    plan: list[Point]
    """The points to measure, in order."""
    environment: Environment
    """The machine of the process that is rank 0, or measures alone."""
    other_ranks: list[OtherRank] = []
    """The other ranks of a run of several, each with its machine."""
    earlier_ceilings: EarlierCeilings | None = None
    """The ceilings that were not measured anew; null where this run measured all of its own."""
    wall_s: Seconds = 0.0
    """The wall time of the run so far in seconds, summed over resumptions."""
    worker_s: Seconds = 0.0
    """The seconds of `wall_s` that workers spent on imports, preparing, warming up, measuring and verifying."""

    def schedule(self) -> list[Turn]:
        """Return every turn of the run, in order."""
        return schedule(self.plan, self.settings.rounds_of, self.settings.seed)


def new_run_id(label: str) -> str:
    """Return the name of a run that begins now: the time, the label and four digits that no other run has."""
    return f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-{label}-{os.urandom(2).hex()}"


class Contents(NamedTuple):
    """What can be read of `records.jsonl`, and what cannot."""

    lines: list[Record]
    """The last record of each round of each point, as measured."""
    damage: dict[int, str]
    """The reason why a line cannot be read, in words, by its number from 1."""


class RunStore:
    """One run directory, read by everything and written by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.info_path = path / "run.json"
        self.records_path = path / "records.jsonl"
        self._lock = FileLock(path / LOCK)

    @classmethod
    def create(cls, path: Path, info: RunInfo) -> RunStore:
        """Make a new run directory and hold its lock; `UserError` if it cannot be written or is taken.

        Then nothing of it is left behind.
        """
        store = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not (path / LOCK).exists():
                store._refuse_if_taken()  # before the lock's file is put there
            store._acquire()
            store._refuse_if_taken()
            store._begin(info)
        except OSError as error:
            raise UserError(f"cannot write the run directory {path}: {why(error)}; nothing was measured") from error
        return store

    def _begin(self, info: RunInfo) -> None:
        """Write the files of a run without records, or none of them."""
        try:
            self._replace_info(info)
            os.close(open_for_appending(self.records_path))
        except OSError:
            self.close()
            for path in (self.info_path, self.path / LOCK):
                path.unlink(missing_ok=True)
            raise

    def _refuse_if_taken(self) -> None:
        taken = {file.name for file in self.path.iterdir()} - {LOCK}
        if "run.json" in taken:
            advice = f"'accelbench resume {self.path}' continues it; or choose another --out"
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
        """Become the one writer, or `UserError` if another process is."""
        if link := find_link(self.path):
            raise UserError(f"{self.path} is not resumed: {link} is a symbolic link, and a run has none")
        try:
            self._acquire()
        except OSError as error:
            raise UserError(f"cannot write the run directory {self.path}: {why(error)}") from error

    def _acquire(self) -> None:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise UserError(
                f"another accelbench is writing {self.path}: wait for it, or choose another --out"
            ) from None

    def close(self) -> None:
        self._lock.release()

    def info(self) -> RunInfo:
        """Return what the run tells of itself; `DataDamaged` if it cannot be read."""
        with opened(self.info_path, MAX_INFO_BYTES) as file:
            return parse(RunInfo, file.read(), f"{self.info_path}")

    def write_info(self, info: RunInfo) -> None:
        """Replace `run.json` in one step, so that no reader ever sees half of it; RunBroken if it cannot be written."""
        try:
            self._replace_info(info)
        except OSError as error:
            raise RunBroken(f"cannot write {self.info_path}: {why(error)}; {self.kept()}") from error

    def _replace_info(self, info: RunInfo) -> None:
        text = identity_here().out_of_json(info.model_dump_json(indent=2), indent=2) + "\n"
        replace_file(self.info_path, lambda new: new.write_text(text, encoding="utf-8"), sync=True)

    def append(self, record: Record, text: str | None = None) -> None:
        """Append one record, whose JSON is `text` if it is known, and sync it to the disk.

        A failed write leaves no partial line, and is RunBroken.
        """
        line = (identity_here().out_of_json(text or record.model_dump_json()) + "\n").encode()
        try:
            with open(open_for_appending(self.records_path), "ab", buffering=0) as file:
                size = file.seek(0, os.SEEK_END)
                try:
                    written = file.write(line)
                    if written < len(line):
                        file.write(line[written:])  # a disk that is full says so only now
                    os.fsync(file.fileno())
                except OSError:
                    file.truncate(size)
                    raise
        except OSError as error:
            what = f"cannot write the record of {record.point} to {self.records_path}: {why(error)}"
            raise RunBroken(f"{what}; {self.kept()}") from error

    def kept(self) -> str:
        """Return, in words, what is kept of the run after a write that failed: only what can be read again is."""
        try:
            self.info()
            count = len(self.contents().lines)
        except UserError as error:
            return f"nothing of this run can be read again: {error}"
        records = f"{counted(count, 'record')} can be read again"
        return f"{records}, and once that is mended 'accelbench resume {self.path}' measures the rest"

    def records(self) -> list[Record]:
        """Return one record for each point, its rounds joined, in the order of the plan; see `points`."""
        return list(self.points())

    def points(self) -> Iterator[Record]:
        """Yield one record for each point, its rounds joined, in the order of the plan.

        One point is held at a time, however many there are. What cannot be read is told as damage; where that is the
        whole file, `DataDamaged` is raised.
        """
        info = self.info()
        place = {str(point): number for number, point in enumerate(info.plan)}
        lines = self._lines_of_points()
        with opened(self.records_path) as file:
            for point in sorted(lines, key=lambda point: place.get(point, len(place))):
                rounds: dict[int, Record] = {}
                for number, begin in lines[point]:
                    file.seek(begin)
                    try:
                        record = self._parse_line(file.readline(), number)
                    except UserError as error:
                        tell_damage(str(error))
                    else:
                        rounds[record.round] = record
                if rounds:
                    found = list(rounds.values())
                    yield join(found, info.settings.rounds_of(found[0].point))

    def _lines_of_points(self) -> dict[str, list[tuple[int, int]]]:
        """Return where each point's lines are: their numbers from 1, and where they begin."""
        found: dict[str, list[tuple[int, int]]] = {}
        begin = 0
        for number, line in self._numbered():
            try:
                point = point_of(line) or str(self._parse_line(line, number).point)
            except UserError as error:
                tell_damage(str(error))
            else:
                found.setdefault(point, []).append((number, begin))
            begin += len(line)
        return found

    def lines(self) -> list[Record]:
        """Return the last record of each round of each point, as measured; what cannot be read is told as damage."""
        contents = self.contents()
        for reason in contents.damage.values():
            tell_damage(reason)
        return contents.lines

    def contents(self) -> Contents:
        """Return what can be read of the records, and what cannot; `DataDamaged` if there is no such file."""
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
            raise DataDamaged(f"{where} is cut off: 'accelbench resume {self.path}' measures that point again")
        return parse(Record, line, where)

    def _numbered(self) -> Iterator[tuple[int, bytes]]:
        """Yield each line of the records with its number, one at a time; `DataDamaged` if there is no such file."""
        with opened(self.records_path) as file:
            yield from enumerate(lines_of(file, self.records_path), start=1)

    def turns_left(self, lines: Sequence[Record], again: Collection[Status] = ()) -> list[Turn]:
        """Return the turns that have none of these records yet, in order.

        A point that failed or was skipped in a round has none left, unless points that ended so are to be tried again.
        """
        over = {str(line.point) for line in lines if line.status not in ("measured", *again)}
        done = {(str(line.point), line.round) for line in lines if line.status == "measured"}
        return [
            turn
            for turn in self.info().schedule()
            if str(turn.point) not in over and (str(turn.point), turn.round) not in done
        ]

    def left_of(self, plan: Sequence[Point]) -> list[Point]:
        """Return the points of the plan that this run has neither measured in all its rounds nor skipped."""
        lines = self.lines()
        there = {str(record.point) for record in lines}
        unfinished = {str(turn.point) for turn in self.turns_left(lines, again=["failed"])}
        return [point for point in plan if str(point) not in there - unfinished]

    def set_damage_aside(self) -> list[str]:
        """Move the lines that cannot be read to `records.jsonl.damaged`, and return why, so that the run can go on."""
        damage = self.contents().damage
        if damage:
            parted: dict[bool, list[bytes]] = {True: [], False: []}
            for number, line in self._numbered():
                parted[number in damage].append(line)
            with open(open_for_appending(self.path / "records.jsonl.damaged"), "ab") as file:
                file.writelines(line.rstrip(b"\n") + b"\n" for line in parted[True])
            replace_file(self.records_path, lambda new: new.write_bytes(b"".join(parted[False])))
        return list(damage.values())
