"""Section of the costs of training runs: prices from `--price` and the measured times, and energy per item."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.text import Text

from accelbench.errors import UserError
from accelbench.export.terminal import new_table
from accelbench.output.format import UNKNOWN, digits, quality_in_short, read
from accelbench.profiling.analysis.energy import Amount
from accelbench.report.causes import NOISY_MARK
from accelbench.report.joined import Joined
from accelbench.report.prices import ALL, HourlyPrice, prices_of
from accelbench.report.rows import Row
from accelbench.report.section import InPage, Section

if TYPE_CHECKING:
    from accelbench.execution.store import RunStore

HOUR_S = 3600.0
MILLION = 1e6
TARGET = "target_"
"""Prefix of the metric with the target of a quality."""


class Cell(NamedTuple):
    """Cell of the table: a number, and notes below it."""

    text: str = UNKNOWN
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainingCost:
    """Costs of a training run on one system: the price of an hour, times its measured times.

    The times exclude the start of the process, the preparation of the data and the evaluation. Their intervals are the
    relative interval of the rate; compilation has none.
    """

    run: str
    """Label of the run."""
    system: str
    """Machine of the run."""
    row: Row
    price: HourlyPrice | None
    """Price of an hour; None if none was given for this run."""

    @property
    def point(self) -> str:
        return str(self.row.record.point)

    @property
    def item(self) -> str:
        """Return the plural name of the items: tokens, images."""
        work = self.row.record.work
        return work.item if work else "items"

    @property
    def is_bound(self) -> bool:
        """Return whether the times, and with them prices and energy, are upper bounds."""
        timing = self.row.record.timing
        return bool(timing and timing.upper_bound)

    @property
    def per_million(self) -> Amount | None:
        """Return the price of a million items at the rate of the steady steps."""
        rate = self.row.record.rate("items")
        return self._price_of(MILLION / rate) if rate else None

    @property
    def epoch(self) -> Amount | None:
        """Return the price of the median epoch."""
        return self._price_of(self._metric("epoch"))

    @property
    def training(self) -> Amount | None:
        """Return the price of a trained model: of one complete training run, compilation included."""
        data, seconds = self.row.record.data, self._metric("training")
        return self._price_of(seconds and seconds / (data.trainings if data else 1), self._metric("compile"))

    @property
    def to_target(self) -> Amount | None:
        """Return the price of training until the end of the first epoch with the target quality."""
        return self._price_of(self._metric("time_to_target"), self._metric("compile"))

    @property
    def target(self) -> str:
        """Return the target quality as text: `accuracy ≥ 0.93`; empty without a target."""
        record = self.row.record
        for quality in record.qualities:
            if (value := self._metric(f"{TARGET}{quality.name}")) is not None:
                name = quality.name.removeprefix("test_").replace("_", " ")
                return f"{name} {'≥' if quality.better == 'higher' else '≤'} {digits(value)}"
        return ""

    @property
    def quality(self) -> str:
        """Return the main quality of the trained model as text; empty if it has none."""
        record = self.row.record
        headlines = [each for each in record.qualities if each.headline and each.name in record.metrics]
        names = [(each, each.name.removeprefix("test_").replace("_", " ")) for each in headlines]
        return ", ".join(f"{name} {quality_in_short(record, quality)}" for quality, name in names)

    @property
    def energy_per_item_j(self) -> float | None:
        """Return the energy of the devices per item in joules; None if it was not recorded."""
        energy = self._metric(f"energy_per_1000_{self.item}")
        return None if energy is None else energy / 1e3

    def cells(self) -> dict[str, Cell]:
        """Return the cells of the table by the titles of their columns."""
        price, energy, target = self.price, self.energy_per_item_j, self.target
        not_reached = Cell("not reached", (target,)) if target and price else Cell()
        return {
            "per hour": Cell(read(price.amount, price.currency).quantity) if price else Cell(),
            "per million": self._cell(self.per_million, self.item),
            "per epoch": self._cell(self.epoch),
            "trained model": self._cell(self.training),
            "to target": self._cell(self.to_target, target) if self.to_target else not_reached,
            "energy per item": Cell() if energy is None else Cell(f"{self._sign}{read(energy, 'J').quantity}"),
        }

    def facts(self) -> dict[str, Any]:
        """Return the costs for a document; an upper bound has no lower end."""
        amounts = {
            "per_million": self.per_million,
            "epoch": self.epoch,
            "training": self.training,
            "to_target": self.to_target,
        }
        return {
            "run": self.run,
            "system": self.system,
            "point": self.point,
            "item": self.item,
            "price_per_hour": self.price and self.price.amount,
            "at_most": self.is_bound,
            "noisy": self.row.noisy,
            **{name: amount and self._ends(amount) for name, amount in amounts.items()},
            "target": self.target or None,
            "energy_per_item_j": self.energy_per_item_j,
        }

    @property
    def _sign(self) -> str:
        return "≤ " * self.is_bound

    def _metric(self, name: str) -> float | None:
        found = self.row.record.metrics.get(name)
        return found.value if found else None

    def _price_of(self, seconds: float | None, fixed_s: float | None = None) -> Amount | None:
        """Return the price of a time; its part without an interval is `fixed_s`."""
        timing = self.row.record.timing
        if seconds is None or self.price is None or timing is None:
            return None
        step, fixed = timing.execution, min(fixed_s or 0.0, seconds)
        ends = [step.seconds] * 3 if self.is_bound else step[:3]
        return Amount(*(self.price.amount / HOUR_S * (fixed + (seconds - fixed) * end / step.seconds) for end in ends))

    def _cell(self, amount: Amount | None, note: str = "") -> Cell:
        if amount is None or self.price is None:
            return Cell()
        found = read(amount.value, self.price.currency, amount.low, amount.high)
        if self.is_bound:
            found = replace(found, value=f"{self._sign}{found.value}", interval="")
        notes = tuple(filter(None, (found.interval, note)))
        return Cell(f"{NOISY_MARK * self.row.noisy}{found.quantity}", notes)

    def _ends(self, amount: Amount) -> dict[str, float | None]:
        return {"amount": amount.value, "low": None if self.is_bound else amount.low, "high": amount.high}


@dataclass(frozen=True)
class CostTable:
    """Costs of training runs on one or several systems; the same training run on several systems is together."""

    costs: tuple[TrainingCost, ...]

    @property
    def columns(self) -> list[str]:
        """Return the titles of the columns with any known value."""
        rows = [cost.cells() for cost in self.costs]
        return [title for title in rows[0] if any(cells[title].text != UNKNOWN for cells in rows)]

    def facts(self) -> dict[str, Any]:
        """Return the costs for a document."""
        currencies = [cost.price.currency for cost in self.costs if cost.price]
        return {"currency": currencies[0], "runs": [cost.facts() for cost in self.costs]}


def find_costs(joined: Joined, benchmarks: Collection[str] | None = None) -> CostTable | None:
    """Return the costs of the measured training runs, or of these benchmarks only; None if no price is known."""
    if not any(joined.prices):
        return None
    found = [
        TrainingCost(label, run.machine, row, price)
        for (label, run), price in zip(joined.labelled, joined.prices, strict=True)
        for row in run.rows
        if row.training and row.record.data and (benchmarks is None or row.record.point.benchmark in benchmarks)
    ]
    if not any(cost.price for cost in found):
        return None
    order = {trained: place for place, trained in enumerate(dict.fromkeys(map(_trained, found)))}
    return CostTable(tuple(sorted(found, key=lambda cost: order[_trained(cost)])))


def _trained(cost: TrainingCost) -> tuple[str, str]:
    """Return the training workload and its parameters, without the device."""
    point = cost.row.record.point
    return point.benchmark, point.details


def with_prices(
    joined: Joined,
    prices: Mapping[str, HourlyPrice],
    given: Iterable[tuple[str, RunStore]],
    benchmarks: Collection[str] | None = None,
) -> Joined:
    """Return the runs with their prices, which name a run as on the command line, by its ID or by its label.

    Raises UserError for the price of a run that is not given, or that has no measured training run (of these
    benchmarks).
    """
    if not prices:
        return joined
    stores = list(given)
    names = [
        [*(word for word, store in stores if store is run.store), label, run.info.run_id]
        for label, run in joined.labelled
    ]
    priced = replace(joined, prices=prices_of(prices, names))
    table = find_costs(priced, benchmarks)
    trained = {cost.run for cost in table.costs} if table else set()
    own = prices_of({name: price for name, price in prices.items() if name != ALL}, names)
    without = [label for label, price in zip(joined.labels, own, strict=True) if price and label not in trained]
    if without or not trained:
        where = ", ".join(without) or "these runs"
        of = f" of {', '.join(sorted(benchmarks))}" if benchmarks else ""
        raise UserError(f"--price needs a measured training run{of}, and {where} has none")
    return priced


def print_costs(table: CostTable, console: Console) -> None:
    """Print the costs as a table."""
    columns = table.columns
    shown = new_table("training run and system", *columns, right=columns, whole=columns)
    for cost in table.costs:
        cells = [cost.cells()[title] for title in columns]
        name = Text.assemble(cost.point, (f"\n{cost.run}: {cost.system}", "dim"))
        shown.add_row(name, *(Text("\n".join((cell.text, *cell.notes))) for cell in cells))
    console.print()
    console.print(shown)


def _content(table: CostTable, shown: object) -> Mapping[str, Any]:
    return {"table": table}


section = Section(find_joined=find_costs, page=InPage("costs.html", "costs", "Costs", _content), terminal=print_costs)
