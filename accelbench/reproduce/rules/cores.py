"""Rules about the host's cores: a device against so many of them, and how many a device needs beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Literal

from accelbench.format import digits
from accelbench.reproduce.evidence import Evidence, Seen, by_machine, by_setting, unlike
from accelbench.reproduce.points import HOST_CORES, Points
from accelbench.reproduce.rules.rule import ONE, Rule
from accelbench.reproduce.times import Pair
from accelbench.reproduce.verdict import CannotTell, Finding, Part, decided
from accelbench.run.affinity import granted
from profiling.analysis.core_counts import MIN_COUNTS
from profiling.analysis.cores_law import Cores, Law, needed_cores


class FasterThanCores(Rule):
    """The second device is faster than so many physical cores of the first one, which is a CPU.

    Where the CPU has fewer, the law of cores predicts what so many would reach, and the verdict says so.
    """

    takes = ONE
    devices = 2
    needs_swept = True
    name: Literal["faster-than-cores"]
    cores: int

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge by a CPU of so many cores where there is one, and else by the law."""
        (points,) = asked
        cpu, device, *_ = points.devices
        host = evidence.find(points, cpu)
        other = evidence.find(points.model_copy(update={"swept": None}), device)
        enough = tuple(seen for seen in host if self._has_the_cores(seen))
        if enough:
            parts = [
                Pair(" ".join(setting), tuple(a), tuple(b)).part()
                for setting, many in by_setting(enough, points).items()
                for a in by_machine(many).values()
                for b in by_machine(by_setting(other, points).get(setting, [])).values()
            ]
            if not parts:
                raise unlike(enough, other, points)
            return decided(parts, f"{self.cores} cores take longer")
        return self._predicted(points, host, other)

    def _has_the_cores(self, seen: Seen) -> bool:
        """Tell whether so many physical cores measured the point, no more and no fewer."""
        cpu, kept = seen.run.info.environment.cpu, seen.record.point.host_cores
        physical = cpu.cores or 0
        return kept == self.cores <= physical if kept else physical == self.cores <= cpu.usable

    def _predicted(self, points: Points, host: Sequence[Seen], other: Sequence[Seen]) -> Finding:
        lines: list[str] = []
        words: set[bool | None] = set()
        why = ""
        for setting, many in by_setting(host, points).items():
            rivals = by_setting(other, points).get(setting, [])
            for machine, series in by_machine(many).items():
                found = _needed(series)
                if found is None or not rivals:
                    continue
                if found.one_core is None or found.serial is None or found.reason:
                    why = found.sentence()
                    continue
                law = Law(found.one_core, found.serial, inf if found.limit is None else found.limit)
                at_cores = law.rate(self.cores)
                for seen in rivals:
                    assert seen.record.timing is not None
                    rates = sorted(seen.record.items_timed / end for end in seen.record.timing.execution[1:3])
                    holds = True if rates[0] > at_cores else False if rates[1] < at_cores else None
                    words.add(holds)
                    rate, unit = digits(at_cores), seen.record.unit
                    lines.append(
                        f"{' '.join(setting)}: {rate} {unit} on {self.cores} cores, {machine}, predicted from "
                        f"{found.measured_up_to}; measured {digits(rates[0])}–{digits(rates[1])} on {seen.machine}"
                    )
        if words in ({True}, {False}):
            told = "the device is faster than" if words == {True} else "the device is not faster than"
            why = f"by the law of cores {told} {self.cores} cores would be; so many were not measured"
            return Finding("predicted", why, None, lines[0].partition(": ")[2].partition(";")[0], tuple(lines))
        if lines:
            why = f"the prediction for {self.cores} cores lies within the interval of what was measured"
            raise CannotTell("interval too wide", why, lines)
        most = max(seen.run.info.environment.cpu.cores or seen.run.info.environment.cpu.usable for seen in host)
        wanted = f"a series of {MIN_COUNTS} numbers of them ('accelbench cores {points.benchmark}')"
        why = why or f"the law of cores takes {wanted}"
        raise CannotTell("other hardware class", f"{most} physical cores and not {self.cores}; {why}")


class MoreCoresNeeded(Rule):
    """The device needs more host cores than its runtime has, and waits for input or for work to be started."""

    needs_swept = True
    name: Literal["more-cores-needed"]

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge each training that was measured on several numbers of host cores beside a device."""
        parts: list[Part] = []
        notes: list[CannotTell] = []
        for points in asked:
            try:
                seen = evidence.find_on_any(points)
            except CannotTell as found:
                notes.append(found)
                continue
            for setting, many in by_setting(seen, points).items():
                for machine, series in by_machine(many).items():
                    if needed := _needed(series):
                        parts.append(_part(f"{' '.join(setting)} on {machine}", needed, series))
        if not parts:
            why = "no training beside a device was measured on several numbers of host cores ('accelbench cores')"
            raise notes[0] if notes else CannotTell("no such point", why)
        return decided(parts, "it needs more cores than there are", [note.why for note in notes])


def _part(name: str, needed: Cores, series: Sequence[Seen]) -> Part:
    most = max(series, key=lambda seen: seen.record.point.host_cores or 0)
    bound = most.record.profile.bottleneck.bound if most.record.profile else None
    text = f"{name}: {needed.sentence()}; {bound or 'what holds it back is unknown'}"
    figure = f"{needed.knee} cores" if needed.knee else f"more than {needed.measured_up_to} cores"
    if needed.answer == "reached" and needed.knee is not None and needed.knee <= needed.cores:
        return Part(text, False, figure)
    if needed.answer == "cannot tell":
        return Part(text, None, "", "interval too wide", needed.sentence())
    if bound in ("input-bound", "dispatch-bound"):
        return Part(text, True, figure)
    why = f"more cores would help, and yet it is {bound or 'not known what holds it back'}"
    return Part(text, None, figure, "proves nothing", why)


def _needed(series: Sequence[Seen]) -> Cores | None:
    """Return how many cores a training needs by a series of points of one machine; None where there is no series."""
    cpu, limits = series[0].run.info.environment.cpu, series[0].run.info.environment.limits
    rates = _rates([seen for seen in series if seen.record.point.host_cores])
    return needed_cores(rates, granted(cpu.usable, limits.cpu_quota)) if len(rates) > 1 else None


def _rates(series: Sequence[Seen]) -> Mapping[int, list[float]]:
    """Return the items per second of each block of steps, by the number of host cores."""
    rates: dict[int, list[float]] = {}
    for seen in series:
        cores, timing = seen.record.point.values[HOST_CORES], seen.record.timing
        assert isinstance(cores, int)
        assert timing is not None
        rates.setdefault(cores, []).extend(seen.record.items_timed / seconds for seconds in timing.costs)
    return rates
