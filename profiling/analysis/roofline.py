"""Roofline model: a result as a share of the vendor's peak and of the best rate measured in the same run.

Williams, Waterman & Patterson, "Roofline: An Insightful Visual Performance Model for Multicore Architectures",
Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from operator import itemgetter
from statistics import fmean
from typing import Literal, NamedTuple

from accelbench.profiling.analysis.course import TimeCourse, disturbances
from accelbench.profiling.records.point import Device
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import SHARED_CORES, Bounded, Cores

BEYOND = 1.005
"""The share above which a figure is more than a rounding past its bound, so that the bound is none for it."""
CONTRADICTED = 1.05
"""The ratio above which a rate shows that a ceiling is no ceiling: fresh processes of one point differ by less."""
DISTURBED = "was disturbed"
NOT_MEASURED = "this run was asked to measure no ceilings"


@dataclass(frozen=True)
class Ceiling:
    """The best rate measured on this device, of arithmetic in one dtype or of memory traffic."""

    device: Device
    figure: Bounded
    dtype: str | None
    """The type of the arithmetic; None for bytes."""
    cores: Cores
    """Whether one core reached it or the whole device."""
    value: float
    """The rate, in FLOP/s or byte/s."""
    record: Record
    """The record of the measurement that set it."""
    doubt: str | None = None
    """The reason why no share of it is shown: `was disturbed`, or what the run has that contradicts it."""
    disturbed_by: tuple[str, ...] = ()
    """The disturbances of the measurement that set it, in words."""

    @property
    def unit_kind(self) -> str | None:
        """Return the hardware unit that worked (`tensor`, `plain`, `memory`), where the record's peak names it."""
        return self.record.peak.unit_kind if self.record.peak else None

    @property
    def kind(self) -> str:
        """Return the kind of work that it bounds, in words."""
        return _kind(self.figure, self.dtype, self.cores)


@dataclass(frozen=True)
class Share:
    """A rate as a fraction of a bound, or the reason why that is not known."""

    value: float | None
    """The fraction, a bare number; None where it is unknown."""
    reason: str | None = None
    of: str = ""
    """The kind of work that the bound is of: `float32 arithmetic`, `memory bandwidth`."""
    bound: float | None = None
    """The bound itself, in FLOP/s or byte/s."""
    figure: Bounded | None = None
    """Whether the bound is one of flops or of bytes."""
    noisy: bool = False
    """Whether the fraction is unknown because the bound was measured while something disturbed it."""


def arithmetic_intensity(record: Record) -> float | None:
    """Return the flops per byte that one execution must move; None where either is unknown."""
    work = record.work
    if work is None or not work.flops or not work.bytes:
        return None
    return work.flops / work.bytes


def ceilings(records: Sequence[Record], courses: Sequence[TimeCourse] | None = None) -> list[Ceiling]:
    """Return the best rate per device, figure, dtype and number of cores, among the records that set ceilings.

    A disturbed record sets one only where no other comes near it, and then one in doubt. So is a ceiling that one core
    reaches where it is that of all of them, or that another point of the run exceeds: by more than chance
    (`CONTRADICTED`). `courses` are the judgements on the records' samples, in the same order, where they are known.
    """
    found: dict[tuple[str, str, str, str], list[Ceiling]] = {}
    for record, course in zip(records, repeat(None) if courses is None else courses, strict=False):
        bound = record.bound
        rate = record.rate(bound.figure) if record.ceiling and bound.figure else None
        if bound.figure is None or not rate:
            continue
        by = tuple(disturbances(record, course))
        doubt = DISTURBED if by else None
        ceiling = Ceiling(record.point.device, bound.figure, bound.dtype, bound.cores, rate, record, doubt, by)
        key = (ceiling.device, ceiling.figure, ceiling.dtype or "", ceiling.cores)
        found.setdefault(key, []).append(ceiling)
    best, fastest = [_best(found[key]) for key in sorted(found)], _fastest(records)
    return [replace(ceiling, doubt=ceiling.doubt or _contradiction(ceiling, best, fastest)) for ceiling in best]


def _best(found: Sequence[Ceiling]) -> Ceiling:
    """Return the best of these ceilings that is not disturbed, unless a disturbed one is higher beyond chance."""
    highest = max(found, key=lambda ceiling: ceiling.value)
    quiet = [ceiling for ceiling in found if not ceiling.doubt and highest.value <= CONTRADICTED * ceiling.value]
    return max(quiet, key=lambda ceiling: ceiling.value, default=highest)


Kind = tuple[Device, Bounded, str | None, Cores]
"""The kind of work that a ceiling bounds: the device, the figure, the dtype and the number of cores."""


def _fastest(records: Sequence[Record]) -> dict[Kind, tuple[float, Record]]:
    """Return the highest rate on one device of each kind of work, with its record; the work of models is left out."""
    found: dict[Kind, tuple[float, Record]] = {}
    for record in records:
        bound, device = record.bound, record.point.device
        if bound.figure is None or _modelled(record):
            continue
        rate, count = record.rate(bound.figure), record.layout.bounding_devices(device)
        kind = (device, bound.figure, bound.dtype, bound.cores)
        if rate and count and (kind not in found or rate / count > found[kind][0]):
            found[kind] = rate / count, record
    return found


def _contradiction(
    ceiling: Ceiling, others: Sequence[Ceiling], fastest: Mapping[Kind, tuple[float, Record]]
) -> str | None:
    """Return the figure of the same run that shows that this is no ceiling, in words; None where none does."""
    one = find_ceiling(others, ceiling.device, ceiling.figure, ceiling.dtype, "one")
    if ceiling.cores == "all" and one and one.value > CONTRADICTED * ceiling.value:
        return f"is exceeded {one.value / ceiling.value:.2f} times by one core alone"
    rivals = [found for kind, found in fastest.items() if _bounds(ceiling, kind)]
    rate, record = max(rivals, key=itemgetter(0), default=(0.0, ceiling.record))
    if rate <= CONTRADICTED * ceiling.value:
        return None
    return f"is exceeded {rate / ceiling.value:.2f} times by {record.point.benchmark} {record.point.details}".strip()


def _modelled(record: Record) -> bool:
    """Return whether the work is that of a model by its layers, which a library may do by fewer operations."""
    return record.timing is not None and record.timing.timer == "steps"


def _bounds(ceiling: Ceiling, kind: Kind) -> bool:
    device, figure, dtype, cores = kind
    same = (device, figure, cores) == (ceiling.device, ceiling.figure, ceiling.cores)
    return same and ceiling.dtype in (None, dtype)


def find_ceiling(
    measured: Sequence[Ceiling], device: Device, figure: Bounded, dtype: str | None, cores: Cores = "all"
) -> Ceiling | None:
    """Return the ceiling that bounds work of that kind; the dtype does not matter to memory traffic."""
    for ceiling in measured:
        if (ceiling.device, ceiling.figure, ceiling.cores) == (device, figure, cores) and ceiling.dtype in (
            None,
            dtype,
        ):
            return ceiling
    return None


def share_of_ceiling(record: Record, measured: Sequence[Ceiling] | None) -> Share:
    """Return a rate as a fraction of what this device was seen to do; of a training, its model FLOP/s.

    Several GPUs or TPUs are bounded by so many times the ceiling of the one that was measured. The share is unknown
    where the run was to measure no ceilings (`measured` is None), where the rate is above the ceiling (which is then
    the share's `bound`), and where the ceiling is in doubt.
    """
    figure, rate, reason = _bounded_rate(record)
    if figure is None or rate is None:
        return Share(None, reason)
    if measured is None:
        return Share(None, NOT_MEASURED)
    device, bound = record.point.device, record.bound
    count = record.layout.bounding_devices(device)
    if count is None:
        return Share(None, SHARED_CORES)
    ceiling = find_ceiling(measured, device, figure, bound.dtype, bound.cores)
    if ceiling is None:
        kind = _kind(figure, bound.dtype, bound.cores)
        return Share(None, f"no {kind} was measured as a ceiling on {device} in this run")
    of = f"{ceiling.kind} of {count} devices" if count > 1 else ceiling.kind
    share, most = rate / (count * ceiling.value), count * ceiling.value
    if share > BEYOND:
        return Share(None, f"this was {share:.3g} times as fast as the ceiling of {of}", of, most, figure)
    if ceiling.doubt:
        reason = f"the ceiling of {ceiling.kind} {ceiling.doubt}"
        return Share(None, reason, of=ceiling.kind, noisy=ceiling.doubt == DISTURBED)
    return Share(share, of=of, bound=most, figure=figure)


def share_of_peak(record: Record) -> Share:
    """Return a rate as a fraction of the vendor's peak; of a training this is the model FLOP/s utilisation (MFU).

    MFU counts the model's own operations, not recomputation (Chowdhery et al., "PaLM", appendix B, 2022).
    """
    figure, rate, reason = _bounded_rate(record)
    if figure is None or rate is None:
        return Share(None, reason)
    if record.bound.cores == "one":
        return Share(None, "a peak is that of the whole device, and this is one core")
    if record.peak is None or record.peak.value is None:
        return Share(None, (record.peak and record.peak.reason) or "no peak is known for this device")
    of = _kind(figure, record.bound.dtype, "all")
    return Share(rate / record.peak.value, of=of, bound=record.peak.value, figure=figure)


def share_of_peak_at_clock(record: Record) -> Share:
    """Return the same share of the peak as it would be at the median SM clock observed while measuring."""
    share = share_of_peak(record)
    if share.value is None or share.bound is None or record.peak is None:
        return share
    if record.bound.figure != "flops":
        return Share(None, "memory bandwidth does not follow the SM clock")
    clock = observed_clock(record)
    if clock is None:
        return Share(None, "the clock was not observed")
    bound = record.peak.at_clock(clock.mhz)
    if bound is None:
        return Share(None, "the vendor does not state the clock of this peak")
    of = f"{share.of} at {clock.mhz:.0f} MHz ({clock.source})"
    return Share(share.value * share.bound / bound, of=of, bound=bound, figure="flops")


class ObservedClock(NamedTuple):
    """The median SM clock of a record, and who read it."""

    mhz: float
    source: Literal["NVBench", "NVML"]


def observed_clock(record: Record) -> ObservedClock | None:
    """Return NVBench's clock of the samples that were kept; else NVML's meanwhile; None where neither is known.

    The clock of several cards is their mean: each bounds its own share of the work.
    """
    if record.timing is not None and record.timing.sm_clock is not None:
        return ObservedClock(record.timing.sm_clock.median, "NVBench")
    gauges = record.telemetry.gauges if record.telemetry else {}
    read = [gauge.median for name, gauge in gauges.items() if re.fullmatch(r"gpu\.sm_clock(\.\d+)?", name)]
    return ObservedClock(fmean(read), "NVML") if read and min(read) > 0 else None


def roof(intensity: float, compute: float, memory: float) -> float:
    """Return the attainable FLOP/s at so many flops per byte, by roofs of arithmetic (FLOP/s) and memory (byte/s)."""
    return min(compute, intensity * memory)


def ridge(compute: float, memory: float) -> float:
    """Return the arithmetic intensity, in flops per byte, from which on arithmetic, not memory, is the bound."""
    return compute / memory


def _kind(figure: Bounded, dtype: str | None, cores: Cores) -> str:
    what = "memory bandwidth" if figure == "bytes" else f"{dtype} arithmetic"
    return f"{what} of one core" if cores == "one" else what


def _bounded_rate(record: Record) -> tuple[Bounded | None, float | None, str | None]:
    """Return the figure that hardware bounds and its rate, or the reason why there is none."""
    if record.status != "measured" or record.timing is None:
        return None, None, f"the point was {record.status}"
    figure = record.bound.figure
    if figure is None and record.bound.reason:
        return None, None, record.bound.reason
    if figure is None:
        what = record.work.item if record.figure == "items" and record.work else "time"
        return None, None, f"{what} has no peak or ceiling" if what == "time" else f"no peak or ceiling counts {what}"
    rate = record.rate(figure)
    return figure, rate, None if rate else f"the {figure} of one execution are not known"
