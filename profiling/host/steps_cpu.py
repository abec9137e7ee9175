"""CPU time of a training workload's steady steps: time running, waiting and throttled by a quota."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from accelbench.profiling.machine.environment.limits import Throttling, collect_throttling, throttled_between
from accelbench.profiling.records.bottleneck import CpuTime
from accelbench.profiling.telemetry.totals import Schedule, read_schedules
from accelbench.profiling.timing.steps import WARMUP_STEPS


@dataclass(frozen=True)
class CpuSnapshot:
    """Cumulative kernel counters of this process at one time."""

    when_s: float
    threads: Mapping[int, Schedule]
    throttling: Mapping[Path, Throttling]


def read_moment(root: Path = Path("/")) -> CpuSnapshot:
    """Return the current counters."""
    return CpuSnapshot(perf_counter(), read_schedules(root), collect_throttling(root))


def cpu_between(begin: CpuSnapshot, end: CpuSnapshot) -> CpuTime | None:
    """Return the CPU time between two snapshots; None if the kernel has no per-thread counters.

    The time of threads that ended in between is missing: the sums are lower bounds.
    """
    if not end.threads:
        return None
    nothing = Schedule(0.0, 0.0)
    used = [(after, begin.threads.get(thread, nothing)) for thread, after in end.threads.items()]
    waits = [after.wait_s - before.wait_s for after, before in used]
    throttled = throttled_between(begin.throttling, end.throttling)
    return CpuTime(
        wall_s=end.when_s - begin.when_s,
        run_s=sum(after.run_s - before.run_s for after, before in used),
        wait_s=sum(waits),
        longest_wait_s=max(waits),
        throttled_s=throttled and throttled.seconds,
    )


class StepsCpu:
    """CPU time of the steps that count as samples, read at the start and end of each epoch, never within a step."""

    def __init__(self) -> None:
        self._steps = 0
        self._begin: CpuSnapshot | None = None
        self._found: list[CpuTime] = []

    def callback(self) -> Any:
        """Return a Keras callback; pass it first, so that other callbacks' work between epochs is not counted."""
        import keras

        watch = self

        class CpuTimeCallback(keras.callbacks.Callback):  # type: ignore[misc]
            def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
                if watch._steps > WARMUP_STEPS:
                    watch._begin = read_moment()

            def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
                watch._steps += 1
                if watch._steps == WARMUP_STEPS + 1:
                    watch._begin = read_moment()

            def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
                if watch._begin is not None and (found := cpu_between(watch._begin, read_moment())):
                    watch._found.append(found)
                watch._begin = None

        return CpuTimeCallback()

    def result(self) -> CpuTime | None:
        """Return the sums over the epochs; None without a complete epoch."""
        if not self._found:
            return None
        throttled = [each.throttled_s for each in self._found if each.throttled_s is not None]
        return CpuTime(
            wall_s=sum(each.wall_s for each in self._found),
            run_s=sum(each.run_s for each in self._found),
            wait_s=sum(each.wait_s for each in self._found),
            longest_wait_s=sum(each.longest_wait_s for each in self._found),
            throttled_s=sum(throttled) if throttled else None,
        )
