"""The rule about what several processes spend on each other in a training step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from accelbench.format import percent
from accelbench.reproduce.evidence import Evidence, Seen
from accelbench.reproduce.points import Points
from accelbench.reproduce.rules.rule import ONE, Rule
from accelbench.reproduce.verdict import CannotTell, Finding, Part, decided
from profiling.timing.statistics import median_interval


class OverheadLeft(Rule):
    """A step of several processes is longer than its computing: by exchange, by waiting for others, and for input."""

    takes = ONE
    name: Literal["overhead-left"]

    def judge(self, asked: Sequence[Points], evidence: Evidence) -> Finding:
        """Judge each training whose step was taken apart."""
        (points,) = asked
        parts = [part for seen in evidence.find_on_any(points) if (part := _part(seen))]
        if not parts:
            raise CannotTell("no such point", f"these runs have no step of {points} that was taken apart")
        return decided(parts, "a part of the step is overhead")


def _part(seen: Seen) -> Part | None:
    """Return whether the step exceeds rank 0's computing beyond both intervals; None where it was not taken apart."""
    record, parts = seen.record, seen.record.parts
    first = record.seen or next((rank.seen for rank in record.ranks if rank.seen), None)
    if parts is None or first is None or record.timing is None or not first.apart_s:
        return None
    step, apart = record.timing.summary, median_interval(first.apart_s)
    low = (step.ci_low - (apart.high - parts.input_s)) / parts.step_s
    high = (step.ci_high - (apart.low - parts.input_s)) / parts.step_s
    whole = {"exchange": parts.exposed_s, "waiting for the slowest": parts.wait_s, "input": parts.input_s}
    largest = max(whole, key=lambda name: whole[name])
    figure = f"{percent(sum(whole.values()) / parts.step_s)} ({percent(low)} to {percent(high)})"
    text = (
        f"{record.point}: overhead {figure} of a step; the largest is {largest} "
        f"with {percent(whole[largest] / parts.step_s)}"
    )
    holds = True if low > 0 else False if high <= 0 else None
    return Part(text, holds, figure, why=f"the overhead, {percent(low)} to {percent(high)} of a step, may be none")
