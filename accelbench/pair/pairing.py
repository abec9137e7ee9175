"""Measurement of a pair: writes the runs `A` and `B`, and the result to `pair.json`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Literal

from accelbench.errors import UserError
from accelbench.execution.plan import Choice
from accelbench.execution.store import RUNS, RunInfo, RunStore, Settings, new_run_id, now
from accelbench.output.atomic_file import write_atomically
from accelbench.pair.interleaved import PairSeries, measure_interleaved
from accelbench.pair.paired import Letter
from accelbench.pair.result import RESULT, PairResult, SideResult
from accelbench.pair.server import SidePlan, SideRequest
from accelbench.pair.side import PairSide, common_name
from accelbench.pair.side_process import SideProcess
from accelbench.profiling.machine.identity import identity_here
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.stored import readable

LAST_MEASUREMENT_SECONDS = 120.0
"""Time that a measurement may take beyond the time limit of the pair."""


@dataclass(frozen=True)
class PairingGoal:
    """Points to measure on both sides, requested precision and time limit."""

    benchmarks: Sequence[str]
    device: str
    backend: str | None
    choices: Sequence[Choice]
    settings: Settings
    within: float
    time_limit_s: float
    script: Sequence[str] = ()
    """Words of the command of a script to measure instead of benchmarks."""


def measure_pair(
    out: Path | None,
    a: PairSide,
    b: PairSide,
    wanted: PairingGoal,
    on_start: Callable[[Path, Sequence[PairSeries]], None],
    on_progress: Callable[[PairSeries], None],
) -> PairResult:
    """Measure both sides alternately, write the output directory, and return the result (partial after Ctrl-C).

    `on_start` is called with the directory and all points before the first measurement, `on_progress` with a point
    after each of its looks. Raises UserError if a side cannot measure, or if the sides have no point in common.
    """
    begin, created = monotonic(), now()
    sides: dict[Letter, PairSide] = {"A": a, "B": b}
    with ExitStack() as stack:
        processes = {
            letter: stack.enter_context(closing(SideProcess(side, wanted.device))) for letter, side in sides.items()
        }
        plans = {letter: processes[letter].plan(_request(wanted, side)) for letter, side in sides.items()}
        named = {letter: _named(plan, (a, b)) for letter, plan in plans.items()}
        series = _common_points(named["A"], named["B"], plans)
        path = _new_folder(out, "script" if wanted.script else wanted.benchmarks[0])
        stores = {
            letter: stack.enter_context(_run(path / letter, letter, plans[letter], series, wanted))
            for letter in processes
        }
        on_start(path, series)

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
            measure_interleaved(series, measure, wanted.within, begin + wanted.time_limit_s, on_progress)
        except KeyboardInterrupt:
            status = "interrupted"
        for store in stores.values():
            store.write_info(store.info().model_copy(update={"status": status, "wall_s": monotonic() - begin}))
    result = PairResult(
        created=created,
        command=["accelbench", *map(readable, sys.argv[1:])],
        status=status,
        a=SideResult(word=readable(a.word), settings=[*map(readable, a.settings)]),
        b=SideResult(word=readable(b.word), settings=[*map(readable, b.settings)]),
        within=wanted.within,
        wall_s=monotonic() - begin,
        points=[one.result(wanted.within) for one in series],
        only_a=[name for name in named["A"] if name not in named["B"]],
        only_b=[name for name in named["B"] if name not in named["A"]],
    )
    text = identity_here().anonymize_json(result.model_dump_json(indent=2), indent=2) + "\n"
    write_atomically(path / RESULT, lambda new: new.write_text(text, encoding="utf-8"))
    return result


def _request(wanted: PairingGoal, side: PairSide) -> SideRequest:
    """Return the request for a side: the shared goal, changed by the side's settings."""
    return SideRequest(
        benchmarks=list(wanted.benchmarks),
        device=wanted.device,
        backend=side.backend or wanted.backend,
        choices=[*wanted.choices, *side.choices],
        script=list(wanted.script),
        settings=wanted.settings,
    )


def _named(plan: SidePlan, sides: Sequence[PairSide]) -> dict[str, Point]:
    return {common_name(point, sides): point for point in plan.points}


def _common_points(in_a: dict[str, Point], in_b: dict[str, Point], plans: dict[Letter, SidePlan]) -> list[PairSeries]:
    """Return the points that both sides have; raise UserError if there are none."""
    devices = plans["A"].device, plans["B"].device
    if devices[0] != devices[1]:
        raise UserError(f"A would measure on {devices[0]} and B on {devices[1]}: choose one of them with --device")
    common = [PairSeries(name, {"A": in_a[name], "B": in_b[name]}) for name in in_a if name in in_b]
    if not common:
        raise UserError(
            f"the sides have no point in common: A has {', '.join(in_a)}; B has {', '.join(in_b)}: "
            "set values that differ with --a and --b"
        )
    return common


def _new_folder(out: Path | None, label: str) -> Path:
    """Create and return the output directory: `out`, new or empty, or `runs/TIME-pair-LABEL`."""
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
    path: Path, letter: Letter, plan: SidePlan, series: Sequence[PairSeries], wanted: PairingGoal
) -> Iterator[RunStore]:
    """Create the side's run, and yield it for its records."""
    assert plan.environment is not None
    info = RunInfo(
        run_id=f"{path.parent.name}-{letter}",
        created=now(),
        status="running",
        command=["accelbench", *map(readable, sys.argv[1:])],
        suite=None,
        device=plan.device,
        settings=wanted.settings,
        plan=[one.points[letter] for one in series],
        environment=plan.environment,
    )
    with closing(RunStore.create(path, info)) as store:
        yield store
