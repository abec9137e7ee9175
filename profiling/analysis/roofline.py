"""Roofline model: a result as a share of the vendor's peak and of the best rate measured in the same run (ceiling).

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
from accelbench.profiling.records.telemetry import POWER_LIMIT
from accelbench.profiling.records.work import SHARED_CORES, Bounded, Cores

BEYOND = 1.005
"""Share above which a rate exceeds its bound by more than rounding, so that no share is reported."""
CONTRADICTED = 1.05
"""Ratio above which a rate contradicts a ceiling; the difference between processes of one point is smaller."""
NOISY = "is noisy"
ONLY_A_BOUND = "is only a lower bound"
NOT_MEASURED = "this run measured no ceilings (--no-ceilings)"


@dataclass(frozen=True)
class Ceiling:
    """Empirical peak: the best measured rate on this device, of arithmetic in one dtype or of memory traffic."""

    device: Device
    metric: Bounded
    dtype: str | None
    """The dtype of the arithmetic; None for bytes."""
    cores: Cores
    """Whether it is the rate of one core or of the whole device."""
    value: float
    """The rate, in FLOP/s or byte/s."""
    record: Record
    """The record of the measurement."""
    doubt: str | None = None
    """The reason why shares of it are doubtful: `NOISY`, `ONLY_A_BOUND`, or a result that contradicts it."""
    disturbed_by: tuple[str, ...] = ()
    """The disturbances of the measurement, as text."""
    reached_today: float | None = None
    """The rate of the same kind in this run, if the ceiling is of a past run; None if it is of this run."""

    @property
    def unit_kind(self) -> str | None:
        """Return the hardware unit (`tensor`, `plain`, `memory`) of the record's peak; None without a peak."""
        return self.record.peak.unit_kind if self.record.peak else None

    @property
    def kind(self) -> str:
        """Return the kind of work that it bounds as text: `float32 arithmetic of one core`."""
        return _kind(self.metric, self.dtype, self.cores, self.core_kind)

    @property
    def core_kind(self) -> str | None:
        """Return the kind of core of a ceiling of one core, if the CPU has several kinds."""
        return core_kind(self.record)


@dataclass(frozen=True)
class Share:
    """Rate as a fraction of a bound, or the reason why the fraction is unknown."""

    value: float | None
    """The fraction; None if unknown."""
    reason: str | None = None
    """The reason why the fraction is unknown."""
    of: str = ""
    """The kind of work that is bounded: `float32 arithmetic`, `memory bandwidth`."""
    bound: float | None = None
    """The bound in FLOP/s or byte/s."""
    metric: Bounded | None = None
    """Whether the bound is a rate of flops or of bytes."""
    at_least: bool = False
    """Whether the fraction is a lower bound, because the rate is one."""
    doubtful: float | None = None
    """The fraction of a ceiling with a `doubt`, which is shown with a mark but not used; `value` is then None."""

    @property
    def shown(self) -> float | None:
        """Return the fraction to show: `value`, or else `doubtful`."""
        return self.doubtful if self.value is None else self.value


def arithmetic_intensity(record: Record) -> float | None:
    """Return the flops per byte of one execution; None if either is unknown."""
    work = record.work
    if work is None or not work.flops or not work.bytes:
        return None
    return work.flops / work.bytes


def ceilings(records: Sequence[Record], courses: Sequence[TimeCourse] | None = None) -> list[Ceiling]:
    """Return the best rate per device, metric, dtype and number of cores, among the records that declare a ceiling.

    A noisy record sets a ceiling only if no other record comes near it; its `doubt` is then set. `doubt` is also set if
    one core exceeds the ceiling of all cores, or another point of the run exceeds the ceiling, by more than chance
    (`CONTRADICTED`). `courses` are the time courses of the records in the same order, if known.
    """
    found: dict[tuple[str, str, str, str], list[Ceiling]] = {}
    for record, course in zip(records, repeat(None) if courses is None else courses, strict=False):
        bound = record.bound
        rate = record.rate(bound.metric) if record.ceiling and bound.metric else None
        if bound.metric is None or not rate:
            continue
        by = tuple(disturbances(record, course))
        doubt = ONLY_A_BOUND if record.bound_sign() else NOISY if by else None
        ceiling = Ceiling(record.point.device, bound.metric, bound.dtype, bound.cores, rate, record, doubt, by)
        key = (ceiling.device, ceiling.metric, ceiling.dtype or "", ceiling.cores)
        found.setdefault(key, []).append(ceiling)
    best, fastest = [_best(found[key]) for key in sorted(found)], _fastest(records)
    return [replace(ceiling, doubt=ceiling.doubt or _contradiction(ceiling, best, fastest)) for ceiling in best]


def _best(found: Sequence[Ceiling]) -> Ceiling:
    """Return the best ceiling without noise, unless a noisy one is higher by more than chance."""
    highest = max(found, key=lambda ceiling: ceiling.value)
    quiet = [ceiling for ceiling in found if not ceiling.doubt and highest.value <= CONTRADICTED * ceiling.value]
    return max(quiet, key=lambda ceiling: ceiling.value, default=highest)


Kind = tuple[Device, Bounded, str | None, Cores]
"""Kind of work that a ceiling bounds: device, metric, dtype and number of cores."""


def _fastest(records: Sequence[Record]) -> dict[Kind, tuple[float, Record]]:
    """Return the highest rate per device of each kind of work, with its record, without training workloads."""
    found: dict[Kind, tuple[float, Record]] = {}
    for record in records:
        bound, device = record.bound, record.point.device
        if bound.metric is None or _modelled(record):
            continue
        rate, count = record.rate(bound.metric), record.layout.bounding_devices(device)
        kind = (device, bound.metric, bound.dtype, bound.cores)
        if rate and count and (kind not in found or rate / count > found[kind][0]):
            found[kind] = rate / count, record
    return found


def _contradiction(
    ceiling: Ceiling, others: Sequence[Ceiling], fastest: Mapping[Kind, tuple[float, Record]]
) -> str | None:
    """Return the result of the same run that contradicts the ceiling, as text; None if there is none."""
    one = find_ceiling(others, ceiling.device, ceiling.metric, ceiling.dtype, "one")
    if ceiling.cores == "all" and one and one.value > CONTRADICTED * ceiling.value:
        return f"is exceeded by one core ({one.value / ceiling.value:.2f}×)"
    rivals = [found for kind, found in fastest.items() if _bounds(ceiling, kind)]
    rate, record = max(rivals, key=itemgetter(0), default=(0.0, ceiling.record))
    if rate <= CONTRADICTED * ceiling.value:
        return None
    name = f"{record.point.benchmark} {record.point.details}".strip()
    return f"is exceeded by {name} ({rate / ceiling.value:.2f}×)"


def _modelled(record: Record) -> bool:
    """Return whether the FLOPs are model FLOPs of a training workload, which a library may do in fewer operations."""
    return record.timing is not None and record.timing.timer == "steps"


def _bounds(ceiling: Ceiling, kind: Kind) -> bool:
    device, metric, dtype, cores = kind
    same = (device, metric, cores) == (ceiling.device, ceiling.metric, ceiling.cores)
    return same and ceiling.dtype in (None, dtype)


def find_ceiling(
    measured: Sequence[Ceiling], device: Device, metric: Bounded, dtype: str | None, cores: Cores = "all"
) -> Ceiling | None:
    """Return the ceiling that bounds this kind of work; the dtype is ignored for memory traffic."""
    for ceiling in measured:
        if (ceiling.device, ceiling.metric, ceiling.cores) == (device, metric, cores) and ceiling.dtype in (
            None,
            dtype,
        ):
            return ceiling
    return None


def share_of_ceiling(record: Record, measured: Sequence[Ceiling] | None) -> Share:
    """Return a rate as a fraction of the measured ceiling; for training workloads, the rate of model FLOPs.

    The bound of n GPUs or TPUs is n times the ceiling of one. The share is unknown if the run measured no ceilings
    (`measured` is None), if the rate exceeds the ceiling (which is then `bound`), and if the ceiling has a `doubt`; the
    fraction of the latter is `doubtful`.
    """
    metric, rate, reason = _bounded_rate(record)
    if metric is None or rate is None:
        return Share(None, reason)
    if measured is None:
        return Share(None, NOT_MEASURED)
    device, bound = record.point.device, record.bound
    count = record.layout.bounding_devices(device)
    if count is None:
        return Share(None, SHARED_CORES)
    ceiling = find_ceiling(measured, device, metric, bound.dtype, bound.cores)
    if ceiling is None:
        kind = _kind(metric, bound.dtype, bound.cores)
        return Share(None, f"no ceiling of {kind} was measured on {device} in this run")
    if ceiling.core_kind != core_kind(record):
        return Share(
            None, f"the ceiling of {ceiling.kind} does not bound {core_kind(record) or 'another kind of core'}"
        )
    of = f"{ceiling.kind} of {count} devices" if count > 1 else ceiling.kind
    share, most = rate / (count * ceiling.value), count * ceiling.value
    if share > BEYOND:
        return Share(None, f"the rate exceeds the ceiling of {of} ({share:.3g}×)", of, most, metric)
    if ceiling.doubt:
        return Share(None, f"the ceiling of {ceiling.kind} {ceiling.doubt}", of, most, metric, doubtful=share)
    return Share(share, of=of, bound=most, metric=metric, at_least=bool(record.bound_sign()))


def share_of_peak(record: Record) -> Share:
    """Return a rate as a fraction of the vendor's peak; for training workloads, the model FLOP/s utilisation (MFU).

    MFU counts model FLOPs without recomputation (Chowdhery et al., "PaLM", appendix B, 2022).
    """
    metric, rate, reason = _bounded_rate(record)
    if metric is None or rate is None:
        return Share(None, reason)
    if record.bound.cores == "one":
        return Share(None, "the vendor's peak is of the whole device, and this point uses one core")
    if record.peak is None or record.peak.value is None:
        return Share(None, (record.peak and record.peak.reason) or "no peak is known for this device")
    of = _kind(metric, record.bound.dtype, "all")
    at_least = bool(record.bound_sign())
    return Share(rate / record.peak.value, of=of, bound=record.peak.value, metric=metric, at_least=at_least)


def share_of_peak_at_clock(record: Record) -> Share:
    """Return the share of the peak scaled to the median SM clock observed during the measurement."""
    share = share_of_peak(record)
    if share.value is None or share.bound is None or record.peak is None:
        return share
    if record.bound.metric != "flops":
        return Share(None, "memory bandwidth does not depend on the SM clock")
    clock = observed_clock(record)
    if clock is None:
        return Share(None, "the SM clock was not observed")
    bound = record.peak.at_clock(clock.mhz)
    if bound is None:
        return Share(None, "the vendor does not state the clock of this peak")
    of = f"{share.of} at {clock.mhz:.0f} MHz ({clock.source})"
    return Share(share.value * share.bound / bound, of=of, bound=bound, metric="flops", at_least=share.at_least)


def power_limited_clock(record: Record) -> str | None:
    """Return the median SM clock as text, `1371 of 1830 MHz`, if the GPU reached its power limit; else None."""
    clock = observed_clock(record)
    if clock is None or record.telemetry is None or POWER_LIMIT not in record.telemetry.throttle_reasons:
        return None
    highest = f" of {record.peak.clock_mhz:.0f}" if record.peak and record.peak.clock_mhz else ""
    return f"{clock.mhz:.0f}{highest} MHz"


class ObservedClock(NamedTuple):
    """Median SM clock of a record, and its source."""

    mhz: float
    source: Literal["NVBench", "NVML"]


def observed_clock(record: Record) -> ObservedClock | None:
    """Return NVBench's clock of the samples, else NVML's during the measurement; None if neither is known.

    For several cards it is their mean, since each card bounds its own share of the work.
    """
    if record.timing is not None and record.timing.sm_clock is not None:
        return ObservedClock(record.timing.sm_clock.median, "NVBench")
    gauges = record.telemetry.gauges if record.telemetry else {}
    read = [gauge.median for name, gauge in gauges.items() if re.fullmatch(r"gpu\.sm_clock(\.\d+)?", name)]
    return ObservedClock(fmean(read), "NVML") if read and min(read) > 0 else None


def roof(intensity: float, compute: float, memory: float) -> float:
    """Return the attainable FLOP/s at an arithmetic intensity, for ceilings of FLOP/s (`compute`) and byte/s."""
    return min(compute, intensity * memory)


def ridge(compute: float, memory: float) -> float:
    """Return the arithmetic intensity of the ridge point, in flops per byte, above which arithmetic is the bound."""
    return compute / memory


def core_kind(record: Record) -> str | None:
    """Return the kind of core of a point of one core, if the CPU has several kinds."""
    return record.placement.core_kind if record.placement and record.bound.cores == "one" else None


def _kind(metric: Bounded, dtype: str | None, cores: Cores, core: str | None = None) -> str:
    kind = "memory bandwidth" if metric == "bytes" else f"{dtype} arithmetic"
    return f"{kind} of one core{f' ({core})' if core else ''}" if cores == "one" else kind


def _bounded_rate(record: Record) -> tuple[Bounded | None, float | None, str | None]:
    """Return the bounded metric and its rate, or the reason why there is none."""
    if record.status != "measured" or record.timing is None:
        return None, None, f"the point was {record.status}"
    metric = record.bound.metric
    if metric is None and record.bound.reason:
        return None, None, record.bound.reason
    if metric is None:
        unit = f"{record.work.item}/s" if record.figure == "items" and record.work else "time"
        return None, None, f"there is no peak or ceiling of {unit}"
    rate = record.rate(metric)
    return metric, rate, None if rate else f"the {metric} of one execution are unknown"
