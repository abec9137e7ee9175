"""GPU day: stages with time limits, then a table of results and a bundle of all runs."""

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
"""Part of the budget reserved for the table and the bundle, in seconds."""
WORTH_S = 15.0
"""Minimum time to start a stage, in seconds."""
PACK = "runs.tar.xz"
SUMMED_UP = ("tests", "sanitizer")
"""Stages with a summary in the last output line of their commands."""


@dataclass(frozen=True)
class DayOptions:
    """Options of a GPU day."""

    stages: Sequence[str] = ()
    """Stages to run, in this order; empty for all."""
    budget: float | None = None
    """Total time in seconds; None for no limit."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Time limits in seconds by stage."""
    again: Sequence[str] = ()
    """Finished stages to repeat."""
    part_mib: float | None = None
    """Maximum size of the bundle's parts in MiB; None for one file."""


def chosen_stages(options: DayOptions) -> list[DayStage]:
    """Return the stages to run: as named, else all in their order, or by priority if the budget is too short."""
    for name in (*options.stages, *options.limits, *options.again):
        if name not in STAGES:
            raise UserError(f"unknown stage {name!r} (choose {', '.join(STAGES)})")
    scarce = options.budget is not None and options.budget < sum(_limit(stage, options) for stage in STAGES.values())
    return [STAGES[name] for name in options.stages or (WANTED if scarce else STAGES)]


def _limit(stage: DayStage, options: DayOptions) -> float:
    return options.limits.get(stage.name, stage.seconds)


def run_day(plan: DayPlan, options: DayOptions, card: str, console: Console) -> int:
    """Run the unfinished stages; return exit status 0 if all chosen stages are done or skipped, else 1.

    On Ctrl-C or SIGTERM, ends the stage, prints the table and raises `Interrupted`.
    """
    stages = chosen_stages(options)
    if unknown := set(plan.suites) - set(SUITES):
        raise UserError(f"stage {unknown.pop()!r} has no suite (choose {', '.join(SUITES)})")
    try:
        plan.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {plan.out}: {error.strerror}") from error
    day = DayState(plan.out, card)
    for name in options.again:
        _set_aside(plan.out, name, day)
    end = monotonic() + options.budget - CLOSING_S if options.budget is not None else None
    # Commands are ended by SIGINT, which children of a background job of a shell would otherwise ignore.
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
        raise Interrupted(f"interrupted: repeat the command to resume; the runs are in {plan.out}")
    _pack(plan.out, runs, options.part_mib, console)
    return 0 if all(day.entries[stage.name].state in ("done", "all skipped", "skipped") for stage in stages) else 1


def _run_stage(
    stage: DayStage, plan: DayPlan, day: DayState, seconds: float, end: float | None, console: Console
) -> None:
    """Run the commands of a stage, each with an equal share of the remaining time, and store the stage's state.

    The next call resumes an unfinished run of the stage.
    """
    if end is not None and end - monotonic() - GRACE_S < min(seconds, WORTH_S):
        day.write(stage.name, "not reached", note="the time budget is used up")
        return
    begin = monotonic()
    over = begin + seconds if end is None else min(begin + seconds, end - GRACE_S)
    try:
        commands = stage.commands(plan)
        console.print(Text.assemble("\n", (stage.name, "bold"), f": {stage.what}, at most {over - begin:.0f} s"))
        day.write(stage.name, "interrupted", note="it was killed")  # overwritten at the end of the stage
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
    elif all(_only_skipped(command.run) for command in commands):
        state = "all skipped"
    elif any(o.status not in c.fine and not _only_skipped(c.run) for o, c in zip(outcomes, commands, strict=True)):
        state = "failed"
    note = _note(stage, plan.out) or "; ".join(o.last_line for o in outcomes if stage.name in SUMMED_UP)
    day.write(stage.name, state, monotonic() - begin, note)


def _only_skipped(run: Path | None) -> bool:
    """Return whether a run has points and all of them were skipped, which is not a failure."""
    if run is None or not (run / "run.json").is_file():
        return False
    counts = Run.of(RunStore(run)).counts
    return counts.skipped == counts.points > 0


def runs_of(out: Path, stage: str | None = None) -> dict[str, RunStore]:
    """Return the runs of one stage, or of all stages, by name."""
    runs = {path.parent.name: RunStore(path.parent) for path in sorted(out.glob("*/run.json"))}
    return {name: run for name, run in runs.items() if stage is None or name.partition("-")[0] == stage}


def _note(stage: DayStage, out: Path) -> str:
    """Return the counts of measured points in the stage's runs as text."""
    counts: dict[str, str] = {}
    for name, run in (runs := runs_of(out, stage.name)).items():
        try:
            counts[name] = Run.of(run).counts_text
        except UserError as error:  # it was killed while writing; resuming repairs it
            counts[name] = str(error)
    return "; ".join(f"{name}: {count}" if len(runs) > 1 else count for name, count in counts.items())


def _set_aside(out: Path, stage: str, day: DayState) -> None:
    """Reset the stage; its earlier runs are moved to `earlier`."""
    for name, run in runs_of(out, stage).items():
        earlier = out / "earlier"
        earlier.mkdir(exist_ok=True)
        run.path.rename(earlier / f"{name}-{run.info().run_id}")
    day.forget(stage)


def _pack(out: Path, runs: Mapping[str, RunStore], part_mib: float | None, console: Console) -> None:
    """Write all runs, the state file and the logs into a bundle, which replaces an earlier one."""
    remove_pack(out / PACK)
    if runs:
        extra = [out / "day.json", *sorted(out.glob("*.log"))]
        for file in write_pack(list(runs.values()), out / PACK, part_mib=part_mib, beside=extra):
            console.print(f"packed {file} {file.stat().st_size / 1e6:,.1f} MB", soft_wrap=True)
