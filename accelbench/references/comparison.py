"""Comparison of a run's results with references for the same device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelbench.errors import UserError, report_damage
from accelbench.execution.store import RunInfo
from accelbench.output.format import counted, read
from accelbench.profiling.analysis.roofline import power_limited_clock
from accelbench.profiling.records.record import Record
from accelbench.references.reference import Reference, own, published

TOLERANCE = 0.1
"""Relative difference within which a result counts as equal to a reference: clocks, drivers and shapes explain it."""


@dataclass(frozen=True)
class ReferenceComparison:
    """Measured record with the references of the same work on the same device."""

    record: Record
    references: tuple[Reference, ...]

    @property
    def range(self) -> str:
        """Return the references' values as text: `686 TFLOP/s to 794 TFLOP/s`, or the only one."""
        ends = [self._text(value) for value in (self.lowest, self.highest)]
        return ends[0] if len(self.references) == 1 else f"{ends[0]} to {ends[1]}"

    @property
    def normal(self) -> bool:
        """Return whether the interval of the result overlaps the references' range, widened by `TOLERANCE`."""
        _, low, high = self._measured
        return high >= self.lowest * (1 - TOLERANCE) and low <= self.highest * (1 + TOLERANCE)

    @property
    def below(self) -> bool:
        """Return whether the result is below the references' range, widened by `TOLERANCE`."""
        _, _, high = self._measured
        return not self.normal and high < self.lowest

    @property
    def sentence(self) -> str:
        """Return the result compared with the references as text: within, below or above their range."""
        rate, _, _ = self._measured
        references = f"{counted(len(self.references), 'reference')}, {self.range}"
        if self.normal:
            return f"within {references}"
        if self.below:
            return f"below {references}: {rate / self.lowest:.0%} of the lowest"
        return f"above {references}: {rate / self.highest:.0%} of the highest"

    @property
    def note(self) -> str:
        """Return a possible reason for a result below the references as text; empty if none is known.

        Published rates are often of short runs, which end before a GPU at its power limit lowers its clock.
        """
        limited = power_limited_clock(self.record) if self.below else None
        return f"at the power limit the SM clock was {limited}" if limited else ""

    @property
    def lowest(self) -> float:
        """Return the lowest value of the references."""
        return min(reference.value for reference in self.references)

    @property
    def highest(self) -> float:
        """Return the highest value of the references."""
        return max(reference.value for reference in self.references)

    @property
    def _measured(self) -> tuple[float, float, float]:
        found = self.record.rate_interval()
        assert found is not None  # only records with a rate are compared
        return found

    def _text(self, value: float) -> str:
        return read(value, self.record.unit).quantity


def compare_with_references(
    info: RunInfo, records: Iterable[Record], folder: Path | None
) -> tuple[ReferenceComparison, ...]:
    """Return a comparison for each measured record with a rate and at least one reference.

    References are published ones, and results that other runs have contributed to the file in `folder`.
    """
    here = [reference for reference in _references(info, folder) if reference.is_on(info.environment)]
    found = []
    for record in records if here else ():
        if record.status != "measured" or record.figure == "time" or not record.rate_interval():
            continue
        if same := tuple(reference for reference in here if reference.is_of(record.point, record.unit)):
            found.append(ReferenceComparison(record, same))
    return tuple(found)


def _references(info: RunInfo, folder: Path | None) -> Sequence[Reference]:
    if folder is None:
        return published()
    try:
        return (*published(), *(each for each in own(folder) if info.run_id not in each.source))
    except UserError as error:
        report_damage(f"{error}; only published references are used")
        return published()
