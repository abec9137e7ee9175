"""Analysis of a trace's raw events, as a program: `python -m accelbench.profiling.trace.events FILE CUT`."""

from __future__ import annotations

import sys
from pathlib import Path

from accelbench.profiling.records.trace import EventFindings
from accelbench.profiling.trace.breakdown import Activity
from accelbench.profiling.trace.formats import open_trace
from accelbench.profiling.trace.lines import Unreadable
from accelbench.profiling.trace.operations import longest, operations
from accelbench.profiling.trace.xplane import XplaneTrace

CUT_BYTES = 8_000_000
"""Maximum size in bytes of a trace for xprof, which needs 37 times the file's size of memory and 0.5 s per megabyte."""


def read_events(file: Path, cut: Path) -> EventFindings:
    """Return the findings in a trace, with errors in `unreadable`; write the first steps of a large trace to `cut`."""
    try:
        trace = open_trace(file)
        activity = Activity(trace)
        breakdown = activity.breakdown()
        table = longest(operations(trace))
    except Unreadable as error:
        return EventFindings(unreadable=str(error))
    found = EventFindings(
        size=trace.size,
        errors=trace.errors,
        devices=activity.devices,
        device_events=activity.device_events,
        breakdown=breakdown,
        **table,
        memory_peak_bytes=trace.memory_peak_bytes,
    )
    if not isinstance(trace, XplaneTrace) or trace.size <= CUT_BYTES or not breakdown:
        return found
    steps = max(1, breakdown.steps * CUT_BYTES // trace.size)
    trace.cut(int(activity.step_ends[steps - 1]), cut)
    return found.model_copy(update={"cut_steps": steps})


if __name__ == "__main__":
    print(read_events(Path(sys.argv[1]), Path(sys.argv[2])).model_dump_json())
