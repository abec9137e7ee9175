"""Section of the measured ceilings: the highest rates of each device in its run, and rooflines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from accelbench.output.format import read
from accelbench.profiling.analysis.roofline import Ceiling, share_of_peak
from accelbench.profiling.records.work import UNITS
from accelbench.report.joined import Joined
from accelbench.report.section import InPage, Section


@dataclass(frozen=True)
class CeilingOfRuns:
    """Row of the joint table: ceilings of one kind."""

    kind: str
    device: str
    """Device, if the runs have ceilings of several devices; else empty."""
    of_runs: tuple[Ceiling | None, ...]
    """Ceiling of each run; None for a run without it."""


def _of_runs(joined: Joined) -> list[CeilingOfRuns]:
    """Return the ceilings of several runs by kind, in the order in which the runs have them."""
    found: dict[tuple[str, str], list[Ceiling | None]] = {}
    for number, run in enumerate(joined.runs):
        for ceiling in run.ceilings:
            found.setdefault((ceiling.kind, ceiling.device), [None] * len(joined.runs))[number] = ceiling
    several = len({device for _, device in found}) > 1
    return [CeilingOfRuns(kind, device if several else "", tuple(row)) for (kind, device), row in found.items()]


def _content(measured: Sequence[tuple[str, Ceiling]], joined: Joined) -> Mapping[str, Any]:
    return {
        "several": not joined.single,
        "labels": joined.labels,
        "of_runs": _of_runs(joined),
        "read": lambda ceiling: read(ceiling.value, UNITS[ceiling.metric]),
        "taken_over": joined.runs[0].ceilings_from,
        "below_best": [(label, run.below_best) for label, run in joined.labelled if run.below_best],
        "readings": [(place, ceiling, read(ceiling.value, UNITS[ceiling.metric])) for place, ceiling in measured],
        "rooflines": [] if joined.single else list(draw_rooflines(joined)),
        "doubted": [(place, ceiling) for place, ceiling in measured if ceiling.doubt],
        "share_of_peak": share_of_peak,
        "knows_peak": any(share_of_peak(ceiling.record).value is not None for _, ceiling in measured),
    }


def draw_rooflines(joined: Joined) -> Iterator[tuple[str, bool, Markup]]:
    """Yield the caption, whether there are several rooflines, and the drawing.

    Each device of a single run has its own drawing; several runs share drawings of at most `TOGETHER` rooflines.
    """
    rooflines = joined.rooflines
    if not rooflines:
        return
    from accelbench.report.roofline_plot import TOGETHER, roofline_plot

    drawings = len(rooflines) if joined.single else math.ceil(len(rooflines) / TOGETHER)
    for number in range(drawings):
        begin, end = (len(rooflines) * place // drawings for place in (number, number + 1))
        drawn = rooflines[begin:end]
        places = ", ".join(one.place for one in drawn)
        several = len(drawn) > 1
        what = f"Rooflines of {places}" if several else f"Roofline of the {places}"
        yield what, several, roofline_plot(drawn, f"roofline-{number + 1}")


section = Section(
    find_joined=lambda joined: joined.ceilings, page=InPage("measured_ceilings.html", "ceilings", "Ceilings", _content)
)
