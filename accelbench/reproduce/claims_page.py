"""The page of a study: published values beside ours, drawings, verdicts with evidence, machines then and now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from accelbench import report
from accelbench.format import UNKNOWN, read
from accelbench.report.joined import Joined
from accelbench.report.page import templates
from accelbench.report.stored_run import Run
from accelbench.report.study import make_studies
from accelbench.report.study_plot import study_plot
from accelbench.reproduce.judging import Judgement, title
from accelbench.reproduce.paper import Hardware, Paper
from accelbench.reproduce.verdict import WORDS
from accelbench.writing import write_atomically
from profiling.machine.vendor_peaks import find_card
from profiling.records.work import UNITS


@dataclass(frozen=True)
class Drawing:
    """A drawing of one of the study's benchmarks against an axis."""

    title: str
    svg: Markup


@dataclass(frozen=True)
class Machine:
    """A machine then or now: what it is called, and its figures in words."""

    name: str
    figures: tuple[str, ...]


def write_page(judgement: Judgement, path: Path) -> Path:
    """Write the page to that path, whose folder is made if need be."""
    page = render(judgement)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomically(path, lambda new: new.write_text(page, encoding="utf-8"))


def render(judgement: Judgement) -> str:
    """Return the page as HTML text; it needs no network."""
    folder = Path(__file__).parent
    environment = templates(folder, *report.__path__)
    return environment.get_template("claims_page.html").render(
        paper=judgement.paper,
        judgement=judgement,
        words=WORDS,
        runs=[title(run) for run in judgement.runs],
        drawings=drawings(judgement.paper, judgement.runs),
        then=[_then(hardware) for hardware in judgement.paper.hardware],
        now=[_now(run) for run in judgement.runs],
        UNKNOWN=UNKNOWN,
    )


def drawings(paper: Paper, runs: Sequence[Run]) -> list[Drawing]:
    """Return the drawings of the study's trainings, all runs together."""
    placed = [(place, row) for place, row in Joined(tuple(runs)).rows if row.record.point.benchmark in paper.benchmarks]
    return [
        Drawing(f"{' and '.join(study.benchmarks)} against {sweep.axis}", study_plot(sweep, f"study-{n}-{m}"))
        for n, study in enumerate(make_studies(placed), start=1)
        for m, sweep in enumerate(study.sweeps, start=1)
    ]


def _then(hardware: Hardware) -> Machine:
    """Return a device of the study with its vendor's figures."""
    card = find_card(hardware.card) if hardware.card else None
    name = f"{hardware.called} ({hardware.device})"
    if card is None:
        return Machine(name, ("no vendor's figure is known of it",))
    peaks = ((f"{dtype} {unit}", value) for dtype, units in card.flops.items() for unit, value in units.items())
    flops = [f"{kind} {_reading(value, 'FLOP/s')}" for kind, value in peaks]
    memory = [f"memory {_reading(card.bandwidth, 'B/s')}"] if card.bandwidth else []
    return Machine(name, (f"{card.title}, by its vendor", *flops, *memory))


def _now(run: Run) -> Machine:
    """Return the machine of a run with the ceilings that it was measured at."""
    environment = run.info.environment
    gpus = ", ".join(gpu.name for gpu in environment.gpus)
    name = ", ".join(filter(None, [environment.cpu.model or "unknown CPU", f"{environment.cpu.usable} CPUs", gpus]))
    measured = [f"{c.device} {c.kind} {_reading(c.value, UNITS[c.figure])}" for c in run.ceilings]
    return Machine(f"{name} ({run.info.run_id})", tuple(measured) or ("this run measured no ceilings",))


def _reading(value: float, unit: str) -> str:
    reading = read(value, unit)
    return f"{reading.value} {reading.unit}"
