"""This sets the figures of a run beside those that others measured on the same device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accelbench.damage import tell_damage
from accelbench.errors import UserError
from accelbench.format import counted, read
from accelbench.references.reference import Reference, own, published
from accelbench.report.rows import Row
from accelbench.report.stored_run import Run

NEAR = 0.1
"""Clocks, drivers and shapes of others differ: up to this share apart is no other figure."""


@dataclass(frozen=True)
class Standing:
    """A row of a run, and what others measured there."""

    row: Row
    references: tuple[Reference, ...]

    @property
    def range(self) -> str:
        """Return the figures of the others in words: `686–794 TFLOP/s`, or the one that is known."""
        ends = [self._words(value) for value in (self._least, self._most)]
        return ends[0] if len(self.references) == 1 else f"{ends[0]} to {ends[1]}"

    @property
    def normal(self) -> bool:
        """Return whether the figure lies among those of others, its interval considered."""
        _, low, high = self._ours
        return high >= self._least * (1 - NEAR) and low <= self._most * (1 + NEAR)

    @property
    def sentence(self) -> str:
        """Return how the figure stands to those of others."""
        rate, _, high = self._ours
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
    def _ours(self) -> tuple[float, float, float]:
        found = self.row.record.rate_interval()
        assert found is not None  # a row without a rate stands nowhere
        return found

    def _words(self, value: float) -> str:
        return read(value, self.row.record.unit).figure


def standings(run: Run) -> list[Standing]:
    """Return where the figures of a run stand, of those that anybody else's is known of."""
    known = [reference for reference in _known(run) if reference.is_on(run.info.environment)]
    found = []
    for row in run.rows if known else ():
        record = row.record
        same = tuple(reference for reference in known if reference.is_of(record.point, record.unit))
        if same and record.figure != "time" and record.rate_interval():
            found.append(Standing(row, same))
    return found


def _known(run: Run) -> Sequence[Reference]:
    if run.store is None:
        return published()
    try:
        return (*published(), *(each for each in own(run.store.path.parent) if run.info.run_id not in each.source))
    except UserError as error:
        tell_damage(f"{error}; only what is published is shown")
        return published()
