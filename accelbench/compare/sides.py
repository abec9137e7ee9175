"""Sides of a comparison: each is one run or several runs of one machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from accelbench.environment.differences import differences, settings_text
from accelbench.errors import UserError
from accelbench.execution.store import RunInfo, RunStore
from accelbench.history.fingerprint import fingerprint
from accelbench.profiling.records.point import Device
from accelbench.profiling.records.record import Record


@dataclass(frozen=True)
class ComparedSide:
    """Side of a comparison: its letter and its runs."""

    name: str
    runs: tuple[RunStore, ...]
    infos: tuple[RunInfo, ...]

    @property
    def title(self) -> str:
        """Return the ids of the runs."""
        return ", ".join(info.run_id for info in self.infos)

    @property
    def machine(self) -> str:
        return fingerprint(self.infos[0])

    @property
    def devices(self) -> set[Device]:
        return {planned.device for info in self.infos for planned in info.plan}

    @cached_property
    def points(self) -> dict[str, list[Record]]:
        """Return the records of each point, in the order of the runs."""
        points: dict[str, list[Record]] = {}
        for records in self._records:
            for record in records:
                points.setdefault(str(record.point), []).append(record)
        return points

    @cached_property
    def _records(self) -> list[list[Record]]:
        return [run.records() for run in self.runs]

    def notes(self) -> Iterator[str]:
        """Yield notes on unfinished runs and on differences between the runs of this side."""
        for records, info in zip(self._records, self.infos, strict=True):
            if info.status != "finished":
                which = self.name if len(self.runs) == 1 else f"{info.run_id} of {self.name}"
                yield f"{which} is {info.status}: {len(records)} of its {len(info.plan)} points have a record"
        first, *others = self.infos
        unlike = [
            f"{difference.fact} {difference.a} / {difference.b}"
            for other in others
            for difference in differences(first.environment, other.environment, self.devices)
            if difference.matters
        ]
        unlike += settings_text([info.settings for info in self.infos])
        if unlike:
            yield f"the runs of {self.name} differ from each other: {'; '.join(dict.fromkeys(unlike))}"


def open_sides(a: Sequence[RunStore], b: Sequence[RunStore]) -> tuple[ComparedSide, ComparedSide]:
    """Return both sides; raise `UserError` for an unreadable or repeated run and for a side with several machines."""
    sides = tuple(
        ComparedSide(name, tuple(runs), tuple(run.info() for run in runs)) for name, runs in (("A", a), ("B", b))
    )
    side_a, side_b = sides
    for side in sides:
        ids = [info.run_id for info in side.infos]
        if twice := {run_id for run_id in ids if ids.count(run_id) > 1}:
            raise UserError(f"{side.name} contains run {min(twice)} twice: give each run once")
        machines = list(dict.fromkeys(map(fingerprint, side.infos)))
        if len(machines) > 1:
            raise UserError(
                f"the runs of {side.name} are of several machines; a side needs runs of one machine: "
                f"{'; '.join(machines)}"
            )
    if both := {info.run_id for info in side_a.infos} & {info.run_id for info in side_b.infos}:
        raise UserError(f"run {min(both)} is on both sides: give each run to one side only")
    return side_a, side_b
