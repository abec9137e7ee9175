"""Section of the energy: mean power, joules of an execution, and work per joule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.text import Text

from accelbench.export.terminal import new_table
from accelbench.output.console import PlainConsole
from accelbench.output.format import UNKNOWN, FormattedResult, read
from accelbench.profiling.analysis.energy import Amount, energy_of_execution, mean_power, work_metric, work_per_joule
from accelbench.profiling.records.work import UNITS
from accelbench.report.causes import NOISY_MARK
from accelbench.report.rows import Row
from accelbench.report.section import InPage, Section


@dataclass(frozen=True)
class RowEnergy:
    """Energy of a row as text; unknown values are None."""

    row: Row
    power: str | None
    per_execution: FormattedResult
    per_joule: FormattedResult | None

    @classmethod
    def of(cls, row: Row) -> RowEnergy | None:
        """Return the energy of a row; None if it is unknown."""
        record = row.record
        joules, per_joule, power = energy_of_execution(record), work_per_joule(record), mean_power(record)
        if joules is None:
            return None
        metric = work_metric(record)
        rate_unit = UNITS.get(metric) or f"{record.work.item if record.work else 'items'}/s"
        unit = f"{rate_unit.removesuffix('/s')}/J"
        return cls(
            row,
            None if power is None else read(power, "W").quantity,
            _formatted(joules, "J", row, record.bound_sign("time")),
            per_joule and _formatted(per_joule, unit, row, record.bound_sign(metric)),
        )


def _formatted(found: Amount, unit: str, row: Row, sign: str) -> FormattedResult:
    """Return a value with its interval, if it has one, the sign of a bound, and the mark of a noisy result."""
    result = read(found.value, unit, *found[1:]) if found.low < found.high else read(found.value, unit)
    return replace(result, value=f"{NOISY_MARK * row.noisy}{sign}{result.value}")


def energies(rows: Sequence[Row]) -> list[RowEnergy]:
    """Return the energy of each row with an energy counter."""
    return [found for row in rows if (found := RowEnergy.of(row))]


def _print(found: Sequence[RowEnergy], console: PlainConsole) -> None:
    """Print the energy of each point with --verbose; the page always has it."""
    if not console.verbose:
        return
    numbers = ("mean power", "energy of an execution", "work per joule")
    table = new_table("energy of a point", *numbers, right=numbers)
    for each in found:
        cells = (each.power, each.per_execution, each.per_joule)
        table.add_row(str(each.row.record.point), *(Text(UNKNOWN if cell is None else str(cell)) for cell in cells))
    console.print()
    console.print(table)


section = Section(find=lambda run: energies(run.shown), page=InPage("energy.html", "energy", "Energy"), terminal=_print)
