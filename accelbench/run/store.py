"""The run store: `run.json`, replaced atomically, and `records.jsonl`, appended and synced per measurement."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from filelock import FileLock, Timeout
from pydantic import ValidationError

from accelbench.errors import RunBroken, UserError
from accelbench.run.schedule import Turn, schedule
from accelbench.run.suite import KnownDevice, Rounds
from profiling.analysis.rounds import join
from profiling.records.environment import Environment
from profiling.records.point import Point
from profiling.records.record import SCHEMA_VERSION, Record
from profiling.records.stored import Stored

RUNS = Path("runs")
"""The folder that holds the runs, unless they are given a place."""
LOCK = ".lock"
M = TypeVar("M", bound=Stored)


class Settings(Stored):
    """The user's choices for the whole run; `resume` goes on with the same."""

    seed: int = 1
    """The seed of the random inputs."""
    time_limit_s: float | None = None
    """The wall time in seconds allowed to one point, its preparation included; null for the benchmark's own limit."""
    max_seconds: float = 15.0
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


class OtherRank(Stored):
    """A rank besides rank 0, and what it ran on."""

    rank: int
    """The number of the rank."""
    node: int
    """The number of its host, as records have it; rank 0 is on node 0."""
    environment: Environment
    """The machine that the rank ran on."""


class RunInfo(Stored):
    """`run.json`: what was asked for, on which machine, and how the run ended."""

    schema_version: Literal[2] = SCHEMA_VERSION
    """The version of this schema; another is refused."""
    run_id: str
    """The run's name, made of the time at which it was begun and a label."""
    created: datetime
    """The moment at which the run was begun, with its time zone."""
    status: Literal["running", "finished", "interrupted"]
    """Whether the run goes on, has ended, or was ended early and can be gone on with."""
    command: list[str]
    """The command line that began the run, word by word."""
    suite: str | None
    """The suite that was measured; null where none was asked for."""
    device: KnownDevice
    """The kind of device that was measured."""
    settings: Settings
    """The user's choices for the whole run."""
    plan: list[Point]
    """The points to measure, in order."""
    environment: Environment
    """The machine of the process that is rank 0, or measures alone."""
    other_ranks: list[OtherRank] = []
    """The other ranks of a run of several, each with its machine."""
    wall_s: float = 0.0
    """The wall time of the run so far in seconds, summed over resumptions."""
    worker_s: float = 0.0
    """The seconds of `wall_s` that workers spent on imports, preparing, warming up, measuring and verifying."""


def new_run_id(label: str) -> str:
    """Return the name of a run that begins now: the time, the label and four digits that no other run has."""
    return f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-{label}-{os.urandom(2).hex()}"


class RunStore:
    """One run directory, read by everything and written by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records_path = path / "records.jsonl"
        self._lock = FileLock(path / LOCK)

    @classmethod
    def create(cls, path: Path, info: RunInfo) -> RunStore:
        """Make a new run directory and hold its lock; `UserError` if it cannot be written or is taken."""
        store = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not (path / LOCK).exists():
                store._refuse_if_taken()  # before the lock's file is put there
            store._acquire()
            store._refuse_if_taken()
            store.write_info(info)
            store.records_path.touch()
        except RunBroken as error:
            raise UserError(str(error)) from error
        except OSError as error:
            raise UserError(f"cannot write the run directory {path}: {error.strerror}") from error
        return store

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
        if not (path / "run.json").is_file():
            raise UserError(f"{path} is not a run directory: it has no run.json")
        return cls(path)

    def lock(self) -> None:
        """Become the one writer, or `UserError` if another process is."""
        try:
            self._acquire()
        except OSError as error:
            raise UserError(f"cannot write the run directory {self.path}: {error.strerror}") from error

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
        return _parse(
            RunInfo,
            (self.path / "run.json").read_text(encoding="utf-8", errors="replace"),
            f"{self.path / 'run.json'}",
        )

    def write_info(self, info: RunInfo) -> None:
        """Replace `run.json` in one step, so that no reader ever sees half of it."""
        new = self.path / "run.json.new"
        with self._telling_what_is_kept(), new.open("w", encoding="utf-8") as file:
            file.write(info.model_dump_json(indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path / "run.json")

    def append(self, record: Record) -> None:
        """Add one record and sync it to the disk; a failed write leaves no partial line."""
        line = (record.model_dump_json() + "\n").encode()
        with self._telling_what_is_kept(), self.records_path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                written = file.write(line)
                if written < len(line):
                    file.write(line[written:])  # a disk that is full says so only now
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise

    @contextmanager
    def _telling_what_is_kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            advice = f"what was measured is kept: make room, then 'accelbench resume {self.path}'"
            raise RunBroken(f"cannot write to {self.path}: {error.strerror}; {advice}") from error

    def records(self) -> list[Record]:
        """Return one record for each point, its rounds joined, in the order of the plan; see `lines` for errors."""
        info = self.info()
        place = {str(point): number for number, point in enumerate(info.plan)}
        points: dict[str, list[Record]] = {}
        for record in self.lines():
            points.setdefault(str(record.point), []).append(record)
        ordered = sorted(points.items(), key=lambda item: place.get(item[0], len(place)))
        return [join(rounds, info.settings.rounds_of(rounds[0].point)) for _, rounds in ordered]

    def lines(self) -> list[Record]:
        """Return the last record of each round of each point, as measured; `UserError` names a damaged line."""
        return list({(str(record.point), record.round): record for record in self._lines()}.values())

    def schedule(self) -> list[Turn]:
        """Return every turn of the run, in order."""
        info = self.info()
        return schedule(info.plan, info.settings.rounds_of, info.settings.seed)

    def turns_left(self, failed: bool = False) -> list[Turn]:
        """Return the turns that have no record yet, and with `failed` those that only failed, in order.

        A point that was skipped has none left, nor has one of which a round failed, unless `failed` is asked for.
        """
        lines = self.lines()
        over = {
            str(line.point) for line in lines if line.status == "skipped" or (line.status == "failed" and not failed)
        }
        done = {(str(line.point), line.round) for line in lines if line.status == "measured"}
        return [
            turn
            for turn in self.schedule()
            if str(turn.point) not in over and (str(turn.point), turn.round) not in done
        ]

    def left_of(self, plan: Sequence[Point]) -> list[Point]:
        """Return the points of the plan that this run has neither measured in all its rounds nor skipped."""
        there = {str(record.point) for record in self.lines()}
        unfinished = {str(turn.point) for turn in self.turns_left(failed=True)}
        return [point for point in plan if str(point) not in there - unfinished]

    def _lines(self) -> Iterator[Record]:
        if not self.records_path.exists():
            raise UserError(f"{self.path} has no records.jsonl")
        data = self.records_path.read_bytes()
        for number, line in enumerate(data.splitlines(keepends=True), start=1):
            where = f"{self.records_path} line {number}"
            if not line.endswith(b"\n"):
                raise UserError(
                    f"{where} is cut off: 'accelbench resume {self.path}' measures that point again and keeps the rest"
                )
            yield _parse(Record, line.decode("utf-8", errors="replace"), where)

    def drop_cut_off_line(self) -> None:
        """Set aside a last line that a crash cut off, in `records.jsonl.cut`, so that the run can be continued."""
        data = self.records_path.read_bytes()
        end = data.rfind(b"\n") + 1
        if end < len(data):
            (self.path / "records.jsonl.cut").write_bytes(data[end:])
            with self.records_path.open("r+b") as file:
                file.truncate(end)


def _parse(model: type[M], text: str, where: str) -> M:
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise UserError(f"{where} is damaged: not JSON ({error})") from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        older = ": accelbench 0.1 opens it" if version == 1 else ""
        raise UserError(f"{where} has schema version {version}; this accelbench reads version {SCHEMA_VERSION}{older}")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{where} is damaged: {field}: {first['msg']}") from None
