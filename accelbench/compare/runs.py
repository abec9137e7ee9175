"""Comparison of two sides: differences of their environments, and the change of each point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelbench.compare.change import PointChange, compare_point
from accelbench.compare.sides import ComparedSide, open_sides
from accelbench.environment.differences import Difference, differences, settings_text
from accelbench.errors import UserError
from accelbench.execution.store import RunStore
from accelbench.history.past import read_past
from accelbench.history.series import series_of
from accelbench.history.spread import Spread
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
    """The comparison of side B with side A; `a` and `b` are the ids of their runs."""

    a: str
    b: str
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
    even_if_disturbed: bool = False,
) -> Comparison:
    """Compare the runs of B with those of A; speeds that differ by less than the share `equivalence` are the same.

    The spread of the runs in `history` on the same machine tells what is normal, beside that of several runs a side.
    Raises `UserError` for an equivalence that is no share, for a run that cannot be read, and for sides that make no
    sense.
    """
    if not 0 <= equivalence < 1:
        raise UserError(f"an equivalence of {equivalence:.0%} is none: choose at least 0 % and less than 100 %")
    side_a, side_b = open_sides(a, b)
    shared = [(tuple(found), tuple(side_b.points[p])) for p, found in side_a.points.items() if p in side_b.points]
    normal_a, normal_b = _normal(side_a, side_b, history)
    changes, unmeasured = [], []
    for pair in shared:
        measured = [[record for record in records if record.status == "measured"] for records in pair]
        if measured[0] and measured[1]:
            point = str(measured[0][0].point)
            normal = (normal_a.get(point), normal_b.get(point))
            changes.append(compare_point(measured[0], measured[1], equivalence, normal, even_if_disturbed))
        if any(record.status != "measured" for records in pair for record in records):
            unmeasured.append(UnmeasuredPoint(*pair))
    first_a, first_b = side_a.infos[0], side_b.infos[0]
    return Comparison(
        a=side_a.title,
        b=side_b.title,
        equivalence=equivalence,
        differences=differences(first_a.environment, first_b.environment, side_a.devices | side_b.devices),
        changes=tuple(changes),
        unmeasured=tuple(unmeasured),
        only_a=tuple(point for point in side_a.points if point not in side_b.points),
        only_b=tuple(point for point in side_b.points if point not in side_a.points),
        notes=(*side_a.notes(), *side_b.notes(), *_other_settings(side_a, side_b)),
    )


def _other_settings(a: ComparedSide, b: ComparedSide) -> Iterator[str]:
    if found := settings_text([a.infos[0].settings, b.infos[0].settings]):
        yield f"measured with other settings (A / B): {'; '.join(found)}"


def _normal(
    a: ComparedSide, b: ComparedSide, history: Sequence[RunStore]
) -> tuple[Mapping[str, Spread], Mapping[str, Spread]]:
    """Return the spread of each point from run to run on the machines of A and B, by runs other than these."""
    machines = {a.machine, b.machine}
    past = read_past(history, lambda machine: machine in machines, {info.run_id for info in (*a.infos, *b.infos)})
    spreads: dict[str, dict[str, Spread]] = {machine: {} for machine in machines}
    for series in series_of(past.runs):
        if series.compared_spread:
            spreads[series.machine][str(series.point)] = series.compared_spread
    return spreads[a.machine], spreads[b.machine]
