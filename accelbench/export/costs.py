"""Costs of training runs: price and energy of the trained items, from the price of an hour."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from accelbench.errors import UserError
from accelbench.export.terminal import new_table
from accelbench.output.format import digits
from accelbench.profiling.records.record import Record

HOUR_S = 3600.0
PRICE = re.compile(r"(?P<amount>\d+(?:\.\d+)?)\s*(?P<currency>[A-Za-z]{3}|[$€£¥])?\s*/\s*h")


@dataclass(frozen=True)
class HourlyPrice:
    """Price of an hour of all devices of a run together."""

    amount: float
    currency: str = ""

    @classmethod
    def parse(cls, text: str) -> HourlyPrice:
        """Parse `2.49/h`, `2.49 EUR/h` or `2.49$/h`; raise UserError for anything else."""
        found = PRICE.fullmatch(text.strip())
        if found is None:
            raise UserError(f"--price: invalid value {text!r} (examples: 2.49/h, 2.49 EUR/h)")
        return cls(float(found["amount"]), (found["currency"] or "").upper())

    def text(self, amount: float) -> str:
        """Return an amount with the currency as text."""
        return f"{digits(amount)} {self.currency}".strip()


@dataclass(frozen=True)
class TrainingCost:
    """Cost of a training run by its throughput over the steady steps, without start-up and evaluation."""

    point: str
    item: str
    """Plural name of the items: tokens, images."""
    per_million: float
    """Price of a million items."""
    energy_per_item_j: float | None
    """Energy of the devices per item in joules; None if it was not recorded."""
    at_most: bool
    """Whether the prices are upper bounds, since the throughput is a lower bound."""

    @classmethod
    def of(cls, record: Record, price: HourlyPrice) -> TrainingCost | None:
        """Return the cost of a measured training run; None for other records."""
        rate, work, data = record.rate("items"), record.work, record.data
        if not rate or work is None or work.items is None or data is None:
            return None
        energy = record.metrics.get(f"energy_per_1000_{work.item}")
        return cls(
            point=str(record.point),
            item=work.item,
            per_million=1e6 * price.amount / HOUR_S / rate,
            energy_per_item_j=energy.value / 1e3 if energy else None,
            at_most=bool(record.timing and record.timing.upper_bound),
        )


def training_costs(records: Iterable[Record], price: HourlyPrice) -> list[TrainingCost]:
    """Return the costs of all measured training runs; raise UserError if there are none."""
    found = [cost for record in records if (cost := TrainingCost.of(record, price))]
    if not found:
        raise UserError("--price needs a measured training run, and there is none")
    return found


def cost_table(costs: Iterable[TrainingCost], price: HourlyPrice) -> Table:
    """Return the costs as a table for the terminal."""
    table = new_table("training run", "price of a million", "energy of one")
    for cost in costs:
        sign = "≤ " if cost.at_most else ""
        energy = "" if cost.energy_per_item_j is None else f"{digits(cost.energy_per_item_j)} J"
        million = f"{sign}{price.text(cost.per_million)} ({cost.item})"
        table.add_row(*(Text(cell) for cell in (cost.point, million, energy)))
    return table


def cost_facts(costs: Iterable[TrainingCost], price: HourlyPrice) -> dict[str, Any]:
    """Return the costs for a document."""
    return {"price_per_hour": price.amount, "currency": price.currency, "runs": [vars(cost) for cost in costs]}
