"""Tests of the CPU time of steady steps: running, waiting for a CPU, and throttled by a quota."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from accelbench.profiling.analysis.bottleneck import QUOTA_SHARE, judge
from accelbench.profiling.host import steps_cpu
from accelbench.profiling.host.steps_cpu import CpuSnapshot, StepsCpu, cpu_between, read_moment
from accelbench.profiling.machine.environment.limits import Throttling
from accelbench.profiling.records.bottleneck import CpuTime
from accelbench.profiling.telemetry.totals import Schedule
from accelbench.profiling.timing.steps import WARMUP_STEPS
from tests.fixtures.machines import CGROUP_V2, build
from tests.fixtures.verdict_cases import Impossible, quota
from tests.requirements import not_tested

GROUP = Path("job")
BURN_S = 4.0


def moment(when_s: float, threads: dict[int, Schedule], throttled_s: float | None = None) -> CpuSnapshot:
    return CpuSnapshot(when_s, threads, {} if throttled_s is None else {GROUP: Throttling(0, throttled_s)})


def test_times_of_old_and_new_threads_add_up() -> None:
    begin = moment(1.0, {1: Schedule(5.0, 1.0), 2: Schedule(9.0, 9.0)}, 0.5)
    end = moment(3.0, {1: Schedule(6.5, 1.25), 3: Schedule(0.5, 0.25)}, 1.5)
    assert cpu_between(begin, end) == CpuTime(wall_s=2.0, run_s=2.0, wait_s=0.5, longest_wait_s=0.25, throttled_s=1.0)


def test_without_kernel_counters_the_cpu_time_is_none(tmp_path: Path) -> None:
    assert cpu_between(read_moment(tmp_path), read_moment(tmp_path)) is None


def test_kernel_files_are_parsed(tmp_path: Path) -> None:
    root = build(tmp_path, CGROUP_V2, {"proc/self/task/8/schedstat": "1500000000 250000000 9"})
    found = read_moment(root)
    assert found.threads == {8: Schedule(1.5, 0.25)}
    assert [throttling.seconds for throttling in found.throttling.values()] == [0.5, 1.5]


@pytest.mark.slow
def test_only_the_steps_that_are_samples_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first epoch runs from 10 s to 20 s with a warm-up until 16 s, the second from 100 s to 110 s."""
    now = 0.0

    def read() -> CpuSnapshot:
        return moment(now, {1: Schedule(now / 2, now / 10)})

    monkeypatch.setattr(steps_cpu, "read_moment", read)
    watch = StepsCpu()
    callback: Any = watch.callback()
    for begin, steps in ((10.0, 10), (100.0, 10)):
        now = begin
        callback.on_epoch_begin(0)
        for step in range(steps):
            now = begin + step + 1
            callback.on_train_batch_end(step)
        callback.on_epoch_end(0)
    seconds = (10.0 - (WARMUP_STEPS + 1)) + 10.0
    found = watch.result()
    assert found is not None
    assert (found.wall_s, found.run_s, found.wait_s) == pytest.approx((seconds, seconds / 2, seconds / 10))
    assert found.throttled_s is None


def test_a_training_that_ends_in_its_warm_up_has_no_cpu_time() -> None:
    assert StepsCpu().result() is None


def burn() -> CpuTime | None:
    """Keep a CPU busy for a few seconds; return the CPU time."""
    begin = read_moment()
    while time.perf_counter() - begin.when_s < BURN_S:
        pass
    return cpu_between(begin, read_moment())


@pytest.mark.slow
@pytest.mark.needs("cpu-quota")
@pytest.mark.parametrize(
    ("quota_us", "period_us", "above"), [(5_000, 100_000, False), (50_000, 1_000_000, False), (1_000, 20_000, True)]
)
def test_a_real_quota_is_detected_at_any_period_in_the_own_group_or_above(
    quota_us: int, period_us: int, above: bool
) -> None:
    try:
        with (
            quota(quota_us, period_us, above=above)() as join,
            ProcessPoolExecutor(1, mp_context=get_context("fork"), initializer=join) as pool,
        ):
            found = pool.submit(burn).result()
    except Impossible as reason:
        not_tested("cpu-quota", str(reason))
    assert found is not None
    assert found.stopped is not None
    assert found.stopped > QUOTA_SHARE, found
    assert judge({"device": 1.0}, source="trace", cpu=found).bound == "cpu-quota-bound"
