"""Part of the page on a user's script."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accelbench.profiling.records.bottleneck import Bottleneck, StepsWithout
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.script import (
    CodeLine,
    LargeVariable,
    ScriptMemory,
    ScriptProfile,
    ScriptRank,
    SlowRank,
)
from accelbench.report.experiments import experiment_parts
from accelbench.report.page import render_page
from accelbench.report.script import script_part
from accelbench.report.section import Run
from tests.fixtures.report_pages import Tags
from tests.fixtures.report_profiles import profile
from tests.fixtures.report_records import HOSTILE, training
from tests.fixtures.report_runs import make_run

WITHOUT = StepsWithout(
    steps=95,
    mean=0.0105,
    ci_low=0.0100,
    ci_high=0.0110,
    speedup=2.0,
    speedup_low=1.9,
    speedup_high=2.1,
    same_random_numbers=True,
)
MEMORY = ScriptMemory(
    host_peak=2_000_000_000,
    device_peak=40_000_000_000,
    device_reserved=50_000_000_000,
    device_limit=80_000_000_000,
    fragmentation=0.2,
    exhausted="OutOfMemoryError: CUDA out of memory",
    largest=[LargeVariable(name="train.cache", bytes=30_000_000_000, arrays=1200)],
)
RANKS = [
    ScriptRank(rank=4, steps=241, parts={"input": 0.0003, "forward": 0.0008}),
    ScriptRank(rank=5, steps=241, parts={"input": 0.0003, "forward": 0.0017, "optimizer": 0.0002}),
    ScriptRank(rank=6, steps=0),
]
SLOW = SlowRank(rank=5, part="forward", delay_s=0.0009, delay_low=0.0008, delay_high=0.001, relative=1.1)


def of_script(script: ScriptProfile | None) -> Record:
    return training("gpu", "float32", 0.021, profile=profile(script=script))


def page_of(path: Path, script: ScriptProfile) -> str:
    return render_page(Run.of(make_run(path / "run", [of_script(script)])))


def test_accelbenchs_own_workloads_have_no_part_of_a_script() -> None:
    assert script_part(of_script(None)) is None


@pytest.mark.parametrize(("count", "lines"), [(0, 0), (39, 1)])
def test_a_step_that_was_compiled_again_has_a_line(tmp_path: Path, count: int, lines: int) -> None:
    script = ScriptProfile(recompiled=count, recompiled_s=3.21 if count else 0.0)
    assert page_of(tmp_path, script).count(f"{count} times, 3.21 s") == lines


@pytest.mark.parametrize("fields", [["prefetched"], ["unexchanged", "one_launch"]])
def test_experiments_are_drawn_beside_the_measured_step(tmp_path: Path, fields: list[str]) -> None:
    bottleneck = Bottleneck(bound="device-bound", shares={"device": 1.0}).model_copy(
        update=dict.fromkeys(fields, WITHOUT)
    )
    record = training("gpu", "float32", 0.021, profile=profile(bottleneck=bottleneck))
    parts = list(experiment_parts(record))
    assert len(parts) == len(fields)
    page = render_page(Run.of(make_run(tmp_path / "run", [record])))
    for part in parts:
        assert [bar.share for bar in part.bars] == [1.0, pytest.approx(0.5, rel=0.02)]
        assert part.text in page


def test_an_experiment_that_failed_is_on_the_page_with_its_reason(tmp_path: Path) -> None:
    reason = "the experiment on the input: ValueError: no data"
    own = training("gpu", "float32", 0.021, profile=profile(missing=[reason]))
    assert reason in render_page(Run.of(make_run(tmp_path / "run", [own])))


def test_without_an_experiment_no_step_time_is_drawn() -> None:
    assert not list(experiment_parts(of_script(ScriptProfile(waiting=0.5))))


def test_the_slow_rank_is_marked_in_its_slow_part_and_unknown_times_stay_unknown() -> None:
    part = script_part(of_script(ScriptProfile(world=8, ranks=RANKS, slow_rank=SLOW)))
    assert part
    assert part.rank_parts == ("input", "forward", "optimizer")
    marked = [
        (rank.rank, name)
        for rank in part.ranks
        for name, (_, slow) in zip(part.rank_parts, rank.times, strict=True)
        if slow
    ]
    assert marked == [(5, "forward")]
    known = [[any(character.isdigit() for character in time) for time, _ in rank.times] for rank in part.ranks]
    assert known == [[True, True, False], [True, True, True], [False, False, False]]


def test_lines_memory_and_missing_results_are_on_the_page(tmp_path: Path) -> None:
    script = ScriptProfile(
        waiting=0.5,
        waiting_lines=[CodeLine(file="train.py", line=41, function="augment", share=0.81)],
        host_lines=[CodeLine(file="model.py", line=0, function="forward", share=0.5)],
        memory=MEMORY,
        world=3,
        ranks=RANKS,
        slow_rank=SLOW,
        missing=["the experiment on the input: no loader was observed"],
    )
    page = page_of(tmp_path, script)
    text = " ".join(Tags(re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)).text.split())
    for part in ("train.py:41", "augment", "81 %", "model.py", "train.cache", "30.0 GB", "1,200", *script.missing):
        assert part in text
    for size in ("40.0 GB of 80.0 GB", "50.0 GB", "2.00 GB", "CUDA out of memory"):
        assert size in text
    assert page.count('<span class="flag">slow</span>') == 1


def test_hostile_names_in_a_script_are_escaped(tmp_path: Path) -> None:
    script = ScriptProfile(
        waiting_lines=[CodeLine(file=HOSTILE, line=1, function=HOSTILE, share=0.5)],
        memory=ScriptMemory(exhausted=HOSTILE, largest=[LargeVariable(name=HOSTILE, bytes=1, arrays=1)]),
        missing=[HOSTILE],
    )
    tags = Tags(page_of(tmp_path, script)).tags
    assert not {"script", "img"} & {tag for tag, _ in tags}
