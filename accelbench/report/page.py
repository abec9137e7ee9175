"""`report.html`: one file that needs no network, rebuilt from the store alone and the same every time."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from accelbench import format as figures
from accelbench.report import plots, telemetry
from accelbench.report.machine import machine
from accelbench.report.profile import Profiled, profiled
from accelbench.report.roofline_plot import roofline
from accelbench.report.rows import Group, Row, count_text, make_groups, make_rows, point_text, reproduce, trained_on
from accelbench.report.scaling import PARTS, efficiency_text, exchange_text, part_values, scaling_tables
from accelbench.report.scaling_plot import scaling_plot
from accelbench.report.strategies import comparisons
from accelbench.report.strategies_plot import strategies_plot
from accelbench.report.study import Study, Sweep, make_studies
from accelbench.report.study_plot import study_plot
from accelbench.report.sweep_plot import sweep
from accelbench.report.verdict import shares_text, verdict
from accelbench.run.store import RunInfo
from profiling.analysis.roofline import Ceiling, ceilings, share_of_peak
from profiling.records.record import Record
from profiling.records.work import UNITS

TAIL_LINES = 40


@dataclass(frozen=True)
class Section:
    """A benchmark's part of the page: its rows and its drawings."""

    group: Group
    slug: str
    sweep: Markup | None
    """The figure against the size that the points sweep, where they do."""
    samples: Markup
    curves: tuple[tuple[Row, Markup], ...]
    profiles: tuple[Profiled, ...]
    """Of the rows that were profiled."""
    notes: tuple[str, ...]
    """Why a share is unknown, and what the flags mean."""


def render_page(info: RunInfo, records: Sequence[Record]) -> str:
    """The whole page as HTML text."""
    measured = ceilings(records)
    rows = make_rows(records)
    groups = make_groups(rows)
    environment = Environment(
        loader=PackageLoader("accelbench.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "bound": figures.bound,
        "digits": figures.digits,
        "efficiency_text": efficiency_text,
        "exchange_text": exchange_text,
        "metric": figures.metric,
        "percent": figures.percent,
        "part_values": part_values,
        "plain": figures.plain,
        "point": point_text,
        "scientific": figures.scientific,
        "seconds": figures.seconds,
        "share": figures.share,
        "share_of_peak": share_of_peak,
        "shares_text": shares_text,
        "trained_on": trained_on,
        "verdict": verdict,
    }
    return environment.get_template("report.html").render(_content(info, records, measured, rows, groups))


def _content(
    info: RunInfo, records: Sequence[Record], measured: Sequence[Ceiling], rows: Sequence[Row], groups: Sequence[Group]
) -> dict[str, Any]:
    devices = list(dict.fromkeys(record.point.device for record in records))
    return {
        "info": info,
        "created": info.created.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "counts": count_text(info, records),
        "failed": [record for record in records if record.status == "failed"],
        "skipped": [record for record in records if record.status == "skipped"],
        "missing": max(0, len(info.plan) - len(records)),
        "noisy": [(group, row) for group in groups for row in group.rows if row.flags],
        "machine": machine(info),
        "ceilings": [(ceiling, figures.read(ceiling.value, UNITS[ceiling.figure])) for ceiling in measured],
        "rooflines": [(device, drawing) for device in devices if (drawing := roofline(device, rows, measured))],
        "studies": [(s, _drawings(s, n)) for n, s in enumerate(make_studies(groups), start=1)],
        "scalings": [(t, scaling_plot(t, f"scaling-{n}")) for n, t in enumerate(scaling_tables(records), start=1)],
        "comparisons": [
            (c, strategies_plot(c, f"strategies-{n}")) for n, c in enumerate(comparisons(records), start=1)
        ],
        "PARTS": PARTS,
        "sections": [_section(group, number, info) for number, group in enumerate(groups, start=1)],
        "telemetry": telemetry.tables(rows),
        "UNKNOWN": figures.UNKNOWN,
        "TAIL_LINES": TAIL_LINES,
        "command": lambda record: reproduce(record, info.settings),
        "whole_run": figures.plain(shlex.join(info.command)),
        "several_devices": len(devices) > 1,
        "several_backends": len({record.point.backend for record in records if record.point.backend}) > 1,
    }


def _drawings(study: Study, number: int) -> list[tuple[Sweep, Markup]]:
    return [(sweep, study_plot(sweep, f"study-{number}-{place}")) for place, sweep in enumerate(study.sweeps, start=1)]


def _section(group: Group, number: int, info: RunInfo) -> Section:
    slug = f"benchmark-{number}"
    curves = []
    for place, row in enumerate(group.rows, start=1):
        drawing = plots.training_curves(row.record, f"{slug}-curves-{place}")
        if drawing is not None:
            curves.append((row, drawing))
    return Section(
        group,
        slug,
        sweep(group, info.environment, f"{slug}-sweep"),
        plots.samples(group, f"{slug}-samples"),
        tuple(curves),
        tuple(
            found
            for n, row in enumerate(group.rows, start=1)
            if (found := profiled(row, f"{slug}-profile-{n}", info.run_id))
        ),
        tuple(_notes(group)),
    )


def _notes(group: Group) -> list[str]:
    if not group.bounded:
        return []
    reasons = {
        "vendor's peak": [row.of_peak.reason for row in group.rows],
        "measured ceiling": [row.of_ceiling.reason for row in group.rows],
    }
    return [
        f"Share of the {name} unknown: {figures.plain(reason)}."
        for name, found in reasons.items()
        for reason in dict.fromkeys(found)
        if reason is not None
    ]
