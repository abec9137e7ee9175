"""Page of a study: published and measured values, plots, verdicts with evidence, and hardware of the study and now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accelbench import report
from accelbench.history.fingerprint import fingerprint
from accelbench.output.atomic_file import write_atomically
from accelbench.output.format import UNKNOWN, read
from accelbench.profiling.analysis.roofline import Ceiling
from accelbench.profiling.machine.vendor_peaks import find_card
from accelbench.profiling.records.work import UNITS
from accelbench.report.causes import BOUND, NOISY
from accelbench.report.joined import Joined
from accelbench.report.page import templates
from accelbench.report.sections.costs import CostTable
from accelbench.report.stored_run import Run
from accelbench.report.study import Study, make_studies
from accelbench.report.study_plot import draw_studies
from accelbench.reproduce.claims_plot import claims_plot
from accelbench.reproduce.judging import StudyVerdicts, title
from accelbench.reproduce.paper import Hardware, Paper
from accelbench.reproduce.session import ComparedLimit


@dataclass(frozen=True)
class MachineRate:
    """Peak or ceiling of a machine as text, with the flag of a noisy ceiling or a bound."""

    text: str
    flag: str = ""
    reason: str = ""


@dataclass(frozen=True)
class ComparedMachine:
    """Machine of the study or of a run, with its rates."""

    name: str
    rates: tuple[MachineRate, ...]


def write_page(
    judgement: StudyVerdicts, path: Path, costs: CostTable | None = None, session: Sequence[ComparedLimit] = ()
) -> Path:
    """Write the page to `path`, create its directory if needed, and return the path."""
    page = render(judgement, costs, session)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomically(path, lambda new: new.write_text(page, encoding="utf-8"))


def render(judgement: StudyVerdicts, costs: CostTable | None = None, session: Sequence[ComparedLimit] = ()) -> str:
    """Return the self-contained page as HTML text."""
    folder = Path(__file__).parent
    environment = templates(folder, *report.__path__)
    return environment.get_template("claims_page.html").render(
        paper=judgement.paper,
        judgement=judgement,
        runs=[title(run) for run in judgement.runs],
        drawn=draw_studies(studies(judgement.paper, judgement.runs)),
        then=[_then(hardware) for hardware in judgement.paper.hardware],
        costs=costs,
        session=session,
        comparison=claims_plot(judgement.claims),
        now=[_now(run) for run in judgement.runs],
        UNKNOWN=UNKNOWN,
    )


def studies(paper: Paper, runs: Sequence[Run]) -> list[Study]:
    """Return the studies of the paper's training workloads over all runs."""
    rows = Joined(tuple(runs)).rows
    return make_studies((place, row) for place, row in rows if row.record.point.benchmark in paper.benchmarks)


def _then(hardware: Hardware) -> ComparedMachine:
    """Return a device of the study with its vendor's peaks."""
    card = find_card(hardware.card) if hardware.card else None
    name = f"{hardware.called} ({hardware.device})"
    if card is None:
        return ComparedMachine(name, (MachineRate("vendor's peaks unknown"),))
    peaks = ((f"{dtype} {unit}", value) for dtype, units in card.flops.items() for unit, value in units.items())
    flops = [f"{kind} {read(value, 'FLOP/s')}" for kind, value in peaks]
    memory = [f"memory {read(card.bandwidth, 'B/s')}"] if card.bandwidth else []
    return ComparedMachine(name, tuple(map(MachineRate, (f"{card.title}, by its vendor", *flops, *memory))))


def _now(run: Run) -> ComparedMachine:
    """Return the machine of a run with its measured ceilings."""
    name = f"{fingerprint(run.info)} ({run.info.run_id})"
    return ComparedMachine(name, tuple(map(_rate, run.ceilings)) or (MachineRate("this run measured no ceilings"),))


def _rate(ceiling: Ceiling) -> MachineRate:
    sign, value = ceiling.record.bound_sign(ceiling.metric), read(ceiling.value, UNITS[ceiling.metric])
    flag = "" if not ceiling.doubt else BOUND if sign else NOISY
    reason = "; ".join(filter(None, [ceiling.doubt, *ceiling.disturbed_by]))
    return MachineRate(f"{ceiling.device} {ceiling.kind} {sign}{value}", flag, reason)
