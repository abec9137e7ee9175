"""Runs that are shown in one report: their labels, their differences and their results.

The runs may be from several machines, devices or containers, or from one machine at several times. A single run is a
special case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from accelbench.environment.differences import differences, different_settings
from accelbench.errors import DataDamaged, UserError, report_damage
from accelbench.execution.store import RunStore
from accelbench.history.run_labels import label_runs
from accelbench.profiling.analysis.roofline import Ceiling
from accelbench.profiling.records.record import Record
from accelbench.report.measured_roofs import Roofline, make_roofline
from accelbench.report.prices import HourlyPrice
from accelbench.report.rows import Row
from accelbench.report.stored_run import Run
from accelbench.report.study import PlacedRow, Study, make_studies


@dataclass(frozen=True)
class RunDifference:
    """Relevant difference between the first run and some of the others."""

    fact: str
    """Path in `run.json`, or name of the setting."""
    first: str
    """Value in the first run, as text."""
    other: str
    """Value in the other runs, as text."""
    labels: tuple[str, ...]
    """Labels of the runs with the other value."""


@dataclass(frozen=True)
class Joined:
    """One or several runs of a report; the first is the baseline for the others."""

    runs: tuple[Run, ...]
    prices: tuple[HourlyPrice | None, ...] = ()
    """Price of an hour of each run, None if unknown; empty if no price is given."""

    @property
    def single(self) -> Run | None:
        """Return the run if it is the only one, else None."""
        return self.runs[0] if len(self.runs) == 1 else None

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Return a unique label for each run (see `label_runs`)."""
        return label_runs([(run.info, run.store.path if run.store else None) for run in self.runs])

    @property
    def labelled(self) -> list[tuple[str, Run]]:
        """Return the runs, each with its label."""
        return list(zip(self.labels, self.runs, strict=True))

    def place(self, label: str, run: Run, record: Record) -> str:
        """Return a record's label in a drawing: the device, or the run's label if there are several runs."""
        device = record.point.device
        if self.single:
            return device
        return label if device == run.info.device else f"{device} in {label}"

    @property
    def versions(self) -> list[str]:
        """Return the accelbench versions of the runs."""
        return list(dict.fromkeys(run.info.environment.software.accelbench for run in self.runs))

    @cached_property
    def rows(self) -> list[PlacedRow]:
        """Return every measured point of every run with its label."""
        return [(self.place(label, run, row.record), row) for label, run in self.labelled for row in run.rows]

    @cached_property
    def ceilings(self) -> list[tuple[str, Ceiling]]:
        """Return the ceilings of every run with their labels; a ceiling applies only to results of its own run."""
        return [(self.place(label, run, c.record), c) for label, run in self.labelled for c in run.ceilings]

    @cached_property
    def studies(self) -> list[Study]:
        """Return the studies over all runs, with lines labelled by device or run."""
        return make_studies(self.rows)

    @cached_property
    def rooflines(self) -> list[Roofline]:
        """Return the roofline of each device of each run, with the roofs of the same run."""
        rows: dict[str, list[Row]] = {}
        for place, row in self.rows:
            rows.setdefault(place, []).append(row)
        roofs: dict[str, list[Ceiling]] = {place: [] for place in rows}
        for place, ceiling in self.ceilings:
            roofs.setdefault(place, []).append(ceiling)
        made = (make_roofline(place, found, roofs[place]) for place, found in rows.items())
        return [roofline for roofline in made if roofline]

    @cached_property
    def differences(self) -> list[RunDifference]:
        """Return the relevant differences from the first run: settings, then facts of the machines.

        Facts of GPUs are compared only between runs that both measured GPUs. The device is not a difference.
        """
        found: dict[tuple[str, str, str], list[str]] = {}
        for label, run in self.labelled[1:]:
            for difference in (*_settings_apart(self.runs[0], run), *_machines_apart(self.runs[0], run)):
                found.setdefault(difference, []).append(label)
        return [RunDifference(*difference, tuple(labels)) for difference, labels in found.items()]


def read_runs(stores: Sequence[RunStore]) -> Joined:
    """Read the runs; raise `UserError` if one is given twice.

    Unreadable runs are reported as warnings. Raises `DataDamaged` if no run can be read.
    """
    runs: dict[str, tuple[RunStore, Run]] = {}
    broken: list[DataDamaged] = []
    for store in stores:
        try:
            run_id = store.info().run_id
            if run_id in runs:
                first = runs[run_id][0].path
                same = store.path.resolve() == first.resolve()
                where = f"{store.path}" if same else f"{first} and {store.path}"
                raise UserError(f"run {run_id} is given twice ({where}): give each run once")
            runs[run_id] = store, Run.of(store)
        except DataDamaged as error:
            broken.append(error)
    if not runs:
        raise broken[0]
    for damage in broken:
        report_damage(f"{damage}; the other runs are shown")
    return Joined(tuple(run for _, run in runs.values()))


DifferenceText = tuple[str, str, str]
"""Field, and its value as text in the first run and in another one."""


def _settings_apart(first: Run, other: Run) -> Iterator[DifferenceText]:
    for name, (a, b) in different_settings([first.info.settings, other.info.settings]).items():
        yield name, a, b
    one, two = (", ".join(sorted(_precisions(run))) for run in (first, other))
    if one and two and one != two:
        yield "arithmetic of training workloads", one, two


def _precisions(run: Run) -> set[str]:
    """Return the dtypes of arithmetic of the run's training workloads."""
    return {row.record.bound.dtype for row in run.rows if row.training and row.record.bound.dtype}


def _machines_apart(first: Run, other: Run) -> Iterator[DifferenceText]:
    both = {first.info.device} & {other.info.device}
    for difference in differences(first.info.environment, other.info.environment, both):
        if difference.matters:
            yield difference.fact, difference.a, difference.b
