"""Our tree searches beside plain ones: N-Queens against the same Numba, UTS against C, and two threads against one."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import perf_counter

import numba
from rich.console import Console

from profiling.benchmark import Task
from profiling.records.point import Point
from tests.bench_self.bounds import ROUNDS, Bound
from tests.nqueens_baselines import half_board, textbook

BASELINES = Path(__file__).parents[1] / "baselines"
QUEENS = 16
TREE = "T1L"


def seconds(run: Callable[[], object]) -> float:
    begin = perf_counter()
    run()
    return perf_counter() - begin


def prepared(benchmark: str, **params: str | int) -> Task:
    """The task of a CPU point, verified and so compiled."""
    point = Point(benchmark, "cpu", params)
    task: Task = import_module(f"kernels.treesearch.{benchmark}.cpu_{point['impl']}").prepare(point)
    outcome = task.verify()
    if not outcome.passed:
        raise RuntimeError(f"{point}: {outcome}")
    return task


def nqueens(console: Console) -> list[Bound]:
    """One thread of the tuned search against two plain ones, and against all threads."""
    one, every, prefix = (
        prepared("nqueens", impl=impl, cores=cores, queens=QUEENS)
        for impl, cores in (("tuned", "one"), ("tuned", "all"), ("prefix", "one"))
    )
    textbook(8), half_board(8)  # compile
    threads = numba.get_num_threads()
    bounds = {
        "textbook": Bound(f"nqueens N={QUEENS}, tuned, one thread ÷ textbook in Numba", "×", 5.7),
        "half": Bound(f"nqueens N={QUEENS}, tuned, one thread ÷ half board in Numba", "×", 2.6),
        "prefix": Bound(f"nqueens N={QUEENS}, tuned ÷ prefix, one thread", "×"),
        "threads": Bound(f"nqueens N={QUEENS}, tuned, {threads} threads ÷ one", "×", 1.85 if threads == 2 else None),
    }
    for turn in range(ROUNDS):
        console.print(f"round {turn + 1} of {ROUNDS}: N-Queens")
        alone = min(seconds(one.run) for _ in range(3))
        bounds["threads"].found.append(alone / min(seconds(every.run) for _ in range(3)))
        bounds["prefix"].found.append(seconds(prefix.run) / alone)
        bounds["half"].found.append(seconds(lambda: half_board(QUEENS)) / alone)
        bounds["textbook"].found.append(seconds(lambda: textbook(QUEENS)) / alone)
    return list(bounds.values())


def uts(console: Console) -> list[Bound]:
    """One thread against a straightforward C program, and against all threads."""
    compiler = shutil.which("gcc")
    if compiler is None:
        console.print("gcc is not installed: UTS is not compared with C")
    threads = numba.get_num_threads()
    every = prepared("uts", impl="sharing", tree=TREE)
    numba.set_num_threads(1)
    one = prepared("uts", impl="sharing", tree=TREE)
    against_c = Bound(f"uts {TREE}, one thread ÷ C (gcc -O3 -march=native)", "×", 0.8)
    scaling = Bound(f"uts {TREE}, {threads} threads ÷ one", "×")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "uts"
        if compiler:
            build = [compiler, "-O3", "-march=native", str(BASELINES / "uts.c"), "-o", str(program), "-lm"]
            subprocess.run(build, check=True)
        for turn in range(ROUNDS):
            console.print(f"round {turn + 1} of {ROUNDS}: UTS")
            numba.set_num_threads(1)
            alone = seconds(one.run)
            if compiler:
                command = [str(program), TREE]
                plain = seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))  # noqa: B023
                against_c.found.append(plain / alone)
            numba.set_num_threads(threads)
            scaling.found.append(alone / seconds(every.run))
    return [against_c, scaling]
