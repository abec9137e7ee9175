"""The host timer: it stops for a stated reason and keeps every sample."""

from __future__ import annotations

import random
import time
from functools import partial

import pytest

from accelbench.profiling.timing.host import (
    MIN_SAMPLE_SECONDS,
    MIN_SAMPLES,
    MIN_SECONDS,
    StoppingRule,
    choose_loops,
    sample_seconds,
    time_host,
)


def feed(rule: StoppingRule, samples: list[float]) -> int:
    """The number of samples that the rule took before it stopped."""
    for count, seconds in enumerate(samples, start=1):
        if rule.add(seconds, wall=seconds):
            return count
    pytest.fail("the rule never stopped")


def test_equal_samples_stop_as_soon_as_the_minimum_is_reached() -> None:
    rule = StoppingRule(max_seconds=15)
    assert feed(rule, [0.1] * 100) == MIN_SAMPLES
    assert rule.reason == "relative spread"


def test_short_samples_go_on_for_the_minimum_time() -> None:
    rule = StoppingRule(max_seconds=15)
    assert feed(rule, [0.001] * 10_000) == pytest.approx(MIN_SECONDS / 0.001, abs=1)


def test_noise_that_has_settled_stops() -> None:
    generator = random.Random(3)
    rule = StoppingRule(max_seconds=1e6)
    count = feed(rule, [generator.gauss(1.0, 0.05) for _ in range(100_000)])
    assert rule.reason == "steady noise"
    assert count > 64


def test_drifting_samples_run_into_the_time_limit() -> None:
    rule = StoppingRule(max_seconds=5)
    feed(rule, [0.1 * 1.3**i for i in range(100)])
    assert rule.reason == "time limit"


def test_one_slow_execution_is_a_sample_too() -> None:
    rule = StoppingRule(max_seconds=5)
    assert feed(rule, [30.0]) == 1
    assert rule.reason == "time limit"


def test_short_executions_are_looped_until_a_sample_is_long_enough() -> None:
    def run() -> None:
        time.sleep(20e-6)

    loops = choose_loops(partial(sample_seconds, run))
    assert loops > 1
    assert sample_seconds(run, loops) >= 20e-6
    timing = time_host(partial(sample_seconds, run), max_seconds=0.2)
    assert len(timing.samples) == timing.summary.count
    assert timing.summary.minimum >= 20e-6
    assert timing.summary.median * timing.loops >= MIN_SAMPLE_SECONDS / 2


def test_one_interruption_does_not_pass_for_a_long_sample() -> None:
    calls = 0

    def run() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            time.sleep(5 * MIN_SAMPLE_SECONDS)

    assert choose_loops(partial(sample_seconds, run)) > 2


def test_executions_are_neither_lost_nor_added() -> None:
    calls = 0

    def run() -> None:
        nonlocal calls
        calls += 1
        time.sleep(0.002)

    timing = time_host(partial(sample_seconds, run), max_seconds=0.1)
    # Three more samples were taken to choose the loops.
    assert calls == (len(timing.samples) + 3) * timing.loops
