"""`report.html`: one file that needs no network, rebuilt from the store alone and the same every time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from accelbench import format as figures
from accelbench.report import sections as folder
from accelbench.report.rows import count_text, disturbed_records, point_text
from accelbench.report.section import InPage, Run, sections
from accelbench.run.store import RunInfo
from profiling.records.record import Record


def render_page(info: RunInfo, records: Sequence[Record]) -> str:
    """Return the whole page as HTML text: the frame, and in it each section that has something to say."""
    run = Run(info, records)
    environment = _environment(run)
    return environment.get_template("report.html").render(
        info=info,
        parts=_parts(run, environment),
        created=info.created.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        counts=count_text(info, records),
        state="bad" if run.of_status("failed") else "disturbed" if disturbed_records(records) else "good",
    )


def _environment(run: Run) -> Environment:
    environment = Environment(
        loader=FileSystemLoader([Path(__file__).parent, *folder.__path__]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "bound": figures.bound,
        "digits": figures.digits,
        "metric": figures.metric,
        "quality_text": figures.quality_text,
        "percent": figures.percent,
        "plain": figures.plain,
        "point": point_text,
        "scientific": figures.scientific,
        "seconds": figures.seconds,
        "share": figures.share,
    }
    environment.globals |= {
        "run": run,
        "UNKNOWN": figures.UNKNOWN,
        "several_devices": len({record.point.device for record in run.records}) > 1,
        "several_backends": len({record.point.backend for record in run.records if record.point.backend}) > 1,
    }
    return environment


def _parts(run: Run, environment: Environment) -> list[tuple[InPage, Markup]]:
    """Return the page's part of each section that finds something, in the order of the page."""
    there = [(section.page, name, section.find) for name, section in sections().items() if section.page]
    parts = []
    for page, name, find in sorted(there, key=lambda part: (part[0].order, part[1])):
        if found := find(run):
            inline, beside = page.template, f"{name}.html"
            template = environment.from_string(inline) if inline else environment.get_template(beside)
            parts.append((page, Markup(template.render(found=found, **page.content(found, run)))))
    return parts
