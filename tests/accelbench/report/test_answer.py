"""The first screen answers how fast a machine is, what holds it back, and whether to believe it."""

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
    found = answer(Run.of(make_run(path / "run", list(records), device="cpu")))
    assert found is not None
    return found


def test_the_best_rates_of_arithmetic_memory_trainings_and_other_work_are_told_first(tmp_path: Path) -> None:
    queens = record("queens", figure="items", work=Work(items=3e8, item="nodes"), timing=timing(1.0))
    told = answered(tmp_path, ceiling(2e11), product(1.8e11), moved(4.5e10), training("cpu", "float32", 0.1), queens)
    assert told.how_fast.startswith(
        "CPU: 200 GFLOP/s in float32 and 45.0 GB/s of memory; cnn-mnist on tensorflow trains "
    )
    assert told.how_fast.endswith("; queens does 299.9 M nodes/s.")
    assert told.light == "good"


def test_a_disturbed_figure_is_told_only_where_no_other_is_near_and_as_such(tmp_path: Path) -> None:
    near = answered(tmp_path / "near", ceiling(1.88e11, noise=NOISY), product(1.8e11))
    assert near.how_fast == "CPU: 180 GFLOP/s in float32."
    far = answered(tmp_path / "far", ceiling(3e11, noise=NOISY), product(1.8e11))
    assert far.how_fast == "CPU: ~300 GFLOP/s in float32."
    every = answered(tmp_path / "every", ceiling(3e11, noise=NOISY), moved(4.5e10, noise=NOISY))
    assert every.how_fast == "CPU: ~300 GFLOP/s in float32 and ~45.0 GB/s of memory."
    alone = answered(tmp_path / "alone", ceiling(3e11, noise=NOISY))
    assert alone.how_fast == "CPU: ~300 GFLOP/s in float32."


def test_the_kernel_furthest_below_its_ceiling_is_what_holds_it_back(tmp_path: Path) -> None:
    told = answered(tmp_path, ceiling(2e11), product(1.8e11), product(0.6e11, params={"n": 64}))
    assert told.holds_back == (
        "1 of 2 kernels reaches 80 % or more of the measured ceiling; the furthest below it is matmul n=64, with 30 %."
    )


def test_what_cannot_be_told_is_said(tmp_path: Path) -> None:
    told = answered(tmp_path, training("cpu", "float32", 0.1))
    assert told.holds_back == "What bounds cnn-mnist was not profiled."
    assert answer(Run.of(make_run(tmp_path / "empty", [unmeasured("launch", "skipped", "no GPU")]))) is None


@pytest.mark.parametrize(
    ("records", "light", "sentence"),
    [
        ([product(1e11)], "good", "Yes: nothing was seen to disturb 1 point"),
        ([product(1e11), product(2e11, noise=NOISY, params={"n": 5})], "disturbed", "Low confidence: 1 of 2 results"),
        ([product(1e11, noise=NOISY)], "disturbed", "Low confidence: 1 of 1 results"),
        ([product(1e11), unmeasured("launch", "failed", "crash")], "bad", "Not all: 1 point failed"),
    ],
)
def test_whether_to_believe_it_knows_of_noise_and_failures(
    tmp_path: Path, records: list[Record], light: str, sentence: str
) -> None:
    told = answered(tmp_path, *records)
    assert (told.light, told.believe.startswith(sentence)) == (light, True), told.believe


def test_terminal_and_page_begin_or_end_with_the_answers(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", [ceiling(2e11), product(1.8e11)], device="cpu")
    out, page = printed(store), render_page(Run.of(store))
    for question in ("How fast is it?", "What holds it back?", "Can I believe it?"):
        assert question in out
        assert page.index(question) < page.index('id="glance"')
