"""Comparison of a run's results with references for the same device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelbench.errors import UserError, tell_damage
from accelbench.execution.store import RunInfo
from accelbench.output.format import counted, read
from accelbench.profiling.records.record import Record
from accelbench.references.reference import Reference, own, published

TOLERANCE = 0.1
"""Relative difference that clocks, drivers and shapes explain: a result within it counts as equal to a reference."""


@dataclass(frozen=True)
class ReferenceComparison:
    """Measured record with the references of the same work on the same device."""

    record: Record
    references: tuple[Reference, ...]

    @property
    def range(self) -> str:
        """Return the references' values as text: `686 TFLOP/s to 794 TFLOP/s`, or the only one."""
        ends = [self._text(value) for value in (self._least, self._most)]
        return ends[0] if len(self.references) == 1 else f"{ends[0]} to {ends[1]}"

    @property
    def normal(self) -> bool:
        """Return whether the interval of the result meets the references' range, widened by `TOLERANCE`."""
        _, low, high = self._measured
        return high >= self._least * (1 - TOLERANCE) and low <= self._most * (1 + TOLERANCE)

    @property
    def sentence(self) -> str:
        """Return the result relative to the references: within, below or above their range."""
        rate, _, high = self._measured
        others = f"what {counted(len(self.references), 'other')} measured, {self.range}"
        if self.normal:
            return f"within {others}"
        if high < self._least:
            return f"below {others}: {rate / self._least:.0%} of the least"
        return f"above {others}: {rate / self._most:.0%} of the most"

    @property
    def _least(self) -> float:
        return min(reference.value for reference in self.references)

    @property
    def _most(self) -> float:
        return max(reference.value for reference in self.references)

    @property
    def _measured(self) -> tuple[float, float, float]:
        found = self.record.rate_interval()
        assert found is not None  # only records with a rate are compared
        return found

    def _text(self, value: float) -> str:
        return read(value, self.record.unit).figure


def compare_with_references(
    info: RunInfo, records: Iterable[Record], folder: Path | None
) -> tuple[ReferenceComparison, ...]:
    """Return a comparison for each measured record with a rate and at least one reference.

    References are the published ones, and those of the file in `folder` that other runs have contributed.
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
        tell_damage(f"{error}; only published references are shown")
        return published()
