"""The CPU searches count every node and every solution."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from accelbench.kernels.treesearch.nqueens import cpu_prefix, cpu_tuned, nqueens
from accelbench.kernels.treesearch.nqueens.published import NODES, NODES_INSIDE_BORDERS, SOLUTIONS
from accelbench.profiling.records.point import Point
from tests.nqueens_baselines import half_board, textbook

SEARCHES = [(impl, cores) for impl in ("tuned", "prefix") for cores in ("one", "all")]
MODULES = {"tuned": cpu_tuned, "prefix": cpu_prefix}
TREES = {"tuned": NODES_INSIDE_BORDERS[cpu_tuned.LOOK_AHEAD], "prefix": NODES}


def point(impl, queens, cores="all"):
    return Point("nqueens", "cpu", {"impl": impl, "cores": cores, "queens": queens})


@pytest.mark.slow
@pytest.mark.parametrize("queens", range(1, 13))
@pytest.mark.parametrize(("impl", "cores"), SEARCHES)
def test_both_counts_are_the_known_ones_also_after_several_executions(impl, cores, queens):
    task = nqueens(point(impl, queens, cores))
    task.run()
    task.run()
    verification = task.verify()
    assert verification.passed, verification
    assert verification.found == f"{SOLUTIONS[queens]} solutions, {TREES[impl][queens]} nodes"


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [1, 3, 100_000])
@pytest.mark.parametrize("impl", MODULES)
@pytest.mark.parametrize("queens", [5, 9, 11])
def test_the_counts_do_not_depend_on_how_the_tree_is_cut(monkeypatch, impl, tasks, queens):
    monkeypatch.setattr(MODULES[impl], "TASKS_PER_THREAD", tasks)
    assert nqueens(point(impl, queens)).verify().passed


@pytest.mark.parametrize("queens", [5, 8, 11])
@pytest.mark.parametrize("cores", ["one", "all"])
def test_a_board_too_wide_for_two_masks_per_word_is_correct(monkeypatch, queens, cores):
    monkeypatch.setattr(cpu_tuned, "HALF", 0)
    assert nqueens(point("tuned", queens, cores)).verify().passed


@pytest.mark.slow
def test_the_counts_do_not_depend_on_the_size_of_buffers():
    """The search runs in a separate process, because the size is compiled into it."""
    program = """
import sys
from accelbench.kernels.treesearch.nqueens import cpu_tuned
cpu_tuned.BLOCK = 8
cpu_tuned.CAPACITY = 2 * cpu_tuned.BLOCK + cpu_tuned.SPARE
cpu_tuned.BUFFER = 4 * cpu_tuned.CAPACITY
from tests.kernels.test_nqueens_cpu import nqueens, point
sys.exit(not all(nqueens(point("tuned", queens, "one")).verify().passed for queens in range(1, 13)))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


WIDTHS = {(): (1, 0), ("avx2",): (8, 0), ("avx512f",): (16, 0), ("avx512f", "avx512vbmi2"): (16, 32)}
"""32-bit and 16-bit words in a vector, by enabled instruction sets."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "isa",
    [
        pytest.param(isa, marks=[pytest.mark.needs(*isa), *([pytest.mark.exhaustive] if isa == ("avx512f",) else [])])
        for isa in WIDTHS
    ],
)
def test_the_counts_do_not_depend_on_the_width_of_vectors(isa):
    """Test all widths of this CPU with 16-bit words, two masks per 32-bit word, and one mask per 32-bit word."""
    program = f"""
import sys
from accelbench.kernels.treesearch.nqueens import cpu_tuned, lanes
from tests.kernels.test_nqueens_cpu import nqueens, point
assert (lanes.LANES, lanes.NARROW_LANES) == {WIDTHS[isa]}
passed = [nqueens(point("tuned", queens)).verify().passed for queens in range(1, 13)]
cpu_tuned.HALF = 0
passed += [nqueens(point("tuned", queens)).verify().passed for queens in (5, 11)]
sys.exit(not all(passed))
"""
    only = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ",".join(f"+{name}" for name in isa)}
    assert subprocess.run([sys.executable, "-c", program], env=only, check=False).returncode == 0


@pytest.mark.parametrize("impl", MODULES)
@pytest.mark.parametrize("counted", ["nodes", "solutions"])
@pytest.mark.parametrize("table", ["known", "not known"])
def test_a_task_that_is_lost_or_miscounted_fails(monkeypatch, impl, counted, table):
    """Also for boards without a published number of nodes, for which tasks are recounted (here all of them)."""
    if table == "not known":
        monkeypatch.delitem(TREES[impl], 10)
    task = nqueens(point(impl, 10, "one"))
    assert task.verify().passed
    honest = MODULES[impl].search_tasks

    def one_off(*arguments):
        honest(*arguments)
        arguments[-2 if counted == "nodes" else -1][7] += 1

    def lost(*arguments):
        tasks = len(arguments[-1])
        honest(*(a[:-1] if isinstance(a, np.ndarray) and len(a) == tasks else a for a in arguments))

    for dishonest in (one_off, lost):
        monkeypatch.setattr(MODULES[impl], "search_tasks", dishonest)
        verification = nqueens(point(impl, 10, "one")).verify()
        assert not verification.passed
        assert verification.expected != verification.found


@pytest.mark.parametrize("impl", MODULES)
def test_a_board_beyond_the_table_is_measured_without_a_known_number_of_nodes(monkeypatch, impl):
    known = TREES[impl][11]
    monkeypatch.delitem(TREES[impl], 11)
    task = nqueens(point(impl, 11))
    assert task.work.items is None
    verification = task.verify()
    assert verification.passed
    assert "recounted" in verification.method
    assert task.metrics(1.0)["nodes"].value == known


@pytest.mark.parametrize("impl", MODULES)
def test_the_additional_metrics_are_of_the_complete_board(impl):
    task = nqueens(point(impl, 10, "one"))
    task.run()
    metrics = task.metrics(2.0)
    assert metrics["solutions"].value == 724
    assert metrics["rate by solutions"].value == 362
    assert metrics["nodes"].value == TREES[impl][10]
    assert metrics["threads"].value == 1


@pytest.mark.parametrize("queens", range(3, 12))
def test_the_baseline_searches_are_correct(queens):
    assert textbook(queens) == half_board(queens) == SOLUTIONS[queens]


@pytest.mark.needs("gcc")
def test_the_c_version_that_the_search_is_compared_with_counts_the_same(tmp_path):
    source = Path(__file__).parents[1] / "baselines" / "nqueens.c"
    subprocess.run(["gcc", "-O3", "-march=native", source, "-o", tmp_path / "nqueens"], check=True)
    for queens in range(4, 14):
        output = subprocess.run([tmp_path / "nqueens", str(queens)], check=True, capture_output=True, text=True)
        assert int(output.stdout.split()[0]) == SOLUTIONS[queens]
