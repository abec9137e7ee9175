"""Vendors' peak rates of devices: dense, with source; null if unknown.

The rates are in `peaks.toml` in this folder. A card that it does not list has no peak.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

from pydantic import Field

from accelbench.profiling.records.environment import CoreKind, Cpu, Gpu, Peak, TpuDevice
from accelbench.profiling.records.stored import Stored
from accelbench.profiling.records.work import Bounded

PREFIXES = re.compile(r"^(NVIDIA |Tesla |GeForce )*")


class MultiChipBoard(Stored):
    """Vendor's peaks of a board with several chips, each of which is a separate device."""

    title: str
    chips: int = Field(ge=2)
    """Number of chips on the board."""
    cores: int | None = Field(default=None, gt=0)
    """CUDA cores of all chips."""
    memory_gb: float = Field(gt=0)
    """Memory of all chips in GB, as the vendor states it."""
    clock_mhz: float | None = Field(default=None, gt=0)
    """Clock in MHz at which the vendor states the peaks."""
    bandwidth: float | None = Field(default=None, gt=0)
    """Memory bandwidth of all chips in byte/s."""
    source: str
    flops: dict[str, dict[str, float]]
    """Peak of all chips in FLOP/s, by dtype and unit."""


class CardPeaks(Stored):
    """Vendor's peaks of a GPU: one entry of `peaks.toml`."""

    name: str
    """Regular expression for the driver's complete name of the card, without the vendor's prefixes."""
    title: str
    memory_gb: tuple[float, ...]
    """Memory sizes in GB that the card is sold with, as the vendor states them."""
    capability: tuple[int, int] | None = None
    """CUDA compute capability, if the table has it."""
    cores: int | None = Field(default=None, gt=0)
    """Number of CUDA cores, if the table has it."""
    clock_mhz: float | None = Field(default=None, gt=0)
    """Clock in MHz at which the vendor states the peaks."""
    base_clock_mhz: float | None = Field(default=None, gt=0)
    """Clock in MHz without boost, if the table has it."""
    clocks: dict[str, dict[str, float]] = {}
    """Clock in MHz, by dtype and unit, of peaks stated at another clock than `clock_mhz`."""
    bandwidth: float | None = Field(default=None, gt=0)
    source: str
    flops: dict[str, dict[str, float]]
    """Peak in FLOP/s, by dtype and unit (`plain` or `tensor`)."""
    board: MultiChipBoard | None = None
    """Board with several of these chips, if the vendor states peaks for it."""


class CorePeaks(Stored):
    """Floating-point operations per cycle of a CPU core; an FMA counts as two."""

    title: str
    vendor: str
    family: int | None = None
    models: tuple[tuple[int, int], ...] = ()
    """Inclusive ranges of the model number, for x86 cores."""
    model: str | None = None
    """Core name as in the environment record, for Arm cores."""
    kind: str | None = None
    """Kind of core, for a CPU with several kinds of one family and model number."""
    isa: str
    """Instruction set extension that the peak requires."""
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
    """Return the card by the driver's name; None if it is not in the table."""
    bare = PREFIXES.sub("", name)
    return next((card for card in cards() if re.fullmatch(card.name, bare)), None)


def peak_of_gpu(gpu: Gpu, dtype: str, metric: Bounded, unit_kind: str | None) -> Peak:
    """Return the peak of a GPU by its name; unknown if it is part of a card or not in the table."""
    if gpu.mig or " MIG " in gpu.name:
        return Peak(value=None, reason=f"{gpu.name} is partitioned (MIG): the vendor states no peak for a partition")
    card = find_card(gpu.name)
    if card is None:
        return Peak(value=None, reason=f"no vendor peak is known for {gpu.name} (see 'accelbench peaks')")
    if not _has_its_memory(gpu, card):
        return Peak(value=None, reason=f"{gpu.name} has another memory size than the {card.title}: is it a partition?")
    return card_peak(card, dtype, metric, unit_kind)


def peak_of_tpu(tpu: TpuDevice, dtype: str, metric: Bounded, unit_kind: str | None) -> Peak:
    """Return the peak of a device of a TPU: the chip's, divided by the number of its devices."""
    card = find_card(tpu.name)
    if card is None:
        return Peak(value=None, reason=f"no vendor peak is known for {tpu.name} (see 'accelbench peaks')")
    peak = card_peak(card, dtype, metric, unit_kind)
    return peak if peak.value is None else peak.model_copy(update={"value": peak.value / tpu.devices_of_chip})


def _has_its_memory(gpu: Gpu, card: CardPeaks) -> bool:
    """Return whether the memory size that the driver reports, if any, is within 10 % of a size the card is sold with.

    A vendor's 80 GB are 80 GiB (7 % more) less the reserve of ECC and driver.
    """
    return gpu.memory_bytes is None or any(0.9 < gpu.memory_bytes / (size * 1e9) < 1.1 for size in card.memory_gb)


def card_peak(card: CardPeaks, dtype: str, metric: Bounded, confined_to: str | None = None) -> Peak:
    """Return the peak of the fastest unit for the dtype, of the unit in `confined_to`, or of the memory."""
    memory = {"memory": card.bandwidth} if card.bandwidth else {}
    units = card.flops.get(dtype, {}) if metric == "flops" else memory
    if metric == "flops" and confined_to is not None:
        units = {unit: value for unit, value in units.items() if unit == confined_to}
    if not units:
        what = dtype if metric == "flops" else "memory"
        place = f"the {confined_to} units of {card.title}" if metric == "flops" and confined_to else card.title
        return Peak(value=None, reason=f"the vendor states no peak for {what} on {place}")
    unit_kind = max(units, key=lambda unit: units[unit])
    clock = card.clocks.get(dtype, {}).get(unit_kind, card.clock_mhz) if metric == "flops" else None
    return Peak(value=units[unit_kind], unit_kind=unit_kind, clock_mhz=clock, source=card.source)


def cpu_flops_per_cycle(cpu: Cpu, dtype: str) -> int | None:
    """Return the FLOP per cycle of one core; None if it is not in the table or its vector extension is hidden.

    The product with cores and clock is the CPU's peak, but the clock under vector load differs from the nominal one,
    and a virtual machine hides it: the measured ceiling is the better bound. A CPU with several kinds of cores has no
    such number; `core_flops_per_cycle` returns the number of each kind.
    """
    core = None if cpu.kinds else find_core(cpu)
    return core.flops_per_cycle.get(dtype) if core else None


def core_flops_per_cycle(cpu: Cpu, kind: CoreKind) -> dict[str, int]:
    """Return the FLOP per cycle of a core of this kind by dtype; empty if it is not in the table."""
    core = find_core(cpu, kind)
    return core.flops_per_cycle if core else {}


def flops_at_highest_clocks(cpu: Cpu, dtype: str) -> float | None:
    """Return the FLOP/s of all cores of all kinds at their highest clocks; None if a kind's number or clock is unknown.

    All kinds together need not reach these clocks.
    """
    known = [(core_flops_per_cycle(cpu, kind).get(dtype), kind.cores, kind.frequency_mhz) for kind in cpu.kinds]
    if not known or any(None in facts for facts in known):
        return None
    return sum((flops or 0) * (cores or 0) * (mhz or 0) * 1e6 for flops, cores, mhz in known)


def find_core(cpu: Cpu, kind: CoreKind | None = None) -> CorePeaks | None:
    """Return the entry for this CPU's core, or for its core of a kind; None if it is not in the table.

    None also if the core's vector extension is hidden.
    """
    name = kind.name if kind else cpu.model
    for core in cores():
        if core.vendor != cpu.vendor or core.isa not in cpu.isa or core.kind not in (None, name):
            continue
        by_number = core.family == cpu.family and any(
            low <= cpu.model_number <= high for low, high in core.models if cpu.model_number is not None
        )
        if by_number or (core.model is not None and core.model == name):
            return core
    return None
