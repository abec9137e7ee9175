"""Tests of the verdict on a script, and of the lines of its own code."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from accelbench.profiling.host.stacks import Stacks, parse_stacks
from accelbench.profiling.measure.script.events import ScriptEvents, ScriptStep
from accelbench.profiling.measure.script.judge import (
    help_input,
    memory_of,
    ranks_of,
    samples_of,
    slow_rank_of,
    timing_of,
    waiting_of,
)
from accelbench.profiling.measure.script.lines import code_lines
from accelbench.profiling.measure.script.observe import ScriptObserver


def step(seconds: float, wait_s: float, starts_epoch: bool = False) -> ScriptStep:
    return ScriptStep(seconds, wait_s, 32, starts_epoch, "plain")


def test_the_share_of_waiting_has_an_interval() -> None:
    steps = [step(0.1, 0.06 + 0.01 * (number % 2)) for number in range(20)]
    share, interval = waiting_of(steps)
    assert share == pytest.approx(0.65)
    assert interval
    assert 0.6 < interval[0] < 0.65 < interval[1] < 0.7


def test_the_first_step_of_an_epoch_is_no_sample_unless_few_others_are_left() -> None:
    steps = [step(5.0 if number % 10 == 0 else 1.0, 0.0, number % 10 == 0) for number in range(40)]
    assert timing_of(steps).execution.seconds == pytest.approx(1.0)
    assert samples_of(steps[:10]) == steps[:10]


def test_lines_are_of_the_users_own_files_without_the_libraries_frames(tmp_path: Path) -> None:
    for name in ("train.py", "pkg/data.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    thread = "thread (0x7): MainThread"
    stacks: Stacks = Counter(
        parse_stacks(
            f"{thread};<module> (train.py:9);__next__ (torch/utils/data/dataloader.py:700);"
            "fetch (torch/utils/data/_utils/fetch.py:54);augment (pkg/data.py:4);open (PIL/Image.py:3) 6\n"
            f"{thread};<module> (train.py:9);__next__ (torch/utils/data/dataloader.py:700);"
            "get (multiprocessing/queues.py:103) 2\n"
            f"{thread};<module> (train.py:11);forward (torch/nn/modules/linear.py:5) 9\n"
            f"{thread};_shutdown (threading.py:1) 1\n"
            "thread (0x8): other;work (train.py:30) 50\n"
            "thread (0x9): idle;wait (threading.py:1) 50\n"
        )
    )
    fork = "<module> (train.py:9);start (popen_fork.py:5);BaseProcess._bootstrap (multiprocessing/process.py:3)"
    work = "_worker_loop (torch/utils/data/_utils/worker.py:7);fetch (torch/utils/data/_utils/fetch.py:5)"
    workers = {
        21: parse_stacks(f"thread (21): MainThread;{fork};{work};augment (pkg/data.py:4) 30\n"),
        22: parse_stacks(
            f"thread (22): MainThread;{fork};_worker_loop (torch/utils/data/_utils/worker.py:1);get (queue.py:2) 20\n"
            f"thread (22): MainThread;{fork};{work};augment (pkg/data.py:4) 10\n"
            "thread (23): QueueFeeder;_feed (multiprocessing/queues.py:2) 30\n"
        ),
        24: parse_stacks(f"thread (24): MainThread;{fork};compile (torch/_inductor/compile_worker.py:1) 30\n"),
    }
    is_own = lambda file: path if (path := tmp_path / file).is_file() else None  # noqa: E731
    waiting, other, threads = code_lines(stacks, 7, workers, is_own, tmp_path)
    assert [(line.file, line.line, line.share) for line in waiting] == [("pkg/data.py", 4, 0.75), ("train.py", 9, 0.25)]
    assert [(line.file, line.line, line.share) for line in other] == [("train.py", 11, 0.9)]
    assert [(each.name, [(line.file, line.line, line.share) for line in each.lines]) for each in threads] == [
        ("worker processes", [("pkg/data.py", 4, pytest.approx(2 / 3))]),
        ("other", [("train.py", 30, 1.0)]),
    ]


def test_fragmentation_is_the_unused_share_of_the_reserved_memory(tmp_path: Path) -> None:
    found = ScriptObserver(lambda: False, tmp_path, tmp_path, 1.0, experiments=False)
    assert memory_of(found).fragmentation is None
    found.events.memory = {"peak": 6_000, "reserved": 8_000, "limit": 10_000}
    memory = memory_of(found)
    assert (memory.device_peak, memory.fragmentation, memory.device_limit) == (6_000, 0.25, 10_000)


def test_ranks_are_compared_in_their_common_steps(tmp_path: Path) -> None:
    found = ScriptObserver(lambda: False, tmp_path, tmp_path, 1.0, experiments=False, ranked=True)
    assert (ranks_of(found), slow_rank_of(found, 0.1)) == ([], None)
    found.others = {1: ScriptEvents(tmp_path)}
    for number in range(100):
        jitter = 1e-5 * (number * 7 % 10)
        found.events.parts[number] = (0.01 + jitter, 0.02, None, None)
        found.others[1].parts[number + 20] = (0.01 + jitter, 0.03 + jitter, None, None)
    first, second = ranks_of(found)
    assert (first.rank, second.rank, first.steps, second.steps) == (0, 1, 80, 80)
    assert first.parts == {"input": pytest.approx(0.01, rel=0.01), "forward": pytest.approx(0.02)}
    slow = slow_rank_of(found, 0.1)
    assert slow
    assert (slow.rank, slow.part, slow.delay_s) == (1, "forward", pytest.approx(0.01, rel=0.01))


@pytest.mark.parametrize(
    ("loader", "workers", "named"),
    [
        (None, None, "worker"),
        ("_SingleProcessDataLoaderIter", 0, "num_workers=4"),
        ("_MultiProcessingDataLoaderIter", 4, "in advance"),
        ("OwnedIterator", None, "num_parallel_calls"),
    ],
)
def test_advice_on_input_depends_on_the_loader(loader: str | None, workers: int | None, named: str) -> None:
    assert named in help_input(loader, workers, 4)
