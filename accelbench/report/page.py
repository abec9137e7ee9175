"""`report.html`: a self-contained page, reproducible from the stored run."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from accelbench.output import format as formats
from accelbench.output.plain_text import plain
from accelbench.profiling.records.stored import readable
from accelbench.report import sections
from accelbench.report.joined import Joined
from accelbench.report.rows import point_text
from accelbench.report.section import InPage, Run


def render_page(run: Run) -> str:
    """Return the page of a run as HTML text."""
    return render_joined(Joined((run,)))


def render_joined(joined: Joined, table: str = "") -> str:
    """Return the page of one or several runs as HTML text; `table` is the name of the CSV file to link, if any."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it warns where the user has no home for its cache
    environment = _environment(joined)
    parts = _parts(joined, environment)
    return environment.get_template("report.html").render(joined=joined, parts=parts, table=table)


def templates(*folders: str | Path) -> Environment:
    """Return the Jinja environment of these directories; it escapes all text and removes control characters."""
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        finalize=_plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["urlencode"] = _address  # the names of files need not be UTF-8
    return environment


def _environment(joined: Joined) -> Environment:
    environment = templates(Path(__file__).parent, *sections.__path__)
    environment.filters |= {
        "bound": formats.bound,
        "counted": formats.counted,
        "digits": formats.digits,
        "metric": formats.metric,
        "quality_text": formats.quality_text,
        "percent": formats.percent,
        "point": point_text,
        "scientific": formats.scientific,
        "seconds": formats.seconds,
        "share": formats.share,
    }
    points = [record.point for run in joined.runs for record in run.records]
    environment.globals |= {
        "run": joined.single,
        "UNKNOWN": formats.UNKNOWN,
        "several_devices": len({point.device for point in points}) > 1,
        "several_backends": len({point.backend for point in points if point.backend}) > 1,
    }
    return environment


def _plain(value: object) -> object:
    """Return the value without control characters; markup is built from such text already."""
    return readable(plain(value)) if isinstance(value, str) and not isinstance(value, Markup) else value


def _address(name: str) -> str:
    return quote(os.fsencode(name))


def _parts(joined: Joined, environment: Environment) -> list[tuple[InPage, Markup]]:
    """Return the rendered part of each section with content, in the order of the page."""
    parts = []
    of_study = any(run.info.study for run in joined.runs)
    for section in sections.PAGE_OF_STUDY if of_study else sections.PAGE:
        if (page := section.page) and (found := section.found(joined)):
            is_file = page.template.endswith(".html")
            template = (environment.get_template if is_file else environment.from_string)(page.template)
            parts.append((page, Markup(template.render(found=found[0], **page.content(*found)))))
    return parts
