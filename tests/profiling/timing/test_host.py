"""Host timer: stopping rule, number of executions per sample, and completeness of the samples."""

from __future__ import annotations

import random
from collections.abc import Callable
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
    """Return the number of samples until the rule stopped."""
    for count, seconds in enumerate(samples, start=1):
        if rule.add(seconds, wall=seconds):
            return count
    pytest.fail("the rule never stopped")


def test_equal_samples_stop_at_the_minimum_number() -> None:
    rule = StoppingRule(max_seconds=15)
    assert feed(rule, [0.1] * 100) == MIN_SAMPLES
    assert rule.reason == "relative spread"


def test_short_samples_continue_for_the_minimum_time() -> None:
    rule = StoppingRule(max_seconds=15)
    assert feed(rule, [0.001] * 10_000) == pytest.approx(MIN_SECONDS / 0.001, abs=1)


def test_a_steady_noise_level_stops() -> None:
    generator = random.Random(3)
    rule = StoppingRule(max_seconds=1e6)
    count = feed(rule, [generator.gauss(1.0, 0.05) for _ in range(100_000)])
    assert rule.reason == "steady noise"
    assert count > 64


def test_drifting_samples_stop_at_the_time_limit() -> None:
    rule = StoppingRule(max_seconds=5)
    feed(rule, [0.1 * 1.3**i for i in range(100)])
    assert rule.reason == "time limit"


def test_one_execution_over_the_time_limit_is_a_sample() -> None:
    rule = StoppingRule(max_seconds=5)
    assert feed(rule, [30.0]) == 1
    assert rule.reason == "time limit"


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that takes the given seconds on the clock of the timer, whatever else the machine does."""
    now = 0

    def take(seconds: float) -> None:
        nonlocal now
        now += round(seconds * 1e9)

    monkeypatch.setattr("accelbench.profiling.timing.host.perf_counter_ns", lambda: now)
    return take


def test_short_executions_are_repeated_within_a_sample(take: Callable[[float], None]) -> None:
    sample = partial(sample_seconds, partial(take, 20e-6))
    assert choose_loops(sample) == 64
    assert sample(64) == pytest.approx(20e-6)
    timing = time_host(sample, max_seconds=0.2)
    assert len(timing.samples) == timing.summary.count > MIN_SAMPLES
    assert timing.loops == 64
    assert timing.summary.minimum == pytest.approx(20e-6)


@pytest.mark.parametrize("length", [5 * MIN_SAMPLE_SECONDS, 110 * MIN_SAMPLE_SECONDS])
def test_one_interruption_does_not_count_as_a_long_sample(length: float, take: Callable[[float], None]) -> None:
    calls = 0

    def run() -> None:
        nonlocal calls
        calls += 1
        take(length if calls == 3 else 1e-6)

    assert choose_loops(partial(sample_seconds, run)) > 2


def test_every_execution_belongs_to_a_sample(take: Callable[[float], None]) -> None:
    calls = 0

    def run() -> None:
        nonlocal calls
        calls += 1
        take(0.002)

    timing = time_host(partial(sample_seconds, run), max_seconds=0.1)
    # `choose_loops` takes three further samples.
    assert calls == (len(timing.samples) + 3) * timing.loops
