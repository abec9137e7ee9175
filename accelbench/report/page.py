"""`report.html`: one file that needs no network, rebuilt from the store alone and the same every time."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from accelbench.output import format as figures
from accelbench.output.plain_text import plain
from accelbench.report import sections
from accelbench.report.joined import Joined
from accelbench.report.rows import point_text
from accelbench.report.section import InPage, Run


def render_page(run: Run) -> str:
    """Return the whole page of a run as HTML text: the frame, and in it each section that has something to say."""
    return render_joined(Joined((run,)))


def render_joined(joined: Joined, table: str = "") -> str:
    """Return the page of several runs, whose head names them; of one run it is the page of that run.

    `table` is the file beside the page that has the records as a table, where there is one.
    """
    environment = _environment(joined)
    parts = _parts(joined, environment)
    return environment.get_template("report.html").render(joined=joined, parts=parts, table=table)


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


def _environment(joined: Joined) -> Environment:
    environment = templates(Path(__file__).parent, *sections.__path__)
    environment.filters |= {
        "bound": figures.bound,
        "counted": figures.counted,
        "digits": figures.digits,
        "metric": figures.metric,
        "quality_text": figures.quality_text,
        "percent": figures.percent,
        "point": point_text,
        "scientific": figures.scientific,
        "seconds": figures.seconds,
        "share": figures.share,
    }
    points = [record.point for run in joined.runs for record in run.records]
    environment.globals |= {
        "run": joined.alone,
        "UNKNOWN": figures.UNKNOWN,
        "several_devices": len({point.device for point in points}) > 1,
        "several_backends": len({point.backend for point in points if point.backend}) > 1,
    }
    return environment


def _plain(value: object) -> object:
    """Return what a template shows, any text of it plain; what is markup is made of such texts already."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _parts(joined: Joined, environment: Environment) -> list[tuple[InPage, Markup]]:
    """Return the page's part of each section that finds something, in the order of the page."""
    parts = []
    of_study = any(run.info.study for run in joined.runs)
    for section in sections.PAGE_OF_STUDY if of_study else sections.PAGE:
        if (page := section.page) and (found := section.found(joined)):
            is_file = page.template.endswith(".html")
            template = (environment.get_template if is_file else environment.from_string)(page.template)
            parts.append((page, Markup(template.render(found=found[0], **page.content(*found)))))
    return parts
