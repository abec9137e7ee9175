"""Blocks of training steps: their choice by what others used, and the statistics of the chosen blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.analysis.course import condition_of
from accelbench.profiling.analysis.rounds import join
from accelbench.profiling.records.timing import LEAST_CLEAN, Timing
from accelbench.profiling.timing import steps as steps_module
from accelbench.profiling.timing.blocks import (
    BLOCK_S,
    OTHERS_CPUS,
    OTHERS_SHARE,
    ROUNDING_S,
    BlockCounters,
    BlockLog,
    mark_exceeding,
)
from accelbench.profiling.timing.causes import BlockSource, CauseReading, overlap_s
from accelbench.profiling.timing.host import without_shared
from accelbench.profiling.timing.statistics import summarize
from accelbench.profiling.timing.steady import steady_of_chosen, steady_steps
from accelbench.profiling.timing.steps import WARMUP_STEPS, StepClock, timing_of_steps
from tests.fixtures.report_records import record

CPUS = 2
TICKS = st.integers(0, 100)


class MadeUpMachine:
    """Clock and counters that a test advances: a step at a time, beside other work."""

    def __init__(self, source: BlockSource = "others", own_cpus: float = CPUS) -> None:
        self.source: BlockSource = source
        self.cpus, self.lines = CPUS, 1
        self.own_cpus, self.now_s, self.counters = own_cpus, 1000.0, BlockCounters()
        self.closed = False

    def read(self) -> BlockCounters:
        return self.counters

    def find(self) -> None:
        """Do nothing: there are no descendants."""

    def close(self) -> None:
        self.closed = True

    def now(self) -> float:
        return self.now_s

    def now_ns(self) -> int:
        return round(self.now_s * 1e9)

    def run(self, seconds: float, others_s: float = 0.0, **counted: float) -> None:
        """Let the training run for this time, others use this CPU time, and further counters increase."""
        before = self.counters
        self.now_s += seconds
        own_s = self.own_cpus * seconds
        changes = {name: getattr(before, name) + value for name, value in counted.items()}
        self.counters = before._replace(busy_s=before.busy_s + own_s + others_s, own_s=before.own_s + own_s, **changes)

    def log(self, block_s: float = BLOCK_S) -> BlockLog:
        log = BlockLog(self, now=self.now)
        log.block_s = block_s
        return log


def train(
    monkeypatch: pytest.MonkeyPatch, machine: MadeUpMachine, epochs: Sequence[Sequence[Callable[[], None]]]
) -> StepClock:
    """Run epochs of steps on the made-up machine, with the callback of a step clock and its log."""
    monkeypatch.setattr(steps_module, "perf_counter_ns", machine.now_ns)
    clock = StepClock(machine.log())
    callback = clock.callback()
    callback.on_train_begin()
    for number, steps in enumerate(epochs):
        callback.on_epoch_begin(number)
        for place, step in enumerate(steps):
            step()
            callback.on_train_batch_end(place, {"loss": 1.0})
    callback.on_train_end()
    return clock


def timing_of(clock: StepClock, failure: str = "", shared: Sequence[tuple[float, float]] = ()) -> Timing:
    assert clock.log
    clock.log.finish()
    return timing_of_steps(clock, "epochs done", failure=failure, shared=shared)


@given(st.lists(st.tuples(TICKS, st.floats(0.25, 1.0)), min_size=1, max_size=40), st.sampled_from([1, 2, 8, 256]))
def test_the_blocks_that_are_left_had_little_other_work_one_by_one_and_together(
    blocks: Sequence[tuple[int, float]], cpus: int
) -> None:
    tolerated = min(OTHERS_SHARE * cpus, OTHERS_CPUS)
    readings = [CauseReading(place, 1, wall_s, others_s=ticks / 100) for place, (ticks, wall_s) in enumerate(blocks)]
    mark_exceeding(readings, "others", tolerated, ROUNDING_S)
    left = [reading for reading in readings if not reading.exceeds]
    assert all(each.others_s <= tolerated * each.wall_s + ROUNDING_S for each in left)
    assert sum(each.others_s for each in left) <= tolerated * sum(each.wall_s for each in left) + ROUNDING_S + 1e-9
    share = max((each.others_s / each.wall_s for each in left), default=0.0)
    assert all(each.others_s / each.wall_s >= share - 1e-9 for each in readings if each.exceeds), "others took less"
    again = [reading.exceeds for reading in readings]
    mark_exceeding(readings, "others", tolerated, ROUNDING_S)
    assert [reading.exceeds for reading in readings] == again


def test_rounding_to_ticks_disturbs_no_block() -> None:
    readings = [CauseReading(place, 1, BLOCK_S, others_s=0.02 * (-1) ** place) for place in range(40)]
    mark_exceeding(readings, "others", OTHERS_SHARE * CPUS, ROUNDING_S)
    assert not any(reading.exceeds for reading in readings)


def test_work_within_the_rounding_of_every_block_disturbs_their_sum() -> None:
    readings = [CauseReading(place, 1, BLOCK_S, others_s=0.025) for place in range(40)]
    mark_exceeding(readings, "others", OTHERS_SHARE * CPUS, ROUNDING_S)
    assert sum(reading.exceeds for reading in readings) > 35


@pytest.mark.parametrize("name", ["stolen_s", "throttled_s"])
@pytest.mark.parametrize("source", ["others", "launches"])
def test_steal_and_quota_are_time_of_others(name: str, source: BlockSource) -> None:
    readings = [CauseReading(0, 1, BLOCK_S), CauseReading(1, 1, BLOCK_S)]
    setattr(readings[1], name, 0.1)
    mark_exceeding(readings, source, OTHERS_SHARE * CPUS, ROUNDING_S)
    assert [reading.is_disturbed(source) for reading in readings] == [False, True]


def test_only_the_launching_thread_counts_on_a_gpu() -> None:
    beside = CauseReading(0, 1, BLOCK_S, others_s=0.25)
    waited = CauseReading(1, 1, BLOCK_S, waited_s=0.02, switches=3)
    mark_exceeding([beside, waited], "launches", OTHERS_SHARE * CPUS, ROUNDING_S)
    assert not beside.is_disturbed("launches")
    assert waited.is_disturbed("launches")
    assert CauseReading(2, 1, BLOCK_S, card_s=0.1).is_disturbed("launches")


@settings(max_examples=25)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.floats(0.01, 0.6))
def test_every_steady_step_is_in_one_block_with_its_samples(epochs: Sequence[int], step_s: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        machine = MadeUpMachine()
        clock = train(patch, machine, [[lambda: machine.run(step_s)] * steps for steps in epochs])
    assert clock.log
    readings = clock.log.finish()
    assert machine.closed
    samples, steady = clock.samples(), sum(map(len, clock.steady()))
    covered = [step for first, end in clock.log.steps for step in range(first, end)]
    assert covered == list(range(steady)) or not readings
    assert sum(reading.count for reading in readings) == len(samples) or not readings
    assert [reading.first for reading in readings] == [0, *accumulate(each.count for each in readings)][:-1]
    assert all(reading.count for reading in readings)
    for before, after in pairwise(clock.log.times):
        assert before[1] == after[0]
    whole = sum(reading.wall_s for reading in readings)
    assert whole == pytest.approx(sum(map(sum, clock.steady()))) or not readings


def test_the_statistics_are_of_the_blocks_without_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = MadeUpMachine()

    def quiet() -> None:
        machine.run(0.1)

    def beside() -> None:
        machine.run(0.2, others_s=0.2)

    warm_up = [quiet] * (1 + WARMUP_STEPS)
    clock = train(monkeypatch, machine, [warm_up + ([quiet] * 3 + [beside] * 2) * 20])
    timing = timing_of(clock)
    assert timing.upper_bound is None
    assert timing.causes
    assert timing.causes.source == "others"
    assert sum(timing.causes.count) == 40
    assert sum(timing.causes.others_s) == pytest.approx(8.0)
    assert timing.clean_share == pytest.approx(0.6)
    assert timing.used == pytest.approx([0.1] * 60)
    assert timing.steady
    assert timing.steady.mean == pytest.approx(0.1)
    assert timing.execution.seconds == pytest.approx(0.1)
    assert Timing.model_validate_json(timing.model_dump_json()) == timing


def test_too_few_clean_blocks_are_a_bound_by_the_least_disturbed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = MadeUpMachine()
    steps = [lambda: machine.run(0.1)] * (1 + WARMUP_STEPS)
    for place in range(60):
        busy = 0.5 + 0.5 * (place >= 3 * LEAST_CLEAN)
        steps.append(lambda busy=busy: machine.run(0.1 * (1 + busy), others_s=0.1 * busy))  # type: ignore[misc]
    timing = timing_of(train(monkeypatch, machine, [steps]), failure="and why")
    assert timing.clean_share == 0
    assert timing.steady
    assert timing.upper_bound
    assert timing.upper_bound.endswith("and why")
    assert timing.execution.seconds == pytest.approx(0.15)
    assert timing.used == pytest.approx([0.15] * len(timing.used))
    found = record("paradnn", timing=timing)
    assert condition_of(found) == "bound"
    assert found.bound_sign("items") == "≥ "


@pytest.mark.parametrize(("own_cpus", "delay"), [(1.6, 0.03), (0.9, 0.0)], ids=["no idle CPU", "an idle CPU"])
def test_the_interval_contains_the_delay_by_tolerated_work(
    monkeypatch: pytest.MonkeyPatch, own_cpus: float, delay: float
) -> None:
    machine = MadeUpMachine(own_cpus=own_cpus)
    timing = timing_of(train(monkeypatch, machine, [[lambda: machine.run(0.1, others_s=0.003)] * 100]))
    assert timing.clean_share == 1
    assert timing.steady
    assert timing.steady.ci_low == pytest.approx(0.1 * (1 - delay))
    assert timing.steady.ci_high == pytest.approx(0.1)


def step_beside_bursts(
    machine: MadeUpMachine, rng: np.random.Generator, busy_share: float, burst_s: float
) -> Callable[[], None]:
    """Return a step of 20 ms that waits for the slower of two threads; bursts take half of the CPU of one of them."""
    pause_s = burst_s / busy_share * (1 - busy_share)
    is_busy, left_s = False, rng.exponential(pause_s)

    def step() -> None:
        nonlocal is_busy, left_s
        work_s = 0.02 * rng.normal(1, 0.01)
        while work_s > 1e-9:
            speed, machine.own_cpus = (0.5, 1.2) if is_busy else (1.0, 1.6)
            seconds = min(work_s / speed, left_s)
            machine.run(seconds, others_s=0.5 * seconds * is_busy)
            work_s, left_s = work_s - seconds * speed, left_s - seconds
            if left_s <= 1e-9:
                is_busy = not is_busy
                left_s = rng.exponential(burst_s if is_busy else pause_s) + 1e-6

    return step


@pytest.mark.parametrize("burst_s", [0.001, 0.03, 1.0])
@pytest.mark.parametrize("busy_share", [0.05, 0.2, 0.6])
def test_bursts_of_other_work_give_an_interval_or_a_bound_that_is_true(
    monkeypatch: pytest.MonkeyPatch, busy_share: float, burst_s: float
) -> None:
    covered = 0
    for seed in range(10):
        machine = MadeUpMachine()
        step = step_beside_bursts(machine, np.random.default_rng(seed), busy_share, burst_s)
        timing = timing_of(train(monkeypatch, machine, [[step] * 500]))
        assert timing.steady
        if timing.upper_bound:
            covered += timing.steady.mean >= 0.02 * 0.995
        else:
            covered += timing.steady.ci_low <= 0.02 <= timing.steady.ci_high
            assert timing.steady.mean <= 0.02 * 1.06
    assert covered >= 8


def test_a_stopped_process_disturbs_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = MadeUpMachine()

    def sleep() -> None:
        machine.now_s += 60.0

    steps = [lambda: machine.run(0.1)] * 30
    timing = timing_of(train(monkeypatch, machine, [[*steps, sleep, *steps]]))
    assert timing.causes
    assert max(timing.causes.stopped_s) == pytest.approx(60, abs=1)
    assert timing.execution.seconds == pytest.approx(0.1)


def test_work_while_the_clock_is_stopped_is_in_no_block(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = MadeUpMachine()
    clock = StepClock()

    def step() -> None:
        machine.run(0.1)

    def step_after_evaluation() -> None:
        with clock.stop():
            machine.run(5.0, others_s=5.0)
        machine.run(0.1)

    clock.log = log = machine.log()
    monkeypatch.setattr(steps_module, "perf_counter_ns", machine.now_ns)
    callback = clock.callback()
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    for place, each in enumerate([step] * 20 + [step_after_evaluation] + [step] * 20):
        each()
        callback.on_train_batch_end(place, {"loss": 1.0})
    readings = log.finish()
    assert not any(reading.is_disturbed("others") for reading in readings)
    assert max(reading.wall_s for reading in readings) < 1
    assert max(clock.samples()) == pytest.approx(0.1)


def test_the_first_step_of_a_further_fit_is_in_no_block(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = MadeUpMachine()
    clock = train(monkeypatch, machine, [[lambda: machine.run(0.1)] * 20])
    callback = clock.callback()
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    for place in range(20):
        machine.run(9.0 if place == 0 else 0.1, others_s=9.0 if place == 0 else 0.0)
        callback.on_train_batch_end(place, {"loss": 1.0})
    timing = timing_of(clock)
    assert timing.clean_share == 1
    assert timing.used == timing.samples == pytest.approx([0.1] * (14 + 19))


def test_epoch_boundaries_keep_their_share_if_no_block_with_one_is_clean() -> None:
    epochs = [[3.0] + [1.0] * 9] * 10
    every = steady_steps(epochs)
    chosen = [(10 * epoch + 2, 10 * epoch + 10) for epoch in range(10)]
    found = steady_of_chosen(epochs, [True] * 10, chosen)
    assert found.mean == pytest.approx(every.mean)
    assert found.steps == 80
    assert steady_of_chosen(epochs, [False] * 10, [(0, 100)]).mean == pytest.approx(every.mean)
    assert steady_of_chosen(epochs, [True] * 10, [(0, 1)]) == every, "without a chosen step within an epoch"


@given(st.integers(0, 2**32 - 1))
def test_the_choice_does_not_bias_the_mean_of_steps_with_epoch_boundaries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    epochs = [[2.0, *rng.uniform(0.9, 1.1, 19)] for _ in range(20)]
    is_clean = rng.random(100) < 0.5
    chosen = [(4 * block, 4 * block + 4) for block in np.flatnonzero(is_clean)]
    found = steady_of_chosen(epochs, [True] * 20, chosen)
    assert found.mean == pytest.approx(steady_steps(epochs).mean, rel=0.02)


def test_joined_repetitions_leave_out_those_that_are_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    timings = []
    for busy in (1.0, 0.0, 0.0):
        machine = MadeUpMachine()
        step = lambda machine=machine, busy=busy: machine.run(0.1 * (1 + busy), others_s=0.1 * busy)  # noqa: E731
        timings.append(timing_of(train(monkeypatch, machine, [[step] * 60])))
    lines = [record("paradnn", timing=timing, round=number) for number, timing in enumerate(timings, 1)]
    joined = join(lines, planned=3)
    assert joined.timing is not None
    assert joined.timing.upper_bound is None
    assert joined.timing.execution.seconds == pytest.approx(0.1)
    assert [part.upper_bound is None for part in joined.rounds] == [False, True, True]
    bounds = join([lines[0], lines[0].model_copy(update={"round": 2})], planned=2)
    assert bounds.timing is not None
    assert bounds.timing.upper_bound
    assert bounds.timing.execution.seconds == pytest.approx(0.2)


def test_causes_without_newer_columns_are_read_and_joined() -> None:
    old = {"source": "schedstat", "used": [(0, 4)], "first": [4], "count": [1], "waited_s": [0.1], "switches": [1]}
    old |= {name: [0.0] for name in ("stolen_s", "throttled_s", "stopped_s")}
    plain = record("stream").timing
    assert plain
    timing = Timing.model_validate(plain.model_dump() | {"causes": old})
    assert timing.causes
    assert timing.causes.others_s == []
    joined = join([record("stream", timing=timing, round=number) for number in (1, 2)], planned=2)
    assert joined.timing
    assert joined.timing.causes
    assert joined.timing.causes.card_s == [0.0, 0.0]


def test_blocks_in_which_another_process_used_the_gpu_are_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = MadeUpMachine("launches", own_cpus=1)
    steps = [lambda: machine.run(0.1)] * 40 + [lambda: machine.run(0.3)] * 20 + [lambda: machine.run(0.1)] * 40
    clock = train(monkeypatch, machine, [steps])
    every = timing_of(clock)
    assert every.clean_share == 1
    timing = timing_of_steps(clock, "epochs done", shared=[(1003.9, 1006.0), (1005.0, 1010.1)])
    assert timing.causes
    assert timing.causes.source == "launches"
    assert sum(timing.causes.card_s) == pytest.approx(6.2)
    assert timing.execution.seconds == pytest.approx(0.1)
    assert timing.upper_bound is None


def test_samples_in_which_another_process_used_the_gpu_are_set_aside() -> None:
    plain = Timing(samples=[0.01] * 10 + [0.02] * 10, stop="time limit", timer="nvbench", summary=summarize([0.01]))
    launched = [0.1 * number for number in range(20)]
    timing = without_shared(plain, launched, [(0.95, 1.5), (1.4, 3.0)])
    assert timing.causes
    assert timing.causes.source == "card"
    assert timing.causes.first == list(range(9, 20))
    assert timing.used == [0.01] * 9
    assert timing.summary.median == 0.01
    assert timing.upper_bound is None
    assert without_shared(plain, launched, []) == plain
    assert without_shared(plain, [], [(0.0, 9.0)]) == plain, "the launch times are unknown"
    assert without_shared(plain, launched, [(0.0, 9.0)]).upper_bound


@given(st.lists(st.tuples(TICKS, TICKS), max_size=10), TICKS, TICKS)
def test_the_overlap_of_times_counts_each_moment_once(times: Sequence[tuple[int, int]], begin: int, end: int) -> None:
    ordered = sorted((min(pair), max(pair)) for pair in times)
    moments = {moment for first, last in ordered for moment in range(max(first, begin), min(last, end))}
    assert overlap_s(begin, end, ordered) == len(moments)
