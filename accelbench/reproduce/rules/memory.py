"""The rule about what a lack of memory costs: of the host, and of the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from accelbench.reproduce.evidence import Evidence, Seen, by_machine, by_setting
from accelbench.reproduce.points import Points, value_of
from accelbench.reproduce.rules.rule import ONE, Rule
from accelbench.reproduce.times import Pair, above
from accelbench.reproduce.verdict import CannotTell, Finding, Part, decided


class MemoryMattersLess(Rule):
    """A training loses less by half of one memory than by half of another, for lack of which it fails or is slower."""

    takes = ONE
    name: Literal["memory-matters-less"]
    axis: str
    """The axis that says which memory is held back."""
    less: str
    """The value of that axis for the memory that matters less."""
    more: str

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge the time with half of one memory over that with half of the other, or that only one of both failed."""
        (points,) = asked
        found = evidence.find_on_any(points)
        failed = [
            seen for seen in evidence.seen if points.ask_for(seen.record.point) and seen.record.status == "failed"
        ]
        settings, lost = by_setting(found, points, self.axis), by_setting(failed, points, self.axis)
        parts = [
            part
            for setting in dict.fromkeys([*settings, *lost])
            for machine in by_machine([*settings.get(setting, []), *lost.get(setting, [])]).values()
            if (part := self._part(" ".join(setting), machine))
        ]
        if not parts:
            wanted = f"{points.benchmark} with {self.axis} {self.less} and {self.more}"
            raise CannotTell("no such point", f"no such points in these runs: {wanted}")
        return decided(parts, f"half of the {self.less} costs less than half of the {self.more}")

    def _part(self, name: str, machine: Sequence[Seen]) -> Part | None:
        """Return which half costs more; None unless both were tried."""
        less, more = (
            tuple(seen for seen in machine if value_of(seen.record.point, self.axis) == value)
            for value in (self.less, self.more)
        )
        if not less or not more:
            return None
        lost_less, lost_more = ([seen for seen in side if seen.record.status == "failed"] for side in (less, more))
        if lost_less and lost_more:
            why = f"it failed with half of either: {lost_less[0].record.reason}"
            return Part(f"{name}: {why}", None, "", "not measured", why)
        if lost_less or lost_more:
            (broken, *_), which = lost_less or lost_more, self.less if lost_less else self.more
            text = f"{name}: it failed with half of the {which}: {broken.record.reason}"
            return Part(text, bool(lost_more), f"failed with half of the {which}")
        return above(
            Pair(name, more, less).ratio(), 1.0, f"{name}, half of the {self.more} over half of the {self.less}"
        )
