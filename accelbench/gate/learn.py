"""Baseline learned from the stored runs of good nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from accelbench import __version__
from accelbench.environment.differences import differences
from accelbench.errors import UserError
from accelbench.execution.store import RunInfo, RunStore, now
from accelbench.gate.baseline import BASELINE_VERSION, Baseline, BaselineHardware, BaselineMetric
from accelbench.gate.hardware import HardwareClass
from accelbench.history.past import PastRun, read_past
from accelbench.history.spread import robust_deviation
from accelbench.output.format import counted, percent
from accelbench.profiling.analysis.course import disturbances
from accelbench.profiling.records.record import Record

SPREADS = 2.0
"""Minimum ratio of the tolerance to the spread between runs, so that good nodes meet the limit."""
WIDE_SPREADS = 4.0
"""Distance of the limit from the median, in spreads, for noisy runs."""
NAMED = 3
"""Maximum number of runs or points named in a message."""


@dataclass(frozen=True)
class LearnedBaseline:
    """Baseline, the number of runs in it, and a message for each run that was left out."""

    baseline: Baseline
    runs: int
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class GoodRun:
    """Finished run without failed points."""

    run: PastRun
    info: RunInfo


def learn(
    stores: Iterable[RunStore], tolerance: float = 0.05, include_noisy: bool = False, mixed: bool = False
) -> LearnedBaseline:
    """Return the baseline of these runs with limits at `tolerance` from the medians.

    Raises UserError if no run is usable, for noisy runs unless `include_noisy`, and for runs of different hardware or
    settings unless `mixed`.
    """
    past = read_past(stores)
    left_out = list(past.passed_over)
    good: list[GoodRun] = []
    for run in past.runs:
        info = run.store.info()
        failed = [str(record.point) for record in run.records if record.status == "failed"]
        if info.status != "finished":
            left_out.append(f"{run.run_id}: left out, because the run is {info.status}")
        elif failed:
            left_out.append(f"{run.run_id}: left out, because a point failed ({failed[0]})")
        else:
            good.append(GoodRun(run, info))
    if not good:
        raise UserError("; ".join(["no finished run without failed points", *left_out]))
    if not mixed:
        _refuse_mixed(good)
    if not include_noisy:
        _refuse_noisy(good)
    by_machine: dict[str, list[GoodRun]] = {}
    for each in good:
        by_machine.setdefault(each.run.machine, []).append(each)
    hardware = [_hardware(runs, tolerance, include_noisy) for _, runs in sorted(by_machine.items())]
    if not any(each.metric for each in hardware):
        raise UserError("these runs contain no measured metric")
    today = f"{now():%Y-%m-%d}"
    baseline = Baseline(baseline_version=BASELINE_VERSION, created=today, accelbench=__version__, hardware=hardware)
    return LearnedBaseline(baseline, len(good), tuple(left_out))


def _refuse_mixed(good: Sequence[GoodRun]) -> None:
    machines = sorted({each.run.machine for each in good})
    if len(machines) > 1:
        raise UserError(f"mixed hardware: {'; '.join(machines)}: name runs of one, or add --mixed")
    first = good[0].info
    for other in (each.info for each in good[1:]):
        devices = {first.device, other.device}
        for found in differences(first.environment, other.environment, devices):
            if found.matters:
                where = f"{first.run_id} and {other.run_id}"
                raise UserError(f"mixed settings: {where} differ in {found.fact}: name runs of one, or add --mixed")


def _refuse_noisy(good: Sequence[GoodRun]) -> None:
    noisy = [
        f"{each.run.run_id} {record.point} ({reasons[0]})"
        for each in good
        for record in each.run.records
        if record.status == "measured" and (reasons := disturbances(record))
    ]
    if noisy:
        named = "; ".join(noisy[:NAMED]) + (" …" if len(noisy) > NAMED else "")
        raise UserError(f"{counted(len(noisy), 'result')} noisy: {named}: measure again, or add --include-noisy")


def _hardware(runs: Sequence[GoodRun], tolerance: float, include_noisy: bool) -> BaselineHardware:
    found: dict[str, list[Record]] = {}
    for each in runs:
        for record in each.run.records:
            if record.rate():
                found.setdefault(str(record.point), []).append(record)
    metrics = [_metric(point, records, tolerance, include_noisy) for point, records in found.items()]
    facts = HardwareClass.of(runs[0].info).model_dump()
    facts["memory_bytes"] = round(median(each.info.environment.memory.total_bytes for each in runs))
    return BaselineHardware(**facts, metric=metrics)


def _metric(point: str, records: Sequence[Record], tolerance: float, include_noisy: bool) -> BaselineMetric:
    units = {(record.figure, record.unit) for record in records}
    if len(units) > 1:
        raise UserError(f"{point} has different metrics in these runs: name runs of one version of accelbench")
    ((figure, unit),) = units
    values = [rate for record in records if (rate := record.rate())]
    middle = median(values)
    spread = robust_deviation(values)
    relative = (spread or 0.0) / middle
    if relative * SPREADS > tolerance and not include_noisy:
        raise UserError(
            f"{point}: the spread between runs is {percent(relative)}, too large for a limit at {percent(tolerance)}: "
            "leave out the odd runs, raise --tolerance, or add --include-noisy"
        )
    width = max(tolerance, WIDE_SPREADS * relative) if include_noisy else tolerance
    side = {"max": f"{1 + width:.3g} * median"} if figure == "time" else {"min": f"{max(0, 1 - width):.3g} * median"}
    mad = median(abs(value - middle) for value in values) if len(values) > 1 else None
    return BaselineMetric(point=point, figure=figure, unit=unit, median=middle, mad=mad, runs=len(values), **side)
