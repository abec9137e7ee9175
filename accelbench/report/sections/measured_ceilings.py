"""The measured ceilings: the best rates of each device in the run, and the roofline of what stayed below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accelbench.format import read
from accelbench.report.section import InPage, Run, Section
from profiling.analysis.roofline import Ceiling, share_of_peak
from profiling.records.work import UNITS


def _content(measured: Sequence[Ceiling], run: Run) -> Mapping[str, Any]:
    from accelbench.report.roofline_plot import roofline

    devices = dict.fromkeys(record.point.device for record in run.records)
    drawings = [(device, roofline(device, run.rows, measured)) for device in devices]
    return {
        "readings": [(ceiling, read(ceiling.value, UNITS[ceiling.figure])) for ceiling in measured],
        "rooflines": [(device, drawing) for device, drawing in drawings if drawing],
        "share_of_peak": share_of_peak,
    }


section = Section(find=lambda run: run.ceilings, page=InPage(30, "ceilings", "Ceilings", _content))
