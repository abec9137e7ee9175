"""`report.html`: one file that needs no network, rebuilt from the store alone and the same every time."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from accelbench import format as figures
from accelbench.plain_text import plain
from accelbench.report import sections as folder
from accelbench.report.rows import point_text
from accelbench.report.section import InPage, Run, sections


def render_page(run: Run) -> str:
    """Return the whole page as HTML text: the frame, and in it each section that has something to say."""
    environment = _environment(run)
    return environment.get_template("report.html").render(
        info=run.info,
        parts=_parts(run, environment),
        created=run.info.created.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        counts=run.counts_text,
        state="bad" if run.counts.failed else "disturbed" if run.counts.disturbed else "good",
    )


def templates(*folders: str | Path) -> Environment:
    """Return the templates of these folders, in which every text is escaped and plain."""
    return Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        finalize=_plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _environment(run: Run) -> Environment:
    environment = templates(Path(__file__).parent, *folder.__path__)
    environment.filters |= {
        "bound": figures.bound,
        "digits": figures.digits,
        "metric": figures.metric,
        "quality_text": figures.quality_text,
        "percent": figures.percent,
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


def _plain(value: object) -> object:
    """Return what a template shows, any text of it plain; what is markup is made of such texts already."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


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
