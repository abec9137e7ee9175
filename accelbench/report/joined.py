"""Several runs that are shown together: what tells them apart, what differs between them, and what they measured.

They may be of several machines, devices or containers, or of one machine at several times. A run by itself is the
simplest case of it, in which nothing needs to be told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from accelbench.environment.differences import differences, different_settings
from accelbench.errors import DataDamaged, UserError, tell_damage
from accelbench.execution.store import RunStore
from accelbench.profiling.analysis.roofline import Ceiling
from accelbench.profiling.records.record import Record
from accelbench.report.measured_roofs import Roofline, make_roofline
from accelbench.report.rows import Row
from accelbench.report.run_labels import label_runs
from accelbench.report.stored_run import Run
from accelbench.report.study import PlacedRow, Study, make_studies


@dataclass(frozen=True)
class RunDifference:
    """Field that matters and has another value in some runs than in the first."""

    fact: str
    """The fact: its path in `run.json`, or the setting."""
    first: str
    """The value in the first run, in words."""
    other: str
    """The value in the other runs, in words."""
    labels: tuple[str, ...]
    """The labels of the runs that have this other value."""


@dataclass(frozen=True)
class Joined:
    """Several runs, or one, as they are shown together; the first is the one that the others are held against."""

    runs: tuple[Run, ...]

    @property
    def alone(self) -> Run | None:
        """Return the run where it is the only one."""
        return self.runs[0] if len(self.runs) == 1 else None

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Return a short name for each run that no other has: its device, and what tells it from the others of that."""
        return label_runs(self.runs)

    @property
    def labelled(self) -> list[tuple[str, Run]]:
        """Return the runs, each with its label."""
        return list(zip(self.labels, self.runs, strict=True))

    def place(self, label: str, run: Run, record: Record) -> str:
        """Return what a record is called by in a drawing: the device or, of several runs, the run's label."""
        device = record.point.device
        if self.alone:
            return device
        return label if device == run.info.device else f"{device} in {label}"

    @property
    def versions(self) -> list[str]:
        """Return the versions of accelbench that measured the runs."""
        return list(dict.fromkeys(run.info.environment.software.accelbench for run in self.runs))

    @cached_property
    def rows(self) -> list[PlacedRow]:
        """Return every measured point of every run, each with what it is called by."""
        return [(self.place(label, run, row.record), row) for label, run in self.labelled for row in run.rows]

    @cached_property
    def ceilings(self) -> list[tuple[str, Ceiling]]:
        """Return the ceilings of every run, each with what it is called by; none bounds a figure of another run."""
        return [(self.place(label, run, c.record), c) for label, run in self.labelled for c in run.ceilings]

    @cached_property
    def studies(self) -> list[Study]:
        """Return the studies over all runs, whose lines are named by device or run."""
        return make_studies(self.rows)

    @cached_property
    def rooflines(self) -> list[Roofline]:
        """Return the roofline of each device of each run, under the roofs of that very run."""
        rows: dict[str, list[Row]] = {}
        for place, row in self.rows:
            rows.setdefault(place, []).append(row)
        roofs: dict[str, list[Ceiling]] = {place: [] for place in rows}
        for place, ceiling in self.ceilings:
            roofs.setdefault(place, []).append(ceiling)
        made = (make_roofline(place, found, roofs[place]) for place, found in rows.items())
        return [roofline for roofline in made if roofline]

    @cached_property
    def apart(self) -> list[RunDifference]:
        """Return what differs from the first run and matters, each once: the settings, then facts of the machines.

        Facts of GPUs matter between runs that both measured GPUs; the device itself is no difference of machines.
        """
        found: dict[tuple[str, str, str], list[str]] = {}
        for label, run in self.labelled[1:]:
            for difference in (*_settings_apart(self.runs[0], run), *_machines_apart(self.runs[0], run)):
                found.setdefault(difference, []).append(label)
        return [RunDifference(*difference, tuple(labels)) for difference, labels in found.items()]


def read_runs(stores: Sequence[RunStore]) -> Joined:
    """Return these runs as they are stored; `UserError` if one is given twice.

    What cannot be read is told as damage; where that is all of every run, `DataDamaged` is raised.
    """
    runs: dict[str, tuple[RunStore, Run]] = {}
    broken: list[DataDamaged] = []
    for store in stores:
        try:
            run_id = store.info().run_id
            if run_id in runs:
                first = runs[run_id][0].path
                where = (
                    f"{store.path}, twice" if store.path.resolve() == first.resolve() else f"{first} and {store.path}"
                )
                raise UserError(f"the run {run_id} is given as {where}: give each run once")
            runs[run_id] = store, Run.of(store)
        except DataDamaged as error:
            broken.append(error)
    if not runs:
        raise broken[0]
    for damage in broken:
        tell_damage(f"{damage}; the other runs are shown")
    return Joined(tuple(run for _, run in runs.values()))


DifferenceText = tuple[str, str, str]
"""Field, and its value as text in the first run and in another one."""


def _settings_apart(first: Run, other: Run) -> Iterator[DifferenceText]:
    for name, (a, b) in different_settings([first.info.settings, other.info.settings]).items():
        yield name, a, b
    one, two = (", ".join(sorted(_precisions(run))) for run in (first, other))
    if one and two and one != two:
        yield "arithmetic of trainings", one, two


def _precisions(run: Run) -> set[str]:
    """Return the types of the arithmetic that the run's trainings are bound by."""
    return {row.record.bound.dtype for row in run.rows if row.training and row.record.bound.dtype}


def _machines_apart(first: Run, other: Run) -> Iterator[DifferenceText]:
    both = {first.info.device} & {other.info.device}
    for difference in differences(first.info.environment, other.info.environment, both):
        if difference.matters:
            yield difference.fact, difference.a, difference.b
