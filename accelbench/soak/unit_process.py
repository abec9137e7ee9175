"""Process of one logical CPU or GPU: `python -m accelbench.soak.unit_process FD`.

FD is its end of the channel to the soak. It receives `{"job": …}` (`UnitJob`), prepares and verifies all points, and
sends `ready` (`UnitReady`). After `{"begin": SECONDS}` it runs one point after the other for these seconds, or until
`{"end": true}` or the end of the channel. It sends `wrong` (`WrongResult`) for a wrong result, `window` (`UnitWindow`)
after each window, `problem` for an error, and `done` at the end.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from accelbench.execution.plan import discover
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices import DeviceKind, device_kind
from accelbench.profiling.machine.free_memory import share_machine
from accelbench.profiling.machine.placement import current_cpu
from accelbench.profiling.measure.point import require_vendor
from accelbench.profiling.ranks.channel import Channel
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.work import UNITS
from accelbench.profiling.timing.verification import detail_of
from accelbench.soak.bits import flip_bit
from accelbench.soak.checked_task import CheckedPass, CheckedTask, Inject
from accelbench.soak.messages import PointWindow, UnitJob, UnitReady, UnitWindow, WrongResult

MOST_WRONG = 20
"""Number of wrong results that a unit describes; all are counted."""


def main() -> None:
    """Run the job received on the descriptor in the first argument."""
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    message = channel.receive()
    if message is None:
        return  # the soak has ended
    try:
        UnitLoad(channel, str(message["unit"]), UnitJob.model_validate(message["job"])).run()
    except Exception as error:  # noqa: BLE001 - any error of a benchmark or driver is a problem of this unit
        channel.send(problem=f"{type(error).__name__}: {' '.join(str(error).split())}")


class UnitLoad:
    """Load of one unit, and the results that it sends."""

    def __init__(self, channel: Channel, unit: str, job: UnitJob) -> None:
        share_machine(job.processes)
        self._channel, self._unit, self._job = channel, unit, job
        self._tasks: list[tuple[Point, CheckedTask]] = []
        self._passes, self._wrong, self._begin = 0, 0, perf_counter()
        self._rng = np.random.default_rng(job.flip)
        self._flipped: str | None = None
        self._ends = False

    def run(self) -> None:
        """Prepare, wait for the begin, and run until the end."""
        skipped = {}
        for point in self._job.points:
            try:
                self._prepare(point)
            except Skip as reason:
                skipped[str(point)] = str(reason)
        ready = UnitReady(points={str(point): unit_of(point, task) for point, task in self._tasks}, skipped=skipped)
        self._channel.send(ready=ready.model_dump())
        message = self._channel.receive()
        if message is None or "begin" not in message or not self._tasks:
            return
        if self._job.flip is not None:
            self._flipped = str(self._tasks[int(self._rng.integers(len(self._tasks)))][0])
        self._begin = perf_counter()
        self._load(float(message["begin"]))
        self._channel.send(done=True)

    def _prepare(self, point: Point) -> None:
        benchmark = discover()[point.benchmark]
        require_vendor(benchmark, point)
        task = benchmark.prepare(point)
        if not isinstance(task, Task) or task.together:
            raise Skip("only kernels of one process can be soaked")
        checked = CheckedTask(task, execution(task, device_kind(point.device)))
        first = checked.verify()
        if first.is_right:
            self._tasks.append((point, checked))
        else:
            self._report(point, first, 0, 0.0)

    def _load(self, seconds: float) -> None:
        """Run all points in each window, each for an equal part of it."""
        slice_s, number = self._job.window_s / len(self._tasks), 0
        while number * self._job.window_s < seconds:
            windows: dict[str, PointWindow] = {}
            for place, (point, task) in enumerate(self._tasks):
                end = min(number * self._job.window_s + (place + 1) * slice_s, seconds)
                windows[str(point)] = self._slice(point, task, end)
                if self._has_to_end():
                    self._send_window(number, windows)
                    return
            self._send_window(number, windows)
            number = max(number + 1, int((perf_counter() - self._begin) / self._job.window_s))

    def _slice(self, point: Point, task: CheckedTask, end: float) -> PointWindow:
        """Run a point at least once, until the time `end` after the begin, or until the soak ends the load."""
        amount = task.task.work.amount(discover()[point.benchmark].metric) or 0.0
        passes, seconds = 0, 0.0
        while not passes or (perf_counter() - self._begin < end and not self._has_to_end()):
            self._passes += 1
            inject = self._take_injection(point)
            found = task.run(inject)
            passes, seconds = passes + 1, seconds + found.seconds
            if not found.is_right:
                self._report(point, found, self._passes, perf_counter() - self._begin, inject is not None)
        return PointWindow(passes=passes, work=passes * amount, seconds=seconds)

    def _take_injection(self, point: Point) -> Inject | None:
        """Return the function that flips a bit, once in the first pass of the chosen point."""
        if str(point) != self._flipped:
            return None
        self._flipped = None
        return lambda arrays: flip_bit(arrays, self._rng)

    def _has_to_end(self) -> bool:
        self._ends = self._ends or self._channel.receive(0) is not None or not self._channel.open
        return self._ends

    def _send_window(self, number: int, windows: Mapping[str, PointWindow]) -> None:
        window = UnitWindow(number=number, points=dict(windows), wrong_passes=self._wrong)
        self._channel.send(window=window.model_dump())

    def _report(self, point: Point, found: CheckedPass, number: int, at_s: float, injected: bool = False) -> None:
        self._wrong += 1
        if self._wrong > MOST_WRONG:
            return
        details: dict[str, Any] = {}
        if difference := found.difference:
            details = vars(difference) | {"flipped": difference.flipped}
        elif verification := found.verification:
            details = {"found": detail_of(verification), "expected": verification.method}
        wrong = WrongResult(
            unit=self._unit, point=str(point), at_s=at_s, number=number, cpu=current_cpu(), injected=injected, **details
        )
        self._channel.send(wrong=wrong.model_dump())


def execution(task: Task, kind: DeviceKind) -> Callable[[], object]:
    """Return a function that runs the task once to its end, on the default stream of an asynchronous device."""
    if not (kind.asynchronous and task.timer == "device"):
        return task.run

    def run_and_wait() -> None:
        task.run(0)
        kind.synchronize()

    return run_and_wait


def unit_of(point: Point, task: CheckedTask) -> str:
    """Return the unit of a point's throughput."""
    metric = discover()[point.benchmark].metric
    if metric == "time":
        return "executions/s"
    return UNITS.get(metric) or f"{task.task.work.item}/s"


if __name__ == "__main__":
    main()
