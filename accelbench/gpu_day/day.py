"""A GPU's day: the stages one after the other, each within its time, and at the end a table and a pack of all runs."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from rich.console import Console
from rich.text import Text

from accelbench.errors import Interrupted, UserError
from accelbench.execution.store import RunStore
from accelbench.gpu_day.outcome import print_day
from accelbench.gpu_day.process import GRACE_S, run_limited
from accelbench.gpu_day.stages import STAGES, SUITES, WANTED, DayPlan, DayStage, StageUnavailable
from accelbench.gpu_day.state_file import DayState, StageState
from accelbench.pack.write import remove_pack, write_pack
from accelbench.report.section import Run

CLOSING_S = 30.0
"""The seconds that are kept of a budget for the table and the pack."""
WORTH_S = 15.0
"""The seconds that a stage must be able to get; it is not begun for less."""
PACK = "runs.tar.xz"
SUMMED_UP = ("tests", "sanitizer")
"""The stages whose commands say in their last line what they came to."""


@dataclass(frozen=True)
class DayOptions:
    """Options of the day that differ from the defaults."""

    stages: Sequence[str] = ()
    """The stages to run, in this order; all of them if there is none."""
    budget: float | None = None
    """The seconds for all of it; None for no limit."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """The seconds that a stage gets at most, by stage."""
    again: Sequence[str] = ()
    """The stages to be repeated though they are finished."""
    part_mib: float | None = None
    """The size of the pack's parts in MiB; None for one whole file."""


def chosen_stages(options: DayOptions) -> list[DayStage]:
    """Return the stages in the order to run them: as named, else as they are, else the most wanted first."""
    for name in (*options.stages, *options.limits, *options.again):
        if name not in STAGES:
            raise UserError(f"no stage is called {name!r}: there is {', '.join(STAGES)}")
    scarce = options.budget is not None and options.budget < sum(_limit(stage, options) for stage in STAGES.values())
    return [STAGES[name] for name in options.stages or (WANTED if scarce else STAGES)]


def _limit(stage: DayStage, options: DayOptions) -> float:
    return options.limits.get(stage.name, stage.seconds)


def run_day(plan: DayPlan, options: DayOptions, card: str, console: Console) -> int:
    """Run what is not finished; return exit status 0 if all chosen stages are done or cannot be done here, else 1.

    `Interrupted` on Ctrl-C or SIGTERM, after the stage was ended in good order and the table printed.
    """
    stages = chosen_stages(options)
    if unknown := set(plan.suites) - set(SUITES):
        raise UserError(f"stage {unknown.pop()!r} measures no suite: {', '.join(SUITES)} do")
    try:
        plan.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {plan.out}: {error.strerror}") from error
    day = DayState(plan.out, card)
    for name in options.again:
        _set_aside(plan.out, name, day)
    end = monotonic() + options.budget - CLOSING_S if options.budget is not None else None
    # What the day starts is ended by SIGINT, which children of a shell's background job would otherwise ignore.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    interrupted = False
    try:
        for stage in stages:
            if not day.finished(stage.name):
                _run_stage(stage, plan, day, _limit(stage, options), end, console)
    except KeyboardInterrupt:
        interrupted = True
    runs = runs_of(plan.out)
    print_day(stages, day.entries, runs, console)
    if interrupted:
        raise Interrupted(f"interrupted: the same command goes on, the runs so far are in {plan.out}")
    _pack(plan.out, runs, options.part_mib, console)
    return 0 if all(day.entries[stage.name].state in ("done", "skipped") for stage in stages) else 1


def _run_stage(
    stage: DayStage, plan: DayPlan, day: DayState, seconds: float, end: float | None, console: Console
) -> None:
    """Run the stage's commands, of which each gets an even share of the time that is left, and store how it went.

    A run of it that is not finished, by time or for another reason, is gone on with by the next call.
    """
    if end is not None and end - monotonic() - GRACE_S < min(seconds, WORTH_S):
        day.write(stage.name, "not reached", note="the budget was spent")
        return
    begin = monotonic()
    over = begin + seconds if end is None else min(begin + seconds, end - GRACE_S)
    try:
        commands = stage.commands(plan)
        console.print(Text.assemble("\n", (stage.name, "bold"), f": {stage.what}, {over - begin:.0f} s at most"))
        day.write(stage.name, "interrupted", note="it was killed")  # unless it comes to its end
        outcomes = []
        for number, command in enumerate(commands):
            share = (over - monotonic()) / (len(commands) - number)
            outcomes.append(run_limited(command, plan.out / f"{stage.name}.log", max(1.0, share)))
    except StageUnavailable as reason:
        day.write(stage.name, "skipped", note=str(reason))
        return
    except KeyboardInterrupt:
        day.write(stage.name, "interrupted", monotonic() - begin, _note(stage, plan.out))
        raise
    state: StageState = "done"
    if any(o.status is None for o in outcomes):
        state = "out of time"
    elif any(run.info().status != "finished" for run in runs_of(plan.out, stage.name).values()):
        state = "interrupted"
    elif any(o.status not in c.fine and not _only_skipped(c.run) for o, c in zip(outcomes, commands, strict=True)):
        state = "failed"
    note = _note(stage, plan.out) or "; ".join(o.last_line for o in outcomes if stage.name in SUMMED_UP)
    day.write(stage.name, state, monotonic() - begin, note)


def _only_skipped(run: Path | None) -> bool:
    """Return whether each point of a run was skipped: nothing in it can be measured here, which is no failure."""
    if run is None or not (run / "run.json").is_file():
        return False
    counts = Run.of(RunStore(run)).counts
    return counts.skipped == counts.points > 0


def runs_of(out: Path, stage: str | None = None) -> dict[str, RunStore]:
    """Return the day's runs by name, of one stage or of all."""
    runs = {path.parent.name: RunStore(path.parent) for path in sorted(out.glob("*/run.json"))}
    return {name: run for name, run in runs.items() if stage is None or name.partition("-")[0] == stage}


def _note(stage: DayStage, out: Path) -> str:
    """Return how many points each of the stage's runs has measured, in words."""
    counts: dict[str, str] = {}
    for name, run in (runs := runs_of(out, stage.name)).items():
        try:
            counts[name] = Run.of(run).counts_text
        except UserError as error:  # it was killed as it wrote, which resuming it mends
            counts[name] = str(error)
    return "; ".join(f"{name}: {count}" if len(runs) > 1 else count for name, count in counts.items())


def _set_aside(out: Path, stage: str, day: DayState) -> None:
    """Make the stage begin anew; what it measured before is kept under `earlier`."""
    for name, run in runs_of(out, stage).items():
        earlier = out / "earlier"
        earlier.mkdir(exist_ok=True)
        run.path.rename(earlier / f"{name}-{run.info().run_id}")
    day.forget(stage)


def _pack(out: Path, runs: Mapping[str, RunStore], part_mib: float | None, console: Console) -> None:
    """Put all runs, the state file and the logs into one file, in the place of the one of an earlier call."""
    remove_pack(out / PACK)
    if runs:
        beside = [out / "day.json", *sorted(out.glob("*.log"))]
        for file in write_pack(list(runs.values()), out / PACK, part_mib=part_mib, beside=beside):
            console.print(f"packed {file} {file.stat().st_size / 1e6:,.1f} MB", soft_wrap=True)
