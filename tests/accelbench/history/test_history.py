from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.execution.store import OtherRank, RunInfo, RunStore
from accelbench.history.change_points import change_points
from accelbench.history.fingerprint import fingerprint
from accelbench.history.history_document import print_history
from accelbench.history.past import read_past
from accelbench.history.series import PointSeries, series_of
from accelbench.history.spread import spread_of_levels, spread_of_neighbours
from accelbench.output.console import PlainConsole
from accelbench.profiling.records.environment import CoreKind, Environment
from tests.fixtures.compare_runs import NOW, failed, gpu, machine, measured, run, samples


def series(path: Path, medians: list[float], disturbed: tuple[int, ...] = (), **fields: Any) -> PointSeries:
    """Return the series of one point from runs with these medians, one per day."""
    stores = []
    for number, median in enumerate(medians):
        when = NOW + timedelta(days=number)
        noise = ["busy"] if number in disturbed else []
        record = measured(samples(median, spread=0.001, seed=number), started=when, noise=noise)
        stores.append(run(path / f"run-{number}", [record], created=when, **fields))
    (found,) = series_of(read_past(stores).runs)
    return found


def spread_out(count: int, deviation: float = 0.01, seed: int = 0) -> list[float]:
    found: list[float] = np.random.default_rng(seed).lognormal(sigma=deviation, size=count).tolist()
    return found


# Change points.
def test_a_change_of_level_is_found_at_its_index() -> None:
    figures = [*spread_out(10, seed=1), *(1.2 * x for x in spread_out(10, seed=2)), *spread_out(10, seed=3)]
    assert change_points(np.log(figures).tolist()) == [10, 20]


def test_outliers_are_no_change() -> None:
    figures = np.log(spread_out(20))
    figures[[4, 11, 12]] += 0.5
    assert change_points(figures.tolist()) == []


@pytest.mark.parametrize("count", [0, 1, 5])
def test_too_few_values_have_no_change(count: int) -> None:
    assert change_points([0.0, 9.0, 0.0, 9.0, 9.0][:count]) == []


def test_constant_levels_have_only_their_real_change() -> None:
    assert change_points([1.0] * 12) == []
    assert change_points([1.0] * 6 + [2.0] * 6) == [6]


@pytest.mark.slow
def test_the_false_positive_rate_is_at_most_one_in_twenty_series() -> None:
    found = sum(bool(change_points(np.log(spread_out(20, seed=seed)).tolist())) for seed in range(200))
    assert found <= 10


@given(st.lists(st.floats(min_value=-5, max_value=5), max_size=40), st.floats(min_value=-3, max_value=3))
def test_levels_have_at_least_three_values_at_any_offset(values: list[float], shift: float) -> None:
    found = change_points(values)
    assert all(after - before >= 3 for before, after in zip([0, *found], [*found, len(values)], strict=True) if found)
    rounded = [round(value, 6) for value in values]
    assert len(change_points([value + round(shift) for value in rounded])) <= len(values) // 3


# Spread.
@pytest.mark.parametrize("count", [5, 8, 30, 200])
def test_the_spread_estimates_the_standard_deviation_without_bias(count: int) -> None:
    found = [spread_of_levels([np.log(spread_out(count, 0.02, seed)).tolist()]) for seed in range(300)]
    assert np.mean([spread.deviation for spread in found if spread]) == pytest.approx(0.02, rel=0.1)


def test_outliers_and_changes_do_not_widen_the_spread() -> None:
    steady = np.log(spread_out(40)).tolist()
    calm, odd = spread_of_levels([steady]), spread_of_levels([[*steady[:-2], 1.0, -1.0]])
    parted = spread_of_levels([steady[:20], [value + 1 for value in steady[20:]]])
    assert calm is not None
    assert odd is not None
    assert parted is not None
    assert odd.deviation == pytest.approx(calm.deviation, rel=0.25)
    assert parted.deviation == pytest.approx(calm.deviation, rel=0.25)
    assert parted.freedom < calm.freedom
    assert spread_of_neighbours([0, 0.01] * 10 + [1, 1.01] * 10) == pytest.approx(0.01, rel=0.1)


def test_four_runs_have_no_spread() -> None:
    assert spread_of_levels([[0.0, 0.01, 0.0, 0.02]]) is None
    assert spread_of_levels([[0.0, 0.01, 0.0, 0.02, 0.01]]) is not None


# Series.
def test_a_slower_level_is_a_step_with_its_first_run(tmp_path: Path) -> None:
    found = series(tmp_path, [*spread_out(8, seed=1), *(1.25 * x for x in spread_out(8, seed=2))])
    (step,) = found.steps
    assert (step.run_id, step.when) == ("run-8", NOW + timedelta(days=8))
    assert step.speed == pytest.approx(0.8, rel=0.02)
    assert found.spread is not None
    assert 0.003 < found.spread.deviation < 0.03
    assert found.trend is None


def test_a_slow_loss_of_speed_is_a_trend(tmp_path: Path) -> None:
    found = series(tmp_path, [x * 1.00065**day for day, x in enumerate(spread_out(30, seed=2))])
    assert found.steps == []
    assert found.trend is not None
    assert found.trend.days == 29
    assert found.trend.speed == pytest.approx(1.00065**-29, rel=0.01)
    assert "× 0.9" in shown([found])
    assert series(tmp_path / "steady", spread_out(9, 0.004)).trend is None


def test_simultaneous_runs_have_no_trend(tmp_path: Path) -> None:
    stores = [
        run(tmp_path / f"r{n}", [measured(samples(median, seed=n))]) for n, median in enumerate([1, 1.1, 1.2, 1.3, 1.4])
    ]
    (found,) = series_of(read_past(stores).runs)
    assert found.trend is None


def test_noisy_and_unmeasured_points_are_in_no_level(tmp_path: Path) -> None:
    found = series(tmp_path / "a", [*spread_out(6), 3.0], disturbed=(6,))
    assert (len(found.entries), found.disturbed) == (6, 1)
    store = run(tmp_path / "b", [failed("crashed")])
    assert series_of(read_past([store]).runs) == []


def test_a_point_with_only_noisy_runs_has_no_level(tmp_path: Path) -> None:
    found = series(tmp_path, [1.0, 1.1], disturbed=(0, 1))
    assert (found.entries, found.disturbed, found.spread, found.trend, found.steps) == ((), 2, None, None, [])
    assert "+2 noisy" in shown([found])


# Machines.
def info(environment: Environment, tmp_path: Path) -> RunInfo:
    return run(tmp_path / "run", [], environment).info()


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({}, "EPYC 9654, 4 CPUs, NVIDIA H200"),
        ({"gpus": []}, "EPYC 9654, 4 CPUs"),
        ({"gpus": [gpu(), gpu(index=1)]}, "EPYC 9654, 4 CPUs, 2× NVIDIA H200"),
        ({"gpus": [], "limits": {"cpu_quota": 1.5}}, "EPYC 9654, 4 CPUs with a quota of 1.5"),
        ({"gpus": [], "cpu": {"model": None, "usable": 1}}, "unknown x86_64 CPU, 1 CPU"),
    ],
)
def test_the_fingerprint_contains_cpu_and_gpus(parts: dict[str, Any], text: str, tmp_path: Path) -> None:
    assert fingerprint(info(machine(**parts), tmp_path)) == text


@pytest.mark.parametrize(
    ("one_core", "text"), [("P-core", "EPYC 9654, 4 CPUs"), ("E-core", "EPYC 9654, 4 CPUs, one core: E-core")]
)
def test_the_fingerprint_contains_the_kind_of_core_if_it_is_not_the_fastest(
    one_core: str, text: str, tmp_path: Path
) -> None:
    kinds = [CoreKind(name="P-core", cpus=[0, 1]), CoreKind(name="E-core", cpus=[2, 3])]
    there = machine(gpus=[], cpu={"kinds": kinds, "one_core_kind": one_core})
    assert fingerprint(info(there, tmp_path)) == text


def test_the_fingerprint_contains_the_number_of_nodes(tmp_path: Path) -> None:
    single = info(machine(gpus=[]), tmp_path)
    others = [OtherRank(rank=rank, node=rank // 2, environment=machine()) for rank in range(1, 4)]
    assert fingerprint(single.model_copy(update={"other_ranks": others})) == "EPYC 9654, 4 CPUs, 2 nodes"


def test_each_machine_has_its_own_series(tmp_path: Path) -> None:
    record = measured(samples(1.0))
    stores = [
        run(tmp_path / model, [record], machine(gpus=[], cpu={"model": model})) for model in ("Xeon", "EPYC", "Core")
    ]
    assert [one.machine for one in series_of(read_past(stores).runs)] == [
        "Core, 4 CPUs",
        "EPYC, 4 CPUs",
        "Xeon, 4 CPUs",
    ]


# Reading.
def stores_with_bad_ones(path: Path) -> list[RunStore]:
    stores = [run(path / name, [measured(samples(1.0))]) for name in ("good", "cut", "old", "none", "twice")]
    with stores[1].records_path.open("a", encoding="utf-8") as file:
        file.write('{"schema_')
    (path / "old" / "run.json").write_text('{"schema_version": 1}', encoding="utf-8")
    (path / "none" / "run.json").unlink()
    text = (path / "good" / "run.json").read_text(encoding="utf-8")
    (path / "twice" / "run.json").write_text(text, encoding="utf-8")
    return stores


def test_corrupt_runs_are_skipped_with_a_message_each(tmp_path: Path) -> None:
    past = read_past(stores_with_bad_ones(tmp_path))
    assert [(one.run_id, len(one.records)) for one in past.runs] == [("good", 1), ("cut", 1)]
    cut, old, none = past.passed_over
    assert "cut/records.jsonl line 2" in cut
    assert "old/run.json" in old
    assert "none/run.json" in none


# What is printed.
def shown(found: list[PointSeries], passed_over: tuple[str, ...] = ()) -> str:
    console = PlainConsole(file=io.StringIO(), width=120)
    print_history(found, passed_over, console)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


def test_the_table_has_runs_result_spread_and_changes(tmp_path: Path) -> None:
    medians = [*spread_out(8, seed=1), *(1.25 * x for x in spread_out(8, seed=2))]
    text = shown([series(tmp_path, medians)], ("r9 is damaged",))
    for part in (
        "EPYC 9654, 4 CPUs, NVIDIA H200",
        "matmul cpu impl=vendor n=1024",
        "16",
        "GFLOP/s",
        "× 0.8",
        "(run-8)",
    ):
        assert part in text
    assert "r9 is damaged" in text
    assert "3 more quiet runs needed" in shown([series(tmp_path / "few", [1.0, 1.0])])
