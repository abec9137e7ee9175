"""Geometric means of speeds relative to the first run."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from accelbench.output.console import PlainConsole
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from accelbench.report.joined import Joined, read_runs
from accelbench.report.page import render_joined
from accelbench.report.same_points import same_points
from accelbench.report.terminal import print_runs
from tests.fixtures.report_pages import Tags
from tests.fixtures.report_records import record, timing, training
from tests.fixtures.report_runs import make_run


def product(n: int, seconds: float, **changes: Any) -> Record:
    fields: dict[str, Any] = {"params": {"impl": "vendor", "dtype": "float32", "n": n}, "figure": "flops"}
    fields |= {"work": Work(flops=2 * n**3, bytes=12 * n * n), "timing": timing(seconds, spread=0.0001)}
    return record("matmul", "cpu", **fields | changes)


def queens(seconds: float) -> Record:
    work = Work(items=1e6, item="nodes")
    timed = timing(seconds, spread=0.0001)
    return record("nqueens", "cpu", params={"n": 12}, figure="items", work=work, timing=timed)


def joined(path: Path, *runs: list[Record]) -> Joined:
    return read_runs([make_run(path / f"{n}", run, run_id=f"r{n}", device="cpu") for n, run in enumerate(runs)])


def test_the_mean_is_geometric_and_inverts_with_the_baseline(tmp_path: Path) -> None:
    slow = [product(1024, 8e-3), product(2048, 1e-3), queens(1e-3)]
    fast = [product(1024, 1e-3), product(2048, 2e-3), queens(5e-4)]
    there = same_points(joined(tmp_path / "there", slow, fast))
    back = same_points(joined(tmp_path / "back", fast, slow))
    expected = {"matmul": 2.0, "nqueens": 2.0, "kernels": 2.0}
    assert {mean.of: mean.value for mean in there.means} == pytest.approx(expected, rel=1e-3)
    assert {mean.of: 1 / mean.value for mean in back.means} == pytest.approx(expected, rel=1e-3)
    assert [mean.points for mean in there.means] == [2, 1, 3]
    assert there.base == joined(tmp_path / "named", slow, fast).labels[0]


def test_noisy_points_and_points_of_a_single_run_are_excluded(tmp_path: Path) -> None:
    noisy = product(1024, 4e-3, noise=["other work took 90 % of a CPU"])
    found = same_points(
        joined(
            tmp_path,
            [product(1024, 1e-3), product(2048, 1e-3), product(4096, 1e-3)],
            [noisy, product(2048, 5e-4), queens(1e-3)],
        )
    )
    (mean,) = found.means
    assert (mean.of, mean.points, mean.value) == ("matmul", 1, pytest.approx(2.0, rel=1e-3))


def test_three_runs_are_compared_with_the_first_in_page_and_terminal(tmp_path: Path) -> None:
    trained = training("cpu", "float32", 0.1)
    runs = joined(tmp_path, *([product(1024, seconds), trained] for seconds in (4e-3, 2e-3, 1e-3)))
    found = same_points(runs)
    products = [mean.value for mean in found.means if mean.of == "matmul"]
    assert products == pytest.approx([2.0, 4.0], rel=1e-3)
    assert not [mean for mean in found.means if mean.of in ("kernels", "trainings")]  # they have one benchmark each
    out = io.StringIO()
    print_runs(runs, PlainConsole(file=out, width=120))
    for shown in (" ".join(out.getvalue().split()), Tags(render_joined(runs)).text):
        assert f"{runs.labels[0]}" in shown
        assert "× 2.00" in shown
        assert "× 4.00" in shown
