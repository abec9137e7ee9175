"""The kernels of suite `quick` in turns: quiet, beside one busy process, and beside two.

Each busy process keeps one CPU busy. A result on one core must be within 2 % of the quiet one, and a result on all
cores within 5 %, or a bound that is true. Environment variables: `TURNS`, the number of turns (3); `BUSY`, the largest
number of busy processes (2).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, thread_time

from rich.console import Console

from accelbench.execution.plan import discover
from accelbench.execution.store import RunStore
from accelbench.execution.suite import SUITES
from accelbench.profiling.analysis.course import condition_of
from accelbench.profiling.machine.cause_counters import open_causes
from accelbench.profiling.records.record import Record
from accelbench.profiling.timing.causes import CauseLog
from accelbench.profiling.timing.host import sample_seconds
from tests.bench_self.bounds import Bound, accelbench

TURNS, BUSY = int(os.environ.get("TURNS", "3")), int(os.environ.get("BUSY", "2"))
WITHIN = {"one": 0.02, "all": 0.05}
"""Largest relative difference from the quiet rate, for one core and for all cores."""
TABLE = "[[benchmark]]"
PARTS, PAIRS, SAMPLES = 6, 40, 20
"""Number of results for the cost of readings, pairs of blocks in each, and samples in a block."""


def beside_busy_processes(console: Console) -> list[Bound]:
    """Return the ratios of the busy to the quiet rates, the numbers of wrong results, and the ratios of wall times."""
    found: dict[int, list[Mapping[str, Record]]] = defaultdict(list)
    times: dict[int, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder, "kernels.toml")
        suite.write_text(kernels_of_quick(), encoding="utf-8")
        for turn in range(TURNS):
            for count in range(BUSY + 1):
                with busy(count):
                    begin = perf_counter()
                    found[count].append(results(suite, Path(folder, f"{turn}-{count}")))
                    times[count].append(perf_counter() - begin)
    return [bound for count in range(1, BUSY + 1) for bound in _compared(console, count, found, times)]


def reading_causes(console: Console) -> list[Bound]:
    """Return the share of the CPU time for reading the causes of samples of a millisecond, by both methods.

    The first adds up the CPU time of the readings. The second compares blocks of samples with and without readings, in
    turns, so that it includes what readings cost the samples. CPU time does not include what other processes use.
    """
    direct = Bound("reading causes of samples of 1 ms, share by CPU time", "", at_most=0.01)
    pairs = Bound("reading causes of samples of 1 ms, share by blocks with and without", "", at_most=0.01)
    loops = 1
    while sample_seconds(_count, loops) * loops < 1e-3:
        loops *= 2
    with closing_log() as log:
        if log is None:
            return []
        for _ in range(PARTS):
            direct.found.append(_direct_share(log, loops))
            blocks = [(_block(log, loops), _block(None, loops)) for _ in range(PAIRS)]
            pairs.found.append(statistics.median(a / b for a, b in blocks) - 1)
        every = f"read every {1e3 * log.read_every_s:.1f} ms, the machine's every {1e3 * log.machine_every_s:.1f} ms"
    for bound in (direct, pairs):
        console.print(f"{bound.name}: {statistics.median(bound.found):.2%}; {every}, {os.getloadavg()[0]:.0f} load")
    return [direct, pairs]


def _direct_share(log: CauseLog, loops: int) -> float:
    """Return the CPU time of the readings of `PAIRS` blocks of samples, divided by the CPU time of the samples."""
    reading_s = sampling_s = 0.0
    for _ in range(PAIRS * SAMPLES):
        times = [thread_time()]
        seconds = sample_seconds(_count, loops) * loops
        times += [thread_time()]
        times += [thread_time()]  # the clock itself
        log.add(seconds)
        times += [thread_time()]
        sampling_s += times[1] - times[0]
        reading_s += times[3] - times[2] - (times[2] - times[1])
    return reading_s / sampling_s


def _block(log: CauseLog | None, loops: int) -> float:
    """Return the CPU time of a block of samples, with readings of their causes if there is a log."""
    begin = thread_time()
    for _ in range(SAMPLES):
        seconds = sample_seconds(_count, loops) * loops
        if log:
            log.add(seconds)
    return thread_time() - begin


def _count() -> int:
    return sum(range(1000))


@contextmanager
def closing_log() -> Iterator[CauseLog | None]:
    log = open_causes()
    try:
        yield log
    finally:
        if log:
            log.finish()


def _compared(
    console: Console, count: int, found: Mapping[int, list[Mapping[str, Record]]], times: Mapping[int, list[float]]
) -> Iterator[Bound]:
    beside = f"beside {count} busy process{'es' * (count > 1)}"
    wrong = Bound(f"{beside}: wrong results", "", at_most=0, found=[0.0])
    shares = Bound(f"{beside}: points with a share of the ceiling or a bound", "", at_least=0.95)
    usable = 0
    for name, example in found[0][0].items():
        quiet = statistics.median(rate for run in found[0] if (rate := run[name].rate()))
        sign = -1 if example.figure == "time" else 1
        within = WITHIN[example.bound.cores]
        bound = Bound(f"{beside}: {name}", "×", at_least=1 - within, at_most=1 + within)
        for run in found[count]:
            ratio, condition = ((run[name].rate() or 0.0) / quiet) ** sign, condition_of(run[name])
            clean = run[name].timing.clean_share if run[name].timing else None
            shown = "" if clean is None else f", {clean:.0%} of the samples clean"
            console.print(f"{beside}: {name} {'≥ ' * (condition == 'bound')}{ratio:.3f} × quiet, {condition}{shown}")
            if condition == "bound":
                wrong.found[0] += ratio > 1 + within
            else:
                bound.found.append(ratio)
                wrong.found[0] += condition == "clean" and abs(ratio - 1) > within
            usable += condition in ("clean", "bound")
        yield bound
    shares.found.append(usable / (len(found[0][0]) * len(found[count])))
    yield from (wrong, shares)
    ratios = [busy_s / quiet_s for busy_s, quiet_s in zip(times[count], times[0], strict=True)]
    yield Bound(f"{beside}: wall time", "×", at_most=2, found=ratios)


def kernels_of_quick() -> str:
    """Return suite `quick` without its training workloads, as TOML."""
    head, *tables = (SUITES / "quick.toml").read_text(encoding="utf-8").split(TABLE)
    kernels = [table for table in tables if not discover()[tomllib.loads(table)["name"]].backends]
    return TABLE.join([head, *kernels])


def results(suite: Path, out: Path) -> dict[str, Record]:
    """Measure the suite in a new run, and return the measured records by point."""
    command = accelbench("run", "--suite", str(suite), "--device", "cpu", "--new-ceilings", "--out", str(out))
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {str(record.point): record for record in RunStore.open(out).records() if record.status == "measured"}


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep this number of CPUs busy during the block."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
