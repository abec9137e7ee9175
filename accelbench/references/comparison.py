"""Comparison of a run's results with references for the same device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from accelbench.errors import UserError, report_damage
from accelbench.execution.store import RunInfo
from accelbench.output.format import counted, read
from accelbench.profiling.analysis.roofline import power_limited_clock
from accelbench.profiling.records.record import Record
from accelbench.references.reference import Reference, core_title, has_hidden_name, own, published

TOLERANCE = 0.1
"""Relative difference within which a result counts as equal to a reference: clocks, drivers and shapes explain it."""
ReferenceVerdict = Literal["within", "below", "above"]
"""Place of a result relative to the range of its references."""


@dataclass(frozen=True)
class ReferenceBar:
    """Value in a comparison, as a bar."""

    label: str
    text: str
    """Formatted value."""
    share: float
    """Length relative to the longest bar."""
    detail: str = ""
    """Conditions, date and source of a reference; empty for this machine."""


@dataclass(frozen=True)
class ReferenceComparison:
    """Measured record with the references of the same work on the same device."""

    record: Record
    references: tuple[Reference, ...]
    family: str | None = None
    """Core of the references, if they are of CPUs with the same core and the name of this CPU is hidden."""

    @property
    def range(self) -> str:
        """Return the references' values as text: `686 TFLOP/s to 794 TFLOP/s`, or the only one."""
        ends = [self._text(value) for value in (self.lowest, self.highest)]
        return ends[0] if len(self.references) == 1 else f"{ends[0]} to {ends[1]}"

    @property
    def verdict(self) -> ReferenceVerdict:
        """Return `within` if the interval of the result overlaps the references' range, widened by `TOLERANCE`."""
        _, low, high = self._measured
        if high < self.lowest * (1 - TOLERANCE):
            return "below"
        return "above" if low > self.highest * (1 + TOLERANCE) else "within"

    @property
    def is_decided(self) -> bool:
        """Return whether the verdict is known: a lower bound below the references may be of a higher rate."""
        return not (self.record.bound_sign() and self.verdict == "below")

    @property
    def normal(self) -> bool:
        """Return whether the result is within the references' range."""
        return self.verdict == "within"

    @property
    def sentence(self) -> str:
        """Return the result compared with the references as text: within, below or above their range."""
        rate, _, _ = self._measured
        of = f" of {self.family} cores" if self.family else ""
        references = f"{counted(len(self.references), 'reference')}{of}, {self.range}"
        share = {
            "within": "",
            "below": f": {rate / self.lowest:.0%} of the lowest",
            "above": f": {rate / self.highest:.0%} of the highest",
        }
        return f"{self.verdict} {references}{share[self.verdict]}"

    @property
    def bars(self) -> list[ReferenceBar]:
        """Return the result of this machine and the references, the highest first, as bars of one scale."""
        rate, _, _ = self._measured
        longest = max(rate, self.highest)
        own = ReferenceBar("this machine", f"{self.record.bound_sign()}{self._text(rate)}", rate / longest)
        others = sorted(self.references, key=lambda reference: -reference.value)
        return [own, *(self._bar(reference, longest) for reference in others)]

    def _bar(self, reference: Reference, longest: float) -> ReferenceBar:
        detail = "; ".join(filter(None, (reference.how, reference.date, reference.source)))
        label = "earlier run" if reference.is_own else f"{self.family} reference" if self.family else "reference"
        return ReferenceBar(label, self._text(reference.value), reference.value / longest, detail)

    @property
    def note(self) -> str:
        """Return possible reasons for a result below the references as text; empty if none is known.

        Published rates are often of short runs, which end before a GPU at its power limit lowers its clock.
        """
        if self.verdict != "below":
            return ""
        limited = power_limited_clock(self.record)
        clock = f"at the power limit the SM clock was {limited}" if limited else ""
        noisy = "the result is noisy" if self.record.noise else ""
        return "; ".join(filter(None, (clock, noisy)))

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
    info: RunInfo, records: Iterable[Record], folder: Path | None, with_family: bool = False
) -> tuple[ReferenceComparison, ...]:
    """Return a comparison for each measured record with a rate and at least one reference.

    References are published ones, and results that other runs have contributed to the file in `folder`. `with_family`
    adds references of the same core for a CPU with a hidden name, if there is no other one.
    """
    environment = info.environment
    known = _references(info, folder)
    here = [reference for reference in known if reference.is_on(environment)]
    core = core_title(environment.cpu) if with_family and has_hidden_name(environment.cpu) else None
    of_core = [reference for reference in known if core and reference.core == core]
    found = []
    for record in records:
        if record.status != "measured" or record.figure == "time" or not record.rate_interval():
            continue
        single = record.bound.cores == "one"
        if same := _of(record, here):
            found.append(ReferenceComparison(record, same))
        elif alike := _of(record, [each for each in of_core if each.is_of_family(environment, single)]):
            found.append(ReferenceComparison(record, alike, core))
    return tuple(found)


def _of(record: Record, references: Iterable[Reference]) -> tuple[Reference, ...]:
    """Return the references of the record's work."""
    return tuple(reference for reference in references if reference.is_of(record.point, record.unit))


def _references(info: RunInfo, folder: Path | None) -> Sequence[Reference]:
    if folder is None:
        return published()
    try:
        return (*published(), *(each for each in own(folder) if info.run_id not in each.source))
    except UserError as error:
        report_damage(f"{error}; only published references are used")
        return published()
