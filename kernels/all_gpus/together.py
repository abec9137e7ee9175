"""Task that runs one GPU kernel on all visible GPUs at the same time, timed on each GPU by CUDA events.

The measurement consists of windows of half a second. In each window every GPU repeats the kernel as often as fits, so
that no GPU finishes early and leaves its share of the node's power and cooling to the others. One host thread per GPU
enqueues the work; this takes a few milliseconds, during which the GPU already executes. The result is the sum of the
rates of all GPUs. Not measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from importlib import import_module
from math import ceil
from statistics import median
from threading import Barrier
from typing import TypeVar

from accelbench.kernels.all_gpus.card import Card
from accelbench.kernels.all_gpus.comparison import compare
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.machine.nvidia.cuda import library
from accelbench.profiling.machine.nvidia.libcuda import Driver
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Point, Scalar
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

WINDOW_S = 0.5
"""Length of a window in seconds: long compared with the milliseconds in which the threads start."""
TRIAL = 20
"""Executions on each GPU from which the number of executions per window is estimated."""

Result = TypeVar("Result")


def prepare(point: Point, module: str, params: Mapping[str, Scalar]) -> Task:
    """Return a task that runs the task of `kernels.<module>` on every visible GPU at the same time.

    `params` are defaults for the parameters of the point. Skip if the GPUs are of different models, or if one of them
    does not support the kernel.
    """
    library("cupy")
    devices = Driver().devices()
    models = sorted({device.name for device in devices})
    if len(models) > 1:
        found = ", ".join(models)
        raise Skip(f"only GPUs of one model can be compared, found {found}: select them by CUDA_VISIBLE_DEVICES")
    cards = [Card(index, device.pci_bus_id) for index, device in enumerate(devices)]
    one = replace(point, params={**params, **point.params})
    for card in cards:  # one after the other, because each generates its inputs in host memory
        card.prepare(import_module(f"accelbench.kernels.{module}").prepare, one).result()
    return CardGroup(cards).task()


class CardGroup:
    """GPUs with prepared tasks."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self.cards = cards
        self._work([1] * len(cards))
        self.executions = [max(1, ceil(WINDOW_S / seconds)) for seconds in self._work([TRIAL] * len(cards))]
        """Executions of each GPU in one window."""
        self.windows: list[list[float]] = []
        """Executions per second of each GPU, for every measured window."""

    def task(self) -> Task:
        """Return the task that measures all GPUs: one execution is one window."""
        return Task(
            run=lambda: self._work(self.executions),
            verify=self.verify,
            work=self.work,
            timer="host",
            metrics=lambda _seconds: self.metrics(),
            sample=self.sample,
            layout=Layout(devices=len(self.cards)),
        )

    @property
    def work(self) -> Work:
        """Work of all GPUs in one window."""
        one, times = self.cards[0].task.work, sum(self.executions)
        return replace(
            one,
            flops=one.flops and times * one.flops,
            bytes=one.bytes and times * one.bytes,
        )

    def sample(self, windows: int) -> float:
        """Return the mean seconds per window: the work of a window divided by the sum of the GPUs' rates."""
        total = 0.0
        for _ in range(windows):
            rates = [1 / seconds for seconds in self._work(self.executions)]
            self.windows.append(rates)
            total += sum(self.executions) / sum(rates)
        return total / windows

    def metrics(self) -> dict[str, Metric]:
        """Return the median rate of each GPU, and their comparison."""
        one = self.cards[0].task.work
        amount, unit = (one.flops, "FLOP/s") if one.flops else (one.bytes or 0.0, "B/s")
        rates = {
            card.name: amount * median(rates)
            for card, rates in zip(self.cards, zip(*self.windows, strict=True), strict=True)
        }
        return compare(rates, unit)

    def verify(self) -> Verification:
        """Verify the results of all GPUs concurrently; return the first failure, with the names of all failed GPUs."""
        outcomes = _all([card.verify() for card in self.cards])
        wrong = [(card, outcome) for card, outcome in zip(self.cards, outcomes, strict=True) if not outcome.passed]
        if wrong:
            names, shown = " and ".join(card.name for card, _ in wrong), wrong[0][1]
            return replace(shown, method=f"{names}: {shown.method}")
        worst = max(outcomes, key=lambda outcome: outcome.error or 0.0)
        return replace(worst, method=f"on each of {len(outcomes)} cards: {worst.method}")

    def _work(self, executions: Sequence[int]) -> list[float]:
        """Return the seconds of one execution on each GPU while all of them execute."""
        start = Barrier(len(self.cards))
        return _all([card.work(count, start) for card, count in zip(self.cards, executions, strict=True)])


def _all(running: Sequence[Future[Result]]) -> list[Result]:
    """Wait for all futures and return their results; raise the exception of the first one that failed."""
    for future in running:
        future.exception()
    return [future.result() for future in running]
