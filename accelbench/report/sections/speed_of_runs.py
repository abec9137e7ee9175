"""Section of a joint report: the best results of each run, and its mean speed relative to the first run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from accelbench.output.format import counted, digits
from accelbench.report.answer import answer
from accelbench.report.joined import Joined
from accelbench.report.section import InPage, Section

MAX_RUNS = 8
"""Maximum number of runs in the summary."""
TEMPLATE = """\
<section id="speed" class="answer" aria-labelledby="speed-title">
<h2 id="speed-title">Speed</h2>
<dl>
{% for one in found.runs %}
<div><dt>{{ one.label }}</dt><dd>{{ one.speed }}
{% if one.relative %}
<br><small>{{ one.relative }}</small>
{% endif %}
</dd></div>
{% endfor %}
</dl>
{% if found.more %}<p class="note">{{ found.more }} more runs are below.</p>{% endif %}
</section>
"""


@dataclass(frozen=True)
class RunSpeed:
    """Speed of a run as text."""

    label: str
    speed: str
    """Best results of the run."""
    relative: str
    """Geometric means of its speeds relative to the first run; empty for that run and without common points."""


@dataclass(frozen=True)
class SpeedOfRuns:
    """Speeds of the first runs, and the number of further ones."""

    runs: Sequence[RunSpeed]
    more: int


def _find(joined: Joined) -> SpeedOfRuns | None:
    if joined.single:
        return None
    from accelbench.report.same_points import SpeedMean, speed_means  # not needed for a single run

    means: dict[str, list[SpeedMean]] = {}
    for mean in speed_means(joined):
        if mean.overall:
            means.setdefault(mean.place, []).append(mean)
    runs = []
    for label, run in joined.labelled[:MAX_RUNS]:
        summary = answer(run)
        parts = [f"{mean.of} × {digits(mean.value)} ({counted(mean.points, 'point')})" for mean in means.get(label, [])]
        relative = f"Mean speed relative to {joined.labels[0]}: {', '.join(parts)}." if parts else ""
        runs.append(RunSpeed(label, summary.speed if summary else "No result.", relative))
    return SpeedOfRuns(runs, len(joined.runs) - len(runs))


def _print(found: SpeedOfRuns, console: Console) -> None:
    console.print()
    for one in found.runs:
        console.print(Text(f"Speed of {one.label}", style="bold"))
        console.print(Padding(Text(one.speed), (0, 0, 0, 2)))
        if one.relative:
            console.print(Padding(Text(one.relative, style="dim"), (0, 0, 0, 2)))
    if found.more:
        console.print(Text(f"{found.more} more runs: see the report", style="dim"))
    console.print()


section = Section(find_joined=_find, page=InPage(TEMPLATE, "speed", "Speed"), terminal=_print)
