"""Vendors' peak rates of devices: dense, with their source; null if unknown.

The rates are in `peaks.toml` in this folder. A card that it does not list has no peak.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

from pydantic import Field

from accelbench.profiling.records.environment import Cpu, Gpu, Peak
from accelbench.profiling.records.stored import Stored
from accelbench.profiling.records.work import Bounded

PREFIXES = re.compile(r"^(NVIDIA |Tesla |GeForce )*")


class MultiChipBoard(Stored):
    """Vendor's peaks of a board with several chips, each of which is a device of its own."""

    title: str
    chips: int = Field(ge=2)
    """The number of chips on the board."""
    cores: int | None = Field(default=None, gt=0)
    """The CUDA cores of all chips."""
    memory_gb: float = Field(gt=0)
    """The memory of all chips, as the vendor counts it."""
    clock_mhz: float | None = Field(default=None, gt=0)
    """The clock at which the vendor states the figures."""
    bandwidth: float | None = Field(default=None, gt=0)
    """The byte/s of all chips' memories."""
    source: str
    flops: dict[str, dict[str, float]]
    """The peak of all chips in FLOP/s, by dtype and unit."""


class CardPeaks(Stored):
    """Vendor's peaks of a GPU: one entry of `peaks.toml`."""

    name: str
    """A regular expression for the driver's whole name of the card, less the vendor's prefixes."""
    title: str
    memory_gb: tuple[float, ...]
    """The sizes that the card is sold with, as the vendor counts them."""
    cores: int | None = Field(default=None, gt=0)
    """The number of CUDA cores, where it is in the table."""
    clock_mhz: float | None = Field(default=None, gt=0)
    """The clock at which the vendor states the figures."""
    base_clock_mhz: float | None = Field(default=None, gt=0)
    """The clock that the card has without boost, where it is in the table."""
    clocks: dict[str, dict[str, float]] = {}
    """The clock in MHz, by dtype and unit, where a figure is stated at another clock than `clock_mhz`."""
    bandwidth: float | None = Field(default=None, gt=0)
    source: str
    flops: dict[str, dict[str, float]]
    """The peak in FLOP/s, by dtype and unit (`plain` or `tensor`)."""
    board: MultiChipBoard | None = None
    """The board that carries several of these chips, where the vendor states figures for that."""


class CorePeaks(Stored):
    """A CPU core's floating-point operations per cycle, an FMA counted as two."""

    title: str
    vendor: str
    family: int | None = None
    models: tuple[tuple[int, int], ...] = ()
    """The inclusive ranges of the model number, of x86 cores."""
    model: str | None = None
    """The core's name as the environment record has it, of Arm cores."""
    isa: str
    """The extension without which the figures cannot be reached."""
    source: str
    flops_per_cycle: dict[str, int]


@cache
def _table() -> dict[str, list[dict[str, object]]]:
    return tomllib.loads((files("accelbench.profiling.machine") / "peaks.toml").read_text(encoding="utf-8"))


@cache
def cards() -> tuple[CardPeaks, ...]:
    """Return every card of `peaks.toml`, in its order."""
    return tuple(CardPeaks.model_validate(card) for card in _table()["card"])


@cache
def cores() -> tuple[CorePeaks, ...]:
    """Return every CPU core of `peaks.toml`, in its order."""
    return tuple(CorePeaks.model_validate(core) for core in _table()["core"])


def find_card(name: str) -> CardPeaks | None:
    """Return the card that the driver calls `name`; None if it is not in the table."""
    bare = PREFIXES.sub("", name)
    return next((card for card in cards() if re.fullmatch(card.name, bare)), None)


def peak_of_gpu(gpu: Gpu, dtype: str, figure: Bounded, unit_kind: str | None) -> Peak:
    """Return the peak of a GPU by its name, if it is a whole card that the table has."""
    if gpu.mig or " MIG " in gpu.name:
        return Peak(value=None, reason=f"{gpu.name} is divided (MIG): no vendor's figure for the part")
    card = find_card(gpu.name)
    if card is None:
        return Peak(value=None, reason=f"{gpu.name} is not among the cards that 'accelbench peaks' lists")
    if not _has_its_memory(gpu, card):
        return Peak(value=None, reason=f"{gpu.name} shows another memory size than the {card.title}: a part of a card?")
    return card_peak(card, dtype, figure, unit_kind)


def _has_its_memory(gpu: Gpu, card: CardPeaks) -> bool:
    """Return whether the memory that the driver shows, if it does, is a size the card is sold with, within 10 %.

    Vendors' 80 GB are 80 GiB (7 % more) less what ECC and the driver keep back.
    """
    return gpu.memory_bytes is None or any(0.9 < gpu.memory_bytes / (size * 1e9) < 1.1 for size in card.memory_gb)


def card_peak(card: CardPeaks, dtype: str, figure: Bounded, confined_to: str | None = None) -> Peak:
    """Return the peak of the card's best unit for the dtype, of the one that confines the arithmetic, or of memory."""
    memory = {"memory": card.bandwidth} if card.bandwidth else {}
    units = card.flops.get(dtype, {}) if figure == "flops" else memory
    if figure == "flops" and confined_to is not None:
        units = {unit: value for unit, value in units.items() if unit == confined_to}
    if not units:
        what = dtype if figure == "flops" else "memory"
        place = f"the {confined_to} units of {card.title}" if figure == "flops" and confined_to else card.title
        return Peak(value=None, reason=f"no vendor's figure for {what} on {place}")
    unit_kind = max(units, key=lambda unit: units[unit])
    clock = card.clocks.get(dtype, {}).get(unit_kind, card.clock_mhz) if figure == "flops" else None
    return Peak(value=units[unit_kind], unit_kind=unit_kind, clock_mhz=clock, source=card.source)


def cpu_flops_per_cycle(cpu: Cpu, dtype: str) -> int | None:
    """Return the FLOP per cycle of one core; None where it is not in the table or its vectors are hidden.

    Times cores and clock this is the CPU's peak, but under vector load the clock is not the nominal one, and a
    virtual machine hides it: the measured ceiling is the better bound.
    """
    core = find_core(cpu)
    return core.flops_per_cycle.get(dtype) if core else None


def find_core(cpu: Cpu) -> CorePeaks | None:
    """Return the core that this CPU is made of; None where it is not in the table or its vectors are hidden."""
    for core in cores():
        if core.vendor != cpu.vendor or core.isa not in cpu.isa:
            continue
        by_number = core.family == cpu.family and any(
            low <= cpu.model_number <= high for low, high in core.models if cpu.model_number is not None
        )
        if by_number or (core.model is not None and core.model == cpu.model):
            return core
    return None
