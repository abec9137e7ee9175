"""Summary of a run: speed, bottleneck and confidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Bound, Work
from accelbench.report.answer import RunSummary, answer
from accelbench.report.page import render_page
from accelbench.report.stored_run import Run
from tests.fixtures.report_pages import printed
from tests.fixtures.report_records import record, timing, training, unmeasured
from tests.fixtures.report_runs import make_run

ARITHMETIC = {"figure": "flops", "bound": Bound("arithmetic", None, "float32")}
NOISY = ["steal: the hypervisor gave 4% of the CPU time to others"]


def product(flops: float, **changes: object) -> Record:
    return record(
        "matmul", work=Work(flops=flops), timing=timing(1.0), **ARITHMETIC | {"params": {"n": 2048}} | changes
    )


def ceiling(flops: float, **changes: object) -> Record:
    return record("fma", ceiling=True, work=Work(flops=flops), timing=timing(1.0), **ARITHMETIC | changes)


def moved(amount: float, **changes: object) -> Record:
    bound = Bound("memory")
    return record("copy", figure="bytes", bound=bound, work=Work(bytes=amount), timing=timing(1.0), **changes)


def answered(path: Path, *records: Record) -> RunSummary:
    summary = answer(Run.of(make_run(path / "run", list(records), device="cpu")))
    assert summary is not None
    return summary


def test_speed_has_the_best_rates_of_arithmetic_memory_training_and_other_kernels(tmp_path: Path) -> None:
    queens = record("queens", figure="items", work=Work(items=3e8, item="nodes"), timing=timing(1.0))
    found = answered(tmp_path, ceiling(2e11), product(1.8e11), moved(4.5e10), training("cpu", "float32", 0.1), queens)
    parts = ("200 GFLOP/s", "45.0 GB/s", "cnn-mnist", "299.9 M nodes/s")
    assert sorted(parts, key=found.speed.index) == list(parts)
    assert found.light == "good"


def test_benchmarks_named_on_the_command_line_come_first(tmp_path: Path) -> None:
    calls = [record("launch", figure="time", timing=timing(s), params={"n": n}) for n, s in ((1, 3.0), (2, 2.0))]
    records = [ceiling(2e11), product(1.8e11), product(0.6e11, params={"n": 64}), *calls]
    summary = answer(Run.of(make_run(tmp_path / "run", records, device="cpu", suite=None)))
    assert summary is not None
    parts = ("matmul: 180 GFLOP/s, 90 %", "n=2048", "launch: 2.000 s", "n=2)", "Ceilings: CPU: 200 GFLOP/s")
    assert sorted(parts, key=summary.speed.index) == list(parts)


def test_a_noisy_result_is_listed_with_a_mark_only_if_no_quiet_one_is_near(tmp_path: Path) -> None:
    near = answered(tmp_path / "near", ceiling(1.88e11, noise=NOISY), product(1.8e11))
    assert near.speed == "CPU: 180 GFLOP/s in float32."
    far = answered(tmp_path / "far", ceiling(3e11, noise=NOISY), product(1.8e11))
    assert "~300 GFLOP/s" in far.speed
    every = answered(tmp_path / "every", ceiling(3e11, noise=NOISY), moved(4.5e10, noise=NOISY))
    assert "~300 GFLOP/s" in every.speed
    assert "~45.0 GB/s" in every.speed
    only = answered(tmp_path / "only", ceiling(3e11, noise=NOISY))
    assert "~300 GFLOP/s" in only.speed


def test_the_bottleneck_has_the_kernel_with_the_lowest_share_of_its_ceiling(tmp_path: Path) -> None:
    found = answered(tmp_path, ceiling(2e11), product(1.8e11), product(0.6e11, params={"n": 64}))
    assert all(part in found.bottleneck for part in ("1 of 2 kernels", "80 %", "matmul n=64", "30 %"))


def test_an_unknown_bottleneck_is_reported(tmp_path: Path) -> None:
    found = answered(tmp_path, training("cpu", "float32", 0.1))
    assert "cnn-mnist is unknown" in found.bottleneck
    assert answer(Run.of(make_run(tmp_path / "empty", [unmeasured("launch", "skipped", "no GPU")]))) is None


@pytest.mark.parametrize(
    ("records", "light", "key"),
    [
        ([product(1e11)], "good", "1 point"),
        ([product(1e11), product(2e11, noise=NOISY, params={"n": 5})], "disturbed", "1 of 2 results"),
        ([product(1e11, noise=NOISY)], "disturbed", "1 of 1 results"),
        ([product(1e11), unmeasured("launch", "failed", "crash")], "bad", "1 point failed"),
    ],
)
def test_confidence_depends_on_noise_and_failures(tmp_path: Path, records: list[Record], light: str, key: str) -> None:
    found = answered(tmp_path, *records)
    assert found.light == light
    assert key in found.confidence


def test_terminal_and_page_have_the_summary(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", [ceiling(2e11), product(1.8e11)], device="cpu")
    out, page = printed(store), render_page(Run.of(store))
    for heading in ("Speed", "Bottleneck", "Confidence"):
        assert heading in out
        assert page.index(f"<dt>{heading}</dt>") < page.index('id="glance"')
