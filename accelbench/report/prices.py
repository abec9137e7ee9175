"""Prices of an hour, from the option `--price`: of all runs, or of single runs by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from accelbench.errors import UserError

PRICE = re.compile(r"(?P<amount>\d+(?:\.\d+)?)\s*(?P<currency>[A-Za-z]{3}|[$€£¥])?\s*/\s*h")
ALL = ""
"""Name of the price of all runs without a price of their own."""


@dataclass(frozen=True)
class HourlyPrice:
    """Price of an hour of all devices of a run together."""

    amount: float
    currency: str = ""

    @classmethod
    def parse(cls, text: str) -> HourlyPrice:
        """Parse `2.49/h`, `2.49 EUR/h` or `2.49$/h`; raise UserError for anything else, and for a price of 0."""
        found = PRICE.fullmatch(text.strip())
        if found is None or not 0 < (amount := float(found["amount"])) < inf:
            raise UserError(f"--price: expected a positive price per hour such as 2.49/h or '2.49 EUR/h', not {text!r}")
        return cls(amount, (found["currency"] or "").upper())


def parse_prices(texts: Iterable[str]) -> dict[str, HourlyPrice]:
    """Return the prices by the name of their run in `RUN=2.49/h`; a price without a run is named `ALL`.

    Raises UserError for an invalid price, for two prices with the same name, and for several currencies.
    """
    prices: dict[str, HourlyPrice] = {}
    for text in texts:
        given, separator, price = text.rpartition("=")
        name = _stripped(given)
        if separator and not name:
            raise UserError(f"--price {text}: expected RUN={price}, or {price} for all runs")
        if name in prices:
            raise UserError(f"--price: two prices of {name or 'all runs'}")
        prices[name] = HourlyPrice.parse(price)
    currencies = {price.currency or "none" for price in prices.values()}
    if len(currencies) > 1:
        raise UserError(f"--price: several currencies ({', '.join(sorted(currencies))}): convert the prices to one")
    return prices


def prices_of(prices: Mapping[str, HourlyPrice], runs: Sequence[Collection[str]]) -> tuple[HourlyPrice | None, ...]:
    """Return the price of each run, given the names of each; None for a run without a price.

    Raises UserError for the price of a run that is not given, and for two prices of one run.
    """
    named = [[name for name in prices if name in map(_stripped, names) and name != ALL] for names in runs]
    for name in prices:
        if name != ALL and not any(name in found for found in named):
            given = ", ".join(next(iter(names)) for names in runs) or "none"
            raise UserError(f"--price {name}=…: no such run is given (given: {given})")
    for found in named:
        if len(found) > 1:
            raise UserError(f"--price: {' and '.join(found)} are the same run: give one price")
    return tuple(prices[found[0]] if found else prices.get(ALL) for found in named)


def _stripped(name: str) -> str:
    """Return the name of a run without surrounding blanks, and without the slash at the end of a path."""
    return name.strip().rstrip("/")
