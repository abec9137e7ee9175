"""Causes of disturbed samples: their assignment to samples, the choice of samples, and upper bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.analysis.course import condition_of
from accelbench.profiling.analysis.rounds import join
from accelbench.profiling.records.timing import CAUSE_COLUMNS, LEAST_CLEAN, Timing
from accelbench.profiling.timing.causes import (
    STEAL_S,
    TICK_S,
    WAKE_S,
    CauseLog,
    CauseReading,
    MachineCounters,
    WaitCounters,
    WaitSource,
    choose_samples,
    mark_stops,
)
from accelbench.profiling.timing.host import MIN_SAMPLES, choose_loops, time_host, with_causes, without_causes
from accelbench.profiling.timing.statistics import summarize
from tests.fixtures.report_records import record


@pytest.fixture(autouse=True, scope="module")
def stopped_clock() -> Iterator[None]:
    """Stop the clock of the readings, whose samples are made up: an interruption would count as time between them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accelbench.profiling.timing.causes.perf_counter", lambda: 0.0)
        yield


class MadeUpCounters:
    """Counters that a test sets between samples."""

    def __init__(self, source: WaitSource = "schedstat") -> None:
        self.source: WaitSource | None = source
        self.now, self.machine_now = WaitCounters(), MachineCounters()
        self.closed = False

    def waits(self) -> WaitCounters:
        return self.now

    def machine(self) -> MachineCounters:
        return self.machine_now

    def close(self) -> None:
        self.closed = True

    def wait(self, seconds: float) -> None:
        """Let a thread be preempted for this time."""
        before = self.now
        waited = before.waited_ns + round(seconds * 1e9)
        self.now = before._replace(waited_ns=waited, slices=before.slices + 1, switches=before.switches + 1)

    def run(self, seconds: float) -> None:
        self.now = self.now._replace(cpu_s=self.now.cpu_s + seconds)

    def steal(self, seconds: float) -> None:
        self.machine_now = self.machine_now._replace(stolen_s=self.machine_now.stolen_s + seconds)


def log_of(counters: MadeUpCounters, read_every_s: float = 0.0, machine_every_s: float = 0.0) -> CauseLog:
    log = CauseLog(counters)
    log.read_every_s, log.machine_every_s = read_every_s, machine_every_s
    return log


def disturbed_samples(timing: Timing) -> set[int]:
    assert timing.causes
    pairs = zip(timing.causes.first, timing.causes.count, strict=True)
    return {sample for first, count in pairs for sample in range(first, first + count)}


@given(st.lists(st.tuples(st.floats(1e-3, 1e-2), st.booleans()), min_size=1, max_size=60), st.floats(0, 0.02))
def test_every_wait_is_assigned_to_its_sample_and_the_others_are_used(
    samples: Sequence[tuple[float, bool]], read_every_s: float
) -> None:
    counters = MadeUpCounters()
    log = log_of(counters, read_every_s)
    for seconds, is_disturbed in samples:
        counters.run(seconds)
        if is_disturbed:
            counters.wait(0.004)
        log.add(seconds)
    readings = log.finish()
    assert counters.closed
    assert [place for reading in readings for place in range(reading.first, reading.first + reading.count)] == list(
        range(len(samples))
    )
    assert sum(reading.waited_s for reading in readings) == pytest.approx(0.004 * sum(found for _, found in samples))
    for reading in readings:
        own = [is_disturbed for _, is_disturbed in samples[reading.first : reading.first + reading.count]]
        assert reading.is_disturbed(log.source) == any(own)
    times = [seconds for seconds, _ in samples]
    timing = Timing(samples=times, stop="time limit", timer="host", summary=summarize(times))
    timing = with_causes(timing, choose_samples(readings, log.source))
    clean = [time for place, time in enumerate(times) if place not in disturbed_samples(timing)]
    enough = len(clean) >= LEAST_CLEAN or 2 * len(clean) >= len(times)
    assert (timing.upper_bound is None) == enough
    assert timing.costs == timing.used
    if enough:
        assert timing.used == clean
        assert timing.clean_share == pytest.approx(len(clean) / len(times))
    if enough:
        assert timing.summary == summarize(timing.used)
    assert Timing.model_validate_json(timing.model_dump_json()) == timing


def test_the_wait_after_a_wake_up_on_an_idle_cpu_is_tolerated() -> None:
    woken = CauseReading(0, 1, wall_s=1e-3, waited_s=1.5 * WAKE_S, wakeups=2)
    preempted = CauseReading(0, 1, wall_s=1e-3, waited_s=1.5 * WAKE_S, switches=2)
    assert not woken.is_disturbed("schedstat")
    assert preempted.is_disturbed("schedstat")
    assert not CauseReading(0, 1, wall_s=1.0, waited_s=5e-3, switches=1).is_disturbed("schedstat")


def test_without_waiting_times_an_involuntary_switch_disturbs() -> None:
    assert CauseReading(0, 1, wall_s=1.0, switches=1).is_disturbed("switches")
    assert not CauseReading(0, 1, wall_s=1.0).is_disturbed("switches")


def steal_at(*samples: int, of: int = 100) -> list[int]:
    """Return the disturbed samples of 10 ms each, with a tick of steal in each of `samples`."""
    counters = MadeUpCounters()
    log = log_of(counters)
    for number in range(of):
        counters.run(0.01)
        if number in samples:
            counters.steal(TICK_S)
        log.add(0.01)
    return [reading.first for reading in log.finish() if reading.is_disturbed(log.source)]


def test_a_tick_of_steal_disturbs_the_samples_since_the_last_reading() -> None:
    assert steal_at(50) == [50]
    assert steal_at(20, 20 + round(2 * STEAL_S / 0.01)) == [20, 20 + round(2 * STEAL_S / 0.01)]


def test_frequent_steal_disturbs_all_samples_between_its_ticks() -> None:
    assert steal_at(40, 50) == list(range(40, 51))


def test_a_stop_is_recognised_in_a_busy_process_only() -> None:
    busy = [CauseReading(number, 1, wall_s=0.01, cpu_s=0.0099) for number in range(20)]
    stopped = CauseReading(20, 1, wall_s=60.0, cpu_s=0.01)
    mark_stops([*busy, stopped])
    assert [reading.stopped_s > 0 for reading in (*busy, stopped)] == [False] * 20 + [True]
    sleeping = [CauseReading(number, 1, wall_s=0.5, cpu_s=0.001) for number in range(20)]
    mark_stops(sleeping)
    assert not any(reading.stopped_s for reading in sleeping)


def test_an_upper_bound_is_of_the_least_disturbed_samples() -> None:
    waits = [0.5 - 0.01 * number for number in range(40)]
    readings = [
        CauseReading(number, 1, wall_s=1.0 + wait, waited_s=wait, switches=1) for number, wait in enumerate(waits)
    ]
    chosen = choose_samples(readings, "schedstat")
    assert chosen.upper_bound is not None
    assert chosen.causes.used == [(40 - LEAST_CLEAN, 40)]


def test_an_upper_bound_does_not_include_the_waiting_of_a_single_thread() -> None:
    serial = [CauseReading(place, 1, wall_s=0.03, waited_s=0.02, switches=2, cpu_s=0.01) for place in range(20)]
    parallel = [CauseReading(place, 1, wall_s=0.03, waited_s=0.02, switches=2, cpu_s=0.03) for place in range(20)]
    sleeping = [CauseReading(place, 1, wall_s=0.03, waited_s=0.02, switches=2, cpu_s=0.005) for place in range(20)]
    plain = Timing(samples=[0.03] * 20, stop="time limit", timer="host", summary=summarize([0.03] * 20))
    for readings, seconds in ((serial, 0.01), (parallel, 0.03), (sleeping, 0.03)):
        found = with_causes(plain, choose_samples(readings, "schedstat"))
        assert found.upper_bound
        assert found.summary.median == pytest.approx(seconds)
        assert found.summary.count == LEAST_CLEAN
        assert found.used == [0.03] * LEAST_CLEAN


def test_samples_of_one_reading_have_their_mean_in_an_upper_bound() -> None:
    times = [0.01, 0.03] * 10
    readings = [CauseReading(2 * place, 2, 0.04, waited_s=0.02, switches=2, cpu_s=0.02) for place in range(10)]
    plain = Timing(samples=times, stop="time limit", timer="host", summary=summarize(times))
    assert with_causes(plain, choose_samples(readings, "schedstat")).summary.minimum == pytest.approx(0.01)


def test_sampling_continues_until_enough_samples_are_clean() -> None:
    counters = MadeUpCounters()
    taken = 0

    def sample(loops: int) -> float:
        nonlocal taken
        taken += 1
        counters.run(0.2)
        if taken % 3:
            counters.wait(0.1)
        return 0.2

    timing = time_host(sample, 15, open_causes=lambda: log_of(counters))
    assert timing.upper_bound is None
    assert timing.summary.count == len(timing.used) >= MIN_SAMPLES
    assert timing.clean_share == pytest.approx(1 / 3, abs=0.05)


def test_the_number_of_executions_is_chosen_by_clean_samples() -> None:
    counters = MadeUpCounters()
    taken = 0

    def sample(loops: int) -> float:
        nonlocal taken
        taken += 1
        if taken % 5:
            counters.wait(0.01)
            return 1e-4 + 0.01 / loops
        return 1e-4

    assert choose_loops(sample, log_of(counters)) == 16
    taken = 0
    assert choose_loops(sample) < 16


def test_patience_ends_sampling_without_clean_samples() -> None:
    counters = MadeUpCounters()

    def sample(loops: int) -> float:
        counters.wait(0.1)
        return 0.2

    timing = time_host(sample, 0.02, patience_s=0.02, open_causes=lambda: log_of(counters))
    assert timing.stop == "time limit"
    assert timing.upper_bound is not None
    assert timing.clean_share == 0
    assert condition_of(record("matmul", timing=timing)) == "bound"
    every = without_causes(timing)
    assert (every.causes, every.upper_bound, every.summary.count) == (None, None, len(timing.samples))


def of_waits(times: Sequence[float], disturbed: Sequence[int]) -> Timing:
    readings = [
        CauseReading(number, 1, time, waited_s=time if number in disturbed else 0.0, switches=1)
        for number, time in enumerate(times)
    ]
    plain = Timing(samples=list(times), stop="time limit", timer="host", summary=summarize(times))
    return with_causes(plain, choose_samples(readings, "schedstat"))


def test_joined_repetitions_use_the_clean_samples_of_estimates() -> None:
    some = of_waits([1.0] * 10 + [5.0] * 10, range(10, 20))
    none = of_waits([7.0] * 20, range(20))
    every = of_waits([1.1] * 20, [])
    lines = [record("matmul", timing=timing, round=number) for number, timing in enumerate((some, none, every), 1)]
    joined = join(lines, planned=3)
    assert joined.timing is not None
    assert joined.timing.causes is not None
    assert joined.timing.used == [1.0] * 10 + [1.1] * 20
    assert joined.timing.used_by_repetition([20, 20, 20]) == [[1.0] * 10, [1.1] * 20]
    assert joined.timing.summary.median == pytest.approx(1.05)
    assert joined.timing.upper_bound is None
    assert disturbed_samples(joined.timing) == set(range(10, 40))
    assert [part.clean_share for part in joined.rounds] == [0.5, 0, 1]
    assert [part.upper_bound is None for part in joined.rounds] == [True, False, True]
    assert Timing.model_validate_json(joined.timing.model_dump_json()) == joined.timing


def test_a_point_without_an_estimate_is_a_bound() -> None:
    timings = [of_waits([seconds] * 20, range(20)) for seconds in (7.0, 6.0)]
    lines = [record("matmul", timing=timing, round=number) for number, timing in enumerate(timings, 1)]
    joined = join(lines, planned=2)
    assert joined.timing is not None
    assert joined.timing.upper_bound
    assert joined.timing.summary.median == 6.0
    assert condition_of(joined) == "bound"


@pytest.mark.parametrize(
    "changes",
    [
        {"used": []},
        {"used": [(0, 21)]},
        {"used": [(5, 3)]},
        {"first": [3, 1], "count": [1, 1]},
        {"first": [19], "count": [2]},
        {"waited_s": [0.1, 0.2]},
    ],
)
def test_causes_that_do_not_fit_the_samples_are_refused(changes: dict[str, object]) -> None:
    good = of_waits([1.0] * 20, [3]).model_dump()
    Timing.model_validate(good)
    causes = good["causes"] | changes
    if "first" in changes:
        size = len(causes["first"])
        causes |= {name: [0] * size for name in CAUSE_COLUMNS if name not in ("first", "count")}
    with pytest.raises(ValueError, match="causes"):
        Timing.model_validate(good | {"causes": causes})
