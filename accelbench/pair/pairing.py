"""A pairing from its two sides to its folder: `A` and `B` are runs like any other, and `pair.json` holds the answer."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Literal

from accelbench.errors import UserError
from accelbench.execution.plan import Choice
from accelbench.execution.store import RUNS, RunInfo, RunStore, Settings, new_run_id
from accelbench.output.atomic_file import write_atomically
from accelbench.pair.paired import Letter
from accelbench.pair.result import PairResult, SideResult
from accelbench.pair.server import SidePlan, SideRequest
from accelbench.pair.side import PairSide, common_name
from accelbench.pair.side_process import SideProcess
from accelbench.pair.turns import PairSeries, take_turns
from accelbench.profiling.machine.identity import identity_here
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record

RESULT = "pair.json"
LAST_MEASUREMENT_SECONDS = 120.0
"""Time that a measurement may take beyond the time limit of the pairing."""


@dataclass(frozen=True)
class PairingGoal:
    """What both sides are to measure, and how well."""

    benchmarks: Sequence[str]
    device: str
    backend: str | None
    choices: Sequence[Choice]
    settings: Settings
    within: float
    time_limit_s: float


def measure_pair(
    out: Path | None,
    a: PairSide,
    b: PairSide,
    wanted: PairingGoal,
    begun: Callable[[Path, Sequence[PairSeries]], None],
    tell: Callable[[PairSeries], None],
) -> PairResult:
    """Measure both sides in turns, write the folder, and return what was found, after Ctrl-C what there is by then.

    `begun` is called with the folder and all points before the first is measured, and `tell` with a point whenever
    there is something new to say of it. UserError where a side cannot measure, or the sides have no point in common.
    """
    begin, created = monotonic(), datetime.now().astimezone()
    sides: dict[Letter, PairSide] = {"A": a, "B": b}
    with ExitStack() as stack:
        processes = {
            letter: stack.enter_context(closing(SideProcess(side, wanted.device))) for letter, side in sides.items()
        }
        plans = {letter: processes[letter].plan(_order(wanted, side)) for letter, side in sides.items()}
        named = {letter: _named(plan, (a, b)) for letter, plan in plans.items()}
        courses = _courses(named["A"], named["B"], plans)
        path = _new_folder(out, wanted.benchmarks[0])
        stores = {
            letter: stack.enter_context(_run(path / letter, letter, plans[letter], courses, wanted))
            for letter in processes
        }
        begun(path, courses)

        rounds: Counter[tuple[Letter, str]] = Counter()

        def measure(letter: Letter, point: Point) -> Record:
            deadline = begin + wanted.time_limit_s + LAST_MEASUREMENT_SECONDS
            record = processes[letter].measure(plans[letter].points.index(point), deadline)
            rounds[letter, str(point)] += 1
            record = record.model_copy(update={"round": rounds[letter, str(point)], "order": rounds.total()})
            stores[letter].append(record)
            return record

        status: Literal["finished", "interrupted"] = "finished"
        try:
            take_turns(courses, measure, wanted.within, begin + wanted.time_limit_s, tell)
        except KeyboardInterrupt:
            status = "interrupted"
        for store in stores.values():
            store.write_info(store.info().model_copy(update={"status": status, "wall_s": monotonic() - begin}))
    result = PairResult(
        created=created,
        command=["accelbench", *sys.argv[1:]],
        status=status,
        a=SideResult(word=a.word, settings=list(a.settings)),
        b=SideResult(word=b.word, settings=list(b.settings)),
        within=wanted.within,
        wall_s=monotonic() - begin,
        points=[course.result(wanted.within) for course in courses],
        only_a=[name for name in named["A"] if name not in named["B"]],
        only_b=[name for name in named["B"] if name not in named["A"]],
    )
    text = identity_here().out_of_json(result.model_dump_json(indent=2), indent=2) + "\n"
    write_atomically(path / RESULT, lambda new: new.write_text(text, encoding="utf-8"))
    return result


def _order(wanted: PairingGoal, side: PairSide) -> SideRequest:
    """Return what the side is to measure: what both share, and what its own settings change of that."""
    return SideRequest(
        benchmarks=list(wanted.benchmarks),
        device=wanted.device,
        backend=side.backend or wanted.backend,
        choices=[*wanted.choices, *side.choices],
        settings=wanted.settings,
    )


def _named(plan: SidePlan, sides: Sequence[PairSide]) -> dict[str, Point]:
    return {common_name(point, sides): point for point in plan.points}


def _courses(in_a: dict[str, Point], in_b: dict[str, Point], plans: dict[Letter, SidePlan]) -> list[PairSeries]:
    """Return the points that both sides have; UserError if there are none."""
    devices = plans["A"].device, plans["B"].device
    if devices[0] != devices[1]:
        raise UserError(f"A would measure on {devices[0]} and B on {devices[1]}: choose one of them with --device")
    common = [PairSeries(name, {"A": in_a[name], "B": in_b[name]}) for name in in_a if name in in_b]
    if not common:
        raise UserError(
            f"the sides have no point in common: A has {', '.join(in_a)}; B has {', '.join(in_b)}: "
            "what differs between them is set by --a and --b"
        )
    return common


def _new_folder(out: Path | None, label: str) -> Path:
    """Make the folder of a pairing: that path, new or empty, or one under `runs` named by time and label."""
    path = out or RUNS / new_run_id(f"pair-{label}")
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise UserError(f"{path} is not empty: choose a new directory with --out")
    except OSError as error:
        raise UserError(f"cannot write the directory {path}: {error.strerror}") from error
    return path


@contextmanager
def _run(
    path: Path, letter: Letter, plan: SidePlan, courses: Sequence[PairSeries], wanted: PairingGoal
) -> Iterator[RunStore]:
    """Yield the side's run, to which each of its measurements is added as a record."""
    assert plan.environment is not None
    info = RunInfo(
        run_id=f"{path.parent.name}-{letter}",
        created=datetime.now().astimezone(),
        status="running",
        command=["accelbench", *sys.argv[1:]],
        suite=None,
        device=plan.device,
        settings=wanted.settings,
        plan=[course.points[letter] for course in courses],
        environment=plan.environment,
    )
    with closing(RunStore.create(path, info)) as store:
        yield store
