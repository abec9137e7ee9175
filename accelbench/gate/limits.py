"""Limit of a measured point: from the baseline, stored runs, published references, or the vendor's peak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accelbench.errors import collect_damage
from accelbench.execution.store import RunInfo, RunStore
from accelbench.gate.answer import GateCheck, GateResource, GateStatus, quantity
from accelbench.gate.baseline import BaselineHardware
from accelbench.gate.request import PastMetric
from accelbench.output.format import percent
from accelbench.profiling.analysis.roofline import share_of_peak
from accelbench.profiling.machine.pcie import LINK_SHARE, WHOLE_LINK
from accelbench.profiling.records.record import Record
from accelbench.references.comparison import TOLERANCE, compare_with_references

PAST_TOLERANCE, PAST_SPREADS = 0.05, 4.0
"""Distance of a limit from the median of stored runs: relative, or in spreads between runs, whichever is larger."""
LEAST_SHARE_OF_PEAK = 0.5
"""Lowest share of the vendor's peak of a fit node; products and copies of all known cards reach more."""


@dataclass(frozen=True)
class Limit:
    """Lowest value of a fit node (for a time, the highest), and its origin as text."""

    value: float
    source: str
    warn: float | None = None


@dataclass(frozen=True)
class LimitSources:
    """Sources of limits, in the order in which they apply."""

    hardware: BaselineHardware | None
    """Hardware class of the baseline; None without a baseline."""
    baseline_name: str
    past: Mapping[str, PastMetric]
    """Metrics of stored runs by point."""

    def expects(self, point: str) -> bool:
        """Return whether other nodes of the same hardware have measured this point."""
        in_baseline = self.hardware is not None and any(metric.point == point for metric in self.hardware.metric)
        return in_baseline or point in self.past

    def of(self, record: Record, info: RunInfo) -> Limit | None:
        """Return the limit of a measured record; None if no source has one."""
        return self._of_baseline(record) or self._of_past(record) or _of_references(record, info) or _of_peak(record)

    def _of_baseline(self, record: Record) -> Limit | None:
        for metric in self.hardware.metric if self.hardware else ():
            if (metric.point, metric.figure, metric.unit) == (str(record.point), record.figure, record.unit):
                return Limit(metric.limit, f"baseline {self.baseline_name}", metric.warn_limit)
        return None

    def _of_past(self, record: Record) -> Limit | None:
        past = self.past.get(str(record.point))
        if past is None or (past.figure, past.unit) != (record.figure, record.unit):
            return None
        width = max(PAST_TOLERANCE, PAST_SPREADS * past.deviation)
        factor = 1 + width if record.figure == "time" else max(0.0, 1 - width)
        return Limit(factor * past.median, f"history: {percent(width)} from the median of {past.runs} runs")


def _of_references(record: Record, info: RunInfo) -> Limit | None:
    found = compare_with_references(info, [record], None)
    if not found:
        return None
    least = found[0].lowest
    return Limit(least * (1 - TOLERANCE), f"references: {percent(TOLERANCE)} below the lowest, {found[0].range}")


def _of_peak(record: Record) -> Limit | None:
    share = share_of_peak(record)
    if share.bound is None or share.value is None or share.metric != record.figure:
        return None
    return Limit(LEAST_SHARE_OF_PEAK * share.bound, f"peak: {percent(LEAST_SHARE_OF_PEAK)} of {share.of}")


def judge_points(
    store: RunStore, info: RunInfo, resources: Mapping[str, GateResource], limits: LimitSources, include_noisy: bool
) -> list[GateCheck]:
    """Return the check of each planned point of a run, given the points' resources.

    A skipped point does not decide if another point of its resource was measured: the hardware lacks what the point
    needs, unless other nodes of the same hardware have measured it.
    """
    with collect_damage():  # the last line may be cut off if the process was killed
        records = {str(record.point): record for record in store.points()}
    measured = {resources[name] for name, record in records.items() if record.status == "measured"}
    checks = []
    for point in info.plan:
        name = str(point)
        record, resource = records.get(name), resources[name]
        if record is None:
            found = "not measured: no time was left"
            check = GateCheck(name=name, kind="measurement", resource=resource, status="unknown", found=found)
        else:
            check = judge_record(record, resource, info, limits, include_noisy)
            if record.status == "skipped" and resource in measured and not limits.expects(name):
                check = check.model_copy(update={"decides": False})
        checks.append(check)
    return checks


def judge_record(
    record: Record, resource: GateResource, info: RunInfo, limits: LimitSources, include_noisy: bool
) -> GateCheck:
    """Return the check of a point: its value compared with its limit.

    A value below the limit by less than its interval is a warning. A noisy value below the limit is unknown, because
    noise only makes a node slower. A PCIe link in use that is slower than card and slot support is a warning.
    """
    name = str(record.point)
    interval = record.rate_interval()
    if record.status != "measured" or interval is None:
        status: GateStatus = "fail" if record.status == "failed" else "unknown"
        return GateCheck(
            name=name, kind="measurement", resource=resource, status=status, found=record.reason or record.status
        )
    value, low, high = interval
    limit = limits.of(record, info)
    is_time = record.figure == "time"
    status, found, advice = "pass", quantity(value, record.unit), ""
    if limit is None:
        status, advice = "unknown", "learn limits from good nodes: accelbench baseline RUN... --out site.toml"
        found += ", no limit is known"
    else:
        found += f", limit {quantity(limit.value, record.unit)} ({limit.source})"
        below = value > limit.value if is_time else value < limit.value
        surely = low > limit.value if is_time else high < limit.value
        warned = limit.warn is not None and (value > limit.warn if is_time else value < limit.warn)
        if below and record.noise and not include_noisy:
            status, advice = "unknown", "repeat the gate when the node is idle"
            found += f"; noisy: {record.noise[0]}"
        elif below:
            status = "fail" if surely else "warn"
            advice = (
                "compare the node with its neighbours: accelbench fleet" if surely else "repeat with a longer --level"
            )
        elif warned:
            status = "warn"
    link = record.metrics.get(LINK_SHARE)
    if link is not None and link.value < WHOLE_LINK:
        found += f"; the PCIe link has {link.value:.0f} % of the bandwidth that card and slot support"
        status = "warn" if status == "pass" else status
        advice = advice or "reseat the card or riser, and check the slot's speed in the firmware setup"
    return GateCheck(
        name=name,
        kind="measurement",
        resource=resource,
        status=status,
        found=found,
        advice=advice,
        figure=record.figure,
        value=value,
        low=low,
        high=high,
        unit=record.unit,
        limit=limit.value if limit else None,
        source=limit.source if limit else "",
        repetitions=repetition_values(record, value),
        noise=record.noise,
    )


def repetition_values(record: Record, value: float) -> list[float]:
    """Return the value of each repetition of a record with this value, from the medians of their samples."""
    if record.timing is None or len(record.rounds) < 2:
        return [value]
    ratios = [each.summary.median / record.timing.execution.seconds for each in record.rounds]
    return [value * ratio if record.figure == "time" else value / ratio for ratio in ratios]
