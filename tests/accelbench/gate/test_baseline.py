"""Tests of `accelbench baseline` and of baseline files."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from accelbench.__main__ import main
from accelbench.errors import UserError
from accelbench.gate.baseline import BaselineMetric, read_baseline
from accelbench.profiling.records.work import Work
from tests.fixtures.compare_runs import failed, gpu, machine, measured, run, samples

Learn = Callable[..., int]
FLOPS = 2 * 1024**3


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def good_runs(folder: Path, medians: Sequence[float], begin: int = 0, **fields: Any) -> None:
    for number, median in enumerate(medians, begin):
        records = [
            measured(samples(median, spread=0.001, seed=number)),
            measured(samples(median, spread=0.001, seed=number), "launch", figure="time", work=Work(items=1)),
        ]
        run(folder / "good" / f"r{number}", records, **fields)


def test_the_baseline_has_median_spread_and_limits_by_hardware(folder: Path) -> None:
    good_runs(folder, [1.0, 1.01, 0.99, 1.005, 0.995])
    assert main(["baseline", "good", "--out", "site.toml"]) == 0
    (hardware,) = read_baseline(folder / "site.toml").hardware
    assert (hardware.machine, hardware.cpus, hardware.gpus) == ("EPYC 9654, 4 CPUs, NVIDIA H200", 4, {"NVIDIA H200": 1})
    rate, time = hardware.metric
    assert (rate.figure, rate.unit, rate.runs, rate.min) == ("flops", "FLOP/s", 5, "0.95 * median")
    assert rate.median == pytest.approx(FLOPS, rel=2e-3)
    assert rate.mad == pytest.approx(0.005 * FLOPS, rel=0.2)
    assert rate.limit == pytest.approx(0.95 * rate.median)
    assert (time.figure, time.unit, time.max) == ("time", "s", "1.05 * median")
    assert time.limit == pytest.approx(1.05 * time.median)


def test_the_file_may_be_edited_by_hand_and_is_never_replaced(folder: Path) -> None:
    good_runs(folder, [1.0, 1.01, 0.99])
    assert main(["baseline", "good", "--out", "site.toml"]) == 0
    path = folder / "site.toml"
    edited = path.read_text(encoding="utf-8")
    edited = edited.replace('min = "0.95 * median"', 'min = "median - 3 * mad"\nwarn = "0.99*median"')
    path.write_text(edited, encoding="utf-8")
    metric = read_baseline(path).hardware[0].metric[0]
    assert metric.mad is not None
    assert metric.limit == pytest.approx(metric.median - 3 * metric.mad)
    assert metric.warn_limit == pytest.approx(0.99 * metric.median)
    assert main(["baseline", "good", "--out", "site.toml"]) == 2
    assert path.read_text(encoding="utf-8") == edited


def test_runs_in_any_order_and_twice_give_the_same_baseline(folder: Path) -> None:
    good_runs(folder, [1.0, 1.01, 0.99])
    assert main(["baseline", "good/r0", "good/r1", "good/r2", "--out", "a.toml"]) == 0
    assert main(["baseline", "good/r2", "good/r1", "good/r1", "good/r0", "--out", "b.toml"]) == 0
    assert (folder / "a.toml").read_text(encoding="utf-8") == (folder / "b.toml").read_text(encoding="utf-8")


def test_mixed_hardware_or_settings_need_an_option(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good_runs(folder, [1.0, 1.01])
    good_runs(folder, [1.5, 1.51], begin=2, environment=machine(gpus=[gpu("NVIDIA A100")]))
    assert main(["baseline", "good", "--out", "site.toml"]) == 2
    assert "--mixed" in capsys.readouterr().err
    assert not (folder / "site.toml").exists()
    assert main(["baseline", "good", "--out", "site.toml", "--mixed"]) == 0
    assert [len(each.metric) for each in read_baseline(folder / "site.toml").hardware] == [2, 2]
    run(folder / "other" / "r9", [measured(samples(1.0, spread=0.001))], machine(software={"blas": "MKL"}))
    assert main(["baseline", "good/r0", "other", "--out", "other.toml"]) == 2
    assert "software.blas" in capsys.readouterr().err


def test_noisy_runs_need_an_option_and_widen_the_limit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noisy = measured(samples(1.0, spread=0.001), noise=["other processes used 1 of 4 CPUs"])
    run(folder / "noisy" / "r0", [noisy])
    assert main(["baseline", "noisy", "--out", "site.toml"]) == 2
    assert "--include-noisy" in capsys.readouterr().err
    good_runs(folder, [1.0, 1.2, 0.9, 1.1])
    assert main(["baseline", "good", "--out", "site.toml"]) == 2
    assert "--include-noisy" in capsys.readouterr().err
    assert main(["baseline", "good", "--out", "site.toml", "--include-noisy"]) == 0
    metric = read_baseline(folder / "site.toml").hardware[0].metric[0]
    assert metric.limit < 0.8 * metric.median
    assert metric.point not in capsys.readouterr().err
    run(folder / "wide" / "r0", [measured(samples(1.0, spread=0.001))])
    run(folder / "wide" / "r1", [measured(samples(2.0, spread=0.001))])
    run(folder / "wide" / "r2", [measured(samples(3.0, spread=0.001))])
    assert main(["baseline", "wide", "--out", "wide.toml", "--include-noisy"]) == 0
    (metric,) = read_baseline(folder / "wide.toml").hardware[0].metric
    assert metric.limit == 0
    assert metric.point in capsys.readouterr().err


def test_unfinished_corrupt_and_failed_runs_are_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good_runs(folder, [1.0, 1.01])
    run(folder / "good" / "half", [measured(samples(2.0, spread=0.001))], status="running")
    run(folder / "good" / "bad", [failed("wrong answer")])
    (folder / "good" / "empty").mkdir()
    (folder / "good" / "empty" / "run.json").write_text("{", encoding="utf-8")
    assert main(["baseline", "good", "--out", "site.toml"]) == 0
    error = capsys.readouterr().err
    assert all(name in error for name in ("half", "bad", "empty"))
    assert read_baseline(folder / "site.toml").hardware[0].metric[0].runs == 2
    assert main(["baseline", "good/half", "--out", "half.toml"]) == 2


def test_one_run_has_no_spread_and_no_rule_of_it(folder: Path) -> None:
    good_runs(folder, [1.0])
    assert main(["baseline", "good", "--out", "site.toml"]) == 0
    path = folder / "site.toml"
    assert read_baseline(path).hardware[0].metric[0].mad is None
    path.write_text(path.read_text(encoding="utf-8").replace("0.95 * median", "median - 3 * mad"), encoding="utf-8")
    with pytest.raises(UserError, match="mad"):
        read_baseline(path)


METRIC: dict[str, Any] = {"point": "matmul cpu", "figure": "flops", "unit": "FLOP/s", "median": 100.0, "runs": 5}


@pytest.mark.parametrize(
    "changes",
    [
        {"min": "1.2 * median"},  # no node can reach it
        {"min": 1e9},
        {"min": float("nan")},
        {"min": "0.95 * mean"},
        {"min": "__import__('os')"},
        {"max": "1.05 * median"},
        {"min": 0, "max": 1},
        {},
        {"min": 1, "median": float("nan")},
        {"min": 1, "median": 0.0},
        {"min": "0.9 * median", "warn": "1.1 * median"},
        {"figure": "time", "max": "0.9 * median"},
        {"min": "median - 9e9 * mad", "mad": 1.0},
        {"min": 1, "unknown": 2},
    ],
    ids=str,
)
def test_invalid_limits_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        BaselineMetric.model_validate({**METRIC, **changes})


@pytest.mark.parametrize(
    ("rule", "limit"),
    [("0.95 * median", 95.0), ("median", 100.0), ("median - 2*mad", 96.0), ("9.5e-1*median", 95.0), (90, 90.0), (0, 0)],
)
def test_rules_have_their_value(rule: str | float, limit: float) -> None:
    assert BaselineMetric.model_validate({**METRIC, "mad": 2.0, "min": rule}).limit == pytest.approx(limit)


@pytest.mark.parametrize("text", ["x = nan", "[[hardware]]\n" * 2, "\x00", "baseline_version = 2", ""])
def test_a_file_of_another_kind_is_a_usage_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError):
        read_baseline(path)


def test_odd_names_of_hardware_are_written_as_toml(folder: Path) -> None:
    odd = 'H200 "x" = [1]\\ é'
    good_runs(folder, [1.0, 1.01], environment=machine(gpus=[gpu(odd)]))
    assert main(["baseline", "good", "--out", "site.toml"]) == 0
    assert tomllib.loads((folder / "site.toml").read_text(encoding="utf-8"))["hardware"][0]["gpus"] == {odd: 1}
