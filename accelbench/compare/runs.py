"""Comparison of two sides: differences of their environments, and the change of each point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from accelbench.compare.change import PastSpeeds, PointChange, adjusted, compare_point
from accelbench.compare.sides import ComparedSide, open_sides
from accelbench.environment.differences import Difference, differences, settings_text
from accelbench.errors import UserError
from accelbench.execution.store import RunStore
from accelbench.history.past import read_past
from accelbench.history.run_labels import label_runs
from accelbench.history.series import series_of
from accelbench.profiling.records.record import Record

EQUIVALENCE = 0.03


@dataclass(frozen=True)
class UnmeasuredPoint:
    """Point of both sides that failed or was skipped in at least one run."""

    a: tuple[Record, ...]
    b: tuple[Record, ...]

    @property
    def point(self) -> str:
        return str(self.a[0].point)


@dataclass(frozen=True)
class Comparison:
    """Comparison of side B with side A; `a` and `b` are the ids of their runs."""

    a: str
    b: str
    labels: tuple[tuple[str, ...], tuple[str, ...]]
    """Labels of the runs of A and of B (see `label_runs`)."""
    equivalence: float
    differences: tuple[Difference, ...]
    changes: tuple[PointChange, ...]
    unmeasured: tuple[UnmeasuredPoint, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    notes: tuple[str, ...]


def compare(
    a: Sequence[RunStore],
    b: Sequence[RunStore],
    equivalence: float = EQUIVALENCE,
    history: Sequence[RunStore] = (),
    include_noisy: bool = False,
) -> Comparison:
    """Compare the runs of B with the runs of A; speeds that differ by less than the share `equivalence` are the same.

    `history` contains past runs: their spread on the same machine widens or narrows the intervals. Raises `UserError`
    for an equivalence outside [0, 1), for an unreadable run, and for a run that is on both sides or twice on one.
    """
    if not 0 <= equivalence < 1:
        raise UserError(f"invalid equivalence of {equivalence:.0%}: must be at least 0 % and less than 100 %")
    side_a, side_b = open_sides(a, b)
    shared = [(tuple(found), tuple(side_b.points[p])) for p, found in side_a.points.items() if p in side_b.points]
    past_of = _past_speeds(side_a, side_b, history)
    virtual = any(info.environment.cpu.hypervisor for info in (*side_a.infos, *side_b.infos))
    changes, unmeasured = [], []
    for pair in shared:
        measured = [[record for record in records if record.status == "measured"] for records in pair]
        if measured[0] and measured[1]:
            point = str(measured[0][0].point)
            changes.append(compare_point(measured[0], measured[1], equivalence, past_of(point), include_noisy, virtual))
        if any(record.status != "measured" for records in pair for record in records):
            unmeasured.append(UnmeasuredPoint(*pair))
    first_a, first_b = side_a.infos[0], side_b.infos[0]
    return Comparison(
        a=side_a.title,
        b=side_b.title,
        labels=_labels(side_a, side_b),
        equivalence=equivalence,
        differences=differences(first_a.environment, first_b.environment, side_a.devices | side_b.devices),
        changes=tuple(adjusted(changes)),
        unmeasured=tuple(unmeasured),
        only_a=tuple(point for point in side_a.points if point not in side_b.points),
        only_b=tuple(point for point in side_b.points if point not in side_a.points),
        notes=(*side_a.notes(), *side_b.notes(), *_other_settings(side_a, side_b)),
    )


def _labels(a: ComparedSide, b: ComparedSide) -> tuple[tuple[str, ...], tuple[str, ...]]:
    runs = [*zip(a.infos, a.runs, strict=True), *zip(b.infos, b.runs, strict=True)]
    found = label_runs([(info, run.path) for info, run in runs])
    return found[: len(a.runs)], found[len(a.runs) :]


def _other_settings(a: ComparedSide, b: ComparedSide) -> Iterator[str]:
    if found := settings_text([a.infos[0].settings, b.infos[0].settings]):
        yield f"measured with different settings (A / B): {'; '.join(found)}"


def _past_speeds(a: ComparedSide, b: ComparedSide, history: Sequence[RunStore]) -> Callable[[str], PastSpeeds]:
    """Return a function that returns the past speeds of a point on the machines of A and B."""
    machines = {a.machine, b.machine}
    past = read_past(history, lambda machine: machine in machines, {info.run_id for info in (*a.infos, *b.infos)})
    series = {(one.machine, str(one.point)): one for one in series_of(past.runs)}

    def of(point: str) -> PastSpeeds:
        of_a, of_b = (series.get((side.machine, point)) for side in (a, b))
        spreads = (of_a.compared_spread if of_a else None, of_b.compared_spread if of_b else None)
        return PastSpeeds(spreads, of_a.process_costs if of_a and of_a is of_b else ())

    return of
