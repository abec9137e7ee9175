"""Predicates about host cores: a device compared with a number of CPU cores, and the number of cores a device needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Literal

from accelbench.execution.affinity import granted
from accelbench.output.format import digits
from accelbench.profiling.analysis.cores_law import MIN_COUNTS, Cores, Law, needed_cores
from accelbench.report.bottleneck_text import UNKNOWN_BOUND
from accelbench.reproduce.claim_verdict import ClaimPart, Finding, Inconclusive, decided
from accelbench.reproduce.observations import (
    HOST_CORES,
    Observation,
    Observations,
    PointSelection,
    by_machine,
    by_setting,
    differing,
)
from accelbench.reproduce.pairs import ObservationPair, above
from accelbench.reproduce.rules import Rule


class FasterThanCoresRule(Rule):
    """Claim that the second device is faster than a number of physical CPU cores, measured or predicted from fewer."""

    needs_swept = True
    name: Literal["faster-than-cores"]
    cores: int

    @property
    def least_devices(self) -> int:
        return 2

    def judge(self, selections: Sequence[PointSelection], observations: Observations) -> Finding:
        """Return the verdict from a CPU with that number of cores, or from a prediction without one."""
        parts: list[ClaimPart] = []
        for points in selections:
            cpu, device, *_ = points.devices
            host = observations.find(points, cpu)
            other = observations.find(points.model_copy(update={"swept": None}), device)
            enough = [each for each in host if self._has_the_cores(each)]
            if not enough:
                return self._predicted(points, host, other)
            rivals = by_setting(other, points)
            for setting, many in by_setting(enough, points).items():
                for a in by_machine(many).values():
                    for b in by_machine(rivals.get(setting, [])).values():
                        pair = ObservationPair(" ".join(setting), tuple(a), tuple(b))
                        try:
                            parts.append(above(pair.ratio(), 1.0, f"{pair.name}, {pair.devices}"))
                        except Inconclusive as found:
                            parts.append(found.part)
            if not parts:
                raise differing(enough, other, points)
        return decided(parts, f"{self.cores} cores are slower")

    def _has_the_cores(self, each: Observation) -> bool:
        """Return whether the point was measured on exactly that number of physical cores."""
        cpu, kept = each.run.info.environment.cpu, each.point.host_cores
        physical = cpu.cores or 0
        return kept == self.cores <= physical if kept else physical == self.cores <= cpu.usable

    def _predicted(self, points: PointSelection, host: Sequence[Observation], other: Sequence[Observation]) -> Finding:
        lines: list[str] = []
        faster: set[bool | None] = set()
        why = f"a prediction needs results with {MIN_COUNTS} numbers of cores ('accelbench cores {points.benchmark}')"
        rivals = by_setting(other, points)
        for setting, many in by_setting(host, points).items():
            for machine, series in by_machine(many).items():
                found = _needed(series)
                if found is None or setting not in rivals:
                    continue
                if found.one_core is None or found.serial is None or found.reason:
                    why = found.sentence()
                    continue
                at_cores = Law(found.one_core, found.serial, inf if found.limit is None else found.limit).rate(
                    self.cores
                )
                for each in rivals[setting]:
                    assert each.record.timing is not None
                    rates = sorted(each.record.items_timed / end for end in each.record.timing.execution[1:3])
                    faster.add(True if rates[0] > at_cores else False if rates[1] < at_cores else None)
                    lines.append(
                        f"{' '.join(setting)}: {digits(at_cores)} {each.record.unit} on {self.cores} cores, {machine}, "
                        f"predicted from {found.measured_up_to}; measured {digits(rates[0])}–{digits(rates[1])} "
                        f"on {each.machine}"
                    )
        if faster in ({True}, {False}):
            answer = f"the device is {'not ' * (faster == {False})}faster than {self.cores} cores"
            ours = lines[0].partition(": ")[2].partition(";")[0]
            return Finding("predicted", f"predicted from fewer cores: {answer}", None, ours, tuple(lines))
        if lines:
            why = f"the prediction for {self.cores} cores lies within the interval of the measurement"
            raise Inconclusive("interval too wide", why, lines)
        most = max(each.run.info.environment.cpu.cores or each.run.info.environment.cpu.usable for each in host)
        raise Inconclusive("other hardware class", f"{most} instead of {self.cores} physical cores; {why}")


class NeedsCoresRule(Rule):
    """Claim that the device needs more host cores than its runtime has: it is input-bound or dispatch-bound."""

    needs_swept = True
    name: Literal["needs-cores"]

    def judge(self, selections: Sequence[PointSelection], observations: Observations) -> Finding:
        """Return the verdict from each training workload measured on a device with several numbers of host cores."""

        def find(points: PointSelection) -> tuple[list[ClaimPart], list[str]]:
            series = [
                (f"{' '.join(setting)} on {machine}", same)
                for setting, many in by_setting(observations.find_on_any(points), points).items()
                for machine, same in by_machine(many).items()
            ]
            return [_part(name, needed, same) for name, same in series if (needed := _needed(same))], []

        parts, notes = self.collect(selections, find)
        if not parts:
            why = "no training workload was measured with several numbers of host cores ('accelbench cores')"
            raise Inconclusive("no such point", why)
        return decided(parts, "more cores are needed than available", notes)


def _part(name: str, needed: Cores, series: Sequence[Observation]) -> ClaimPart:
    most = max(series, key=lambda each: each.point.host_cores or 0)
    bound = most.record.profile.bottleneck.bound if most.record.profile else None
    text = f"{name}: {needed.sentence()}; {bound or UNKNOWN_BOUND}"
    metric = f"{needed.knee} cores" if needed.knee else f"more than {needed.measured_up_to} cores"
    if needed.answer == "reached" and needed.knee is not None and needed.knee <= needed.cores:
        return ClaimPart(text, False, metric)
    if needed.answer not in ("reached", "not reached"):
        return ClaimPart(text, None, "", "interval too wide", needed.sentence())
    if bound in ("input-bound", "dispatch-bound"):
        return ClaimPart(text, True, metric)
    return ClaimPart(text, None, metric, "proves nothing", f"more cores help, but it is {bound or UNKNOWN_BOUND}")


def _needed(series: Sequence[Observation]) -> Cores | None:
    """Return the number of cores that a training workload needs; None unless several numbers were measured."""
    cpu, limits = series[0].run.info.environment.cpu, series[0].run.info.environment.limits
    rates = _rates(series)
    return needed_cores(rates, granted(cpu.usable, limits.cpu_quota)) if len(rates) > 1 else None


def _rates(series: Sequence[Observation]) -> Mapping[int, list[float]]:
    """Return the items per second of each block of steps, by the number of host cores."""
    rates: dict[int, list[float]] = {}
    for each in series:
        cores, timing = each.point.values.get(HOST_CORES), each.record.timing
        if isinstance(cores, int) and timing is not None:
            rates.setdefault(cores, []).extend(each.record.items_timed / seconds for seconds in timing.costs)
    return rates
