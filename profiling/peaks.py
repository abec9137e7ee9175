"""What the vendor says a device can do at most: dense figures with their source, and null for the unknown.

The figures are in `peaks.toml` beside this file. A card that is not in it has no peak: never another card's.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import Field

from profiling.benchmark import Device
from profiling.environment.model import Environment
from profiling.record import Peak
from profiling.stored import Stored

PREFIXES = re.compile(r"^(NVIDIA |Tesla |GeForce )*")


class Card(Stored):
    """One entry of `peaks.toml`."""

    name: str
    """A regular expression for the driver's whole name of the card, less the vendor's prefixes."""
    title: str
    clock_mhz: float | None = Field(default=None, gt=0)
    bandwidth: float | None = Field(default=None, gt=0)
    source: str
    flops: dict[str, dict[str, float]]
    """FLOP/s by dtype and unit (`plain` or `tensor`)."""


@cache
def cards() -> tuple[Card, ...]:
    """Every card of `peaks.toml`, in its order."""
    data = tomllib.loads((files("profiling") / "peaks.toml").read_text(encoding="utf-8"))
    return tuple(Card.model_validate(card) for card in data["card"])


def find_card(name: str) -> Card | None:
    """The card that the driver calls `name`; None if it is not in the table."""
    bare = PREFIXES.sub("", name)
    return next((card for card in cards() if re.fullmatch(card.name, bare)), None)


def peak(environment: Environment, device: Device, dtype: str, figure: Literal["flops", "bytes"]) -> Peak:
    """The vendor's peak of this machine's device for arithmetic in `dtype` (FLOP/s) or for its memory (byte/s)."""
    if device == "cpu":
        what = "FLOP/s" if figure == "flops" else "memory bandwidth"
        return Peak(value=None, reason=f"no vendor's figure for the {what} of this CPU; see the measured ceiling")
    if device == "tpu":
        return Peak(value=None, reason="the environment record does not name the TPU")
    if not environment.gpus:
        return Peak(value=None, reason="the environment record names no GPU")
    gpu = environment.gpus[0]
    if gpu.mig:
        return Peak(value=None, reason=f"{gpu.name} is divided (MIG): no vendor's figure for the part")
    card = find_card(gpu.name)
    if card is None:
        return Peak(value=None, reason=f"{gpu.name} is not among the cards that 'accelbench peaks' lists")
    return card_peak(card, dtype, figure)


def card_peak(card: Card, dtype: str, figure: Literal["flops", "bytes"]) -> Peak:
    """The card's best unit for the dtype, or its memory."""
    memory = {"memory": card.bandwidth} if card.bandwidth else {}
    units = card.flops.get(dtype, {}) if figure == "flops" else memory
    if not units:
        what = dtype if figure == "flops" else "memory"
        return Peak(value=None, reason=f"no vendor's figure for {what} on {card.title}")
    unit_kind = max(units, key=lambda unit: units[unit])
    return Peak(value=units[unit_kind], unit_kind=unit_kind, clock_mhz=card.clock_mhz, source=card.source)


def peak_at_clock(peak: Peak, observed_mhz: float) -> float | None:
    """The peak scaled from the clock it is stated at to the observed one; None where either figure is unknown."""
    if peak.value is None or peak.clock_mhz is None or peak.unit_kind == "memory":
        return None
    return peak.value * observed_mhz / peak.clock_mhz
