"""Our tree searches compared with plain ones: N-Queens with plain Numba, all with C, and all threads with one.

The command of a further program for the same tree may be given in `NQUEENS_PROGRAM` (16 queens), `UTS_PROGRAM` (T1L) or
`FLOWSHOP_PROGRAM` (Taillard's instance 14, with its optimum as the initial bound).
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import perf_counter

import numba
from rich.console import Console

from accelbench.kernels.treesearch.flowshop.instances import find_instance
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from tests.bench_self.bounds import ROUNDS, Bound
from tests.nqueens_baselines import half_board, textbook

BASELINES = Path(__file__).parents[1] / "baselines"
QUEENS = 16
TREE = "T1L"
INSTANCE = 14


def seconds(run: Callable[[], object]) -> float:
    begin = perf_counter()
    run()
    return perf_counter() - begin


def prepared(benchmark: str, **params: str | int) -> Task:
    """Return the task of a CPU point, verified and therefore compiled."""
    point = Point(benchmark, "cpu", params)
    task: Task = import_module(f"accelbench.kernels.treesearch.{benchmark}.cpu_{point['impl']}").prepare(point)
    outcome = task.verify()
    if not outcome.passed:
        raise RuntimeError(f"{point}: {outcome}")
    return task


def built(name: str, folder: str, console: Console) -> str | None:
    """Compile a C baseline for this CPU, and return its path; None without gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        console.print(f"gcc is not installed: {name} is not compared with C")
        return None
    program = str(Path(folder) / name)
    subprocess.run([compiler, "-O3", "-march=native", str(BASELINES / f"{name}.c"), "-o", program, "-lm"], check=True)
    return program


def seconds_of(command: list[str]) -> float:
    return seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))


def given_program(benchmark: str) -> list[str]:
    """Return the command of the user's program for a benchmark's tree; empty if none is given."""
    return shlex.split(os.environ.get(f"{benchmark.upper()}_PROGRAM", ""))


def nqueens(console: Console) -> list[Bound]:
    """Compare one thread of the tuned search with plain searches in Numba and C, the given program, and all threads."""
    one, every, prefix = (
        prepared("nqueens", impl=impl, cores=cores, queens=QUEENS)
        for impl, cores in (("tuned", "one"), ("tuned", "all"), ("prefix", "one"))
    )
    textbook(8), half_board(8)  # compile
    threads = numba.get_num_threads()
    bounds = {
        "textbook": Bound(f"nqueens N={QUEENS}, tuned, one thread ÷ textbook in Numba", "×", 20),
        "half": Bound(f"nqueens N={QUEENS}, tuned, one thread ÷ half board in Numba", "×", 10),
        "prefix": Bound(f"nqueens N={QUEENS}, tuned ÷ prefix, one thread", "×"),
        "threads": Bound(f"nqueens N={QUEENS}, tuned, {threads} threads ÷ one", "×", 1.85 if threads == 2 else None),
    }
    with tempfile.TemporaryDirectory() as folder:
        programs = {}
        if program := built("nqueens", folder, console):
            programs["c"] = [program, str(QUEENS)]
            bounds["c"] = Bound(f"nqueens N={QUEENS}, tuned, one thread ÷ C by symmetry (gcc)", "×", 5)
        if own := given_program("nqueens"):
            programs["own"] = own
            bounds["own"] = Bound(f"nqueens N={QUEENS}, tuned, one thread ÷ the given program", "×")
        for number in range(ROUNDS):
            console.print(f"repetition {number + 1} of {ROUNDS}: N-Queens")
            serial = min(seconds(one.run) for _ in range(3))
            bounds["threads"].found.append(serial / min(seconds(every.run) for _ in range(3)))
            bounds["prefix"].found.append(seconds(prefix.run) / serial)
            bounds["half"].found.append(seconds(lambda: half_board(QUEENS)) / serial)
            bounds["textbook"].found.append(seconds(lambda: textbook(QUEENS)) / serial)
            for name, command in programs.items():
                bounds[name].found.append(seconds_of(command) / serial)
    return list(bounds.values())


def against_c_and_threads(
    console: Console, benchmark: str, params: dict[str, str | int], given: list[str], at_least: float
) -> list[Bound]:
    """Compare one thread of a parallel search with its C baseline, the given program, and all threads."""
    threads = numba.get_num_threads()
    every = prepared(benchmark, impl="sharing", **params)
    numba.set_num_threads(1)
    one = prepared(benchmark, impl="sharing", **params)
    name = f"{benchmark} {' '.join(map(str, params.values()))}"
    against_c = Bound(f"{name}, one thread ÷ C (gcc -O3 -march=native)", "×", at_least)
    against_own = Bound(f"{name}, one thread ÷ the given program", "×")
    scaling = Bound(f"{name}, {threads} threads ÷ one", "×")
    own = given_program(benchmark)
    with tempfile.TemporaryDirectory() as folder:
        program = built(benchmark, folder, console)
        for number in range(ROUNDS):
            console.print(f"repetition {number + 1} of {ROUNDS}: {benchmark}")
            numba.set_num_threads(1)
            serial = seconds(one.run)
            if program:
                against_c.found.append(seconds_of([program, *given]) / serial)
            if own:
                against_own.found.append(seconds_of(own) / serial)
            numba.set_num_threads(threads)
            scaling.found.append(serial / seconds(every.run))
    return [against_c, against_own, scaling]


def uts(console: Console) -> list[Bound]:
    """Compare one thread with a straightforward C program, and with all threads."""
    return against_c_and_threads(console, "uts", {"tree": TREE}, [TREE], at_least=4)


def flowshop(console: Console) -> list[Bound]:
    """Compare one thread with a straightforward C program, and with all threads."""
    instance = find_instance(INSTANCE)
    given = [str(number) for number in (instance.machines, instance.seed, instance.optimum)]
    return against_c_and_threads(console, "flowshop", {"instance": INSTANCE}, given, at_least=1)
