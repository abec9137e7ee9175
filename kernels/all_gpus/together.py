"""A GPU task on all visible GPUs at the same time, timed on each by its own events.

All cards work through windows of half a second. In each window a card repeats the work as often as it can in that
time, so that none ends early and leaves the others its share of the node's power and cooling. The events of CUDA on the
card's stream time it. Host threads enqueue the work, one per card; that takes each a few milliseconds, which the cards
spend working. The rate is the sum over the cards. Not measured yet on a GPU.
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
"""The seconds of a window: many times the milliseconds in which the threads start, yet a dozen fit in some seconds."""
TRIAL = 20
"""The executions of each card by whose time the number in a window is chosen."""

Result = TypeVar("Result")


def prepare(point: Point, module: str, params: Mapping[str, Scalar]) -> Task:
    """Return the task of that module under `kernels` on every visible card at once; `params` join those of the point.

    Skip where the cards are of several models, or where one of them cannot do the work.
    """
    library("cupy")
    devices = Driver().devices()
    models = sorted({device.name for device in devices})
    if len(models) > 1:
        found = ", ".join(models)
        raise Skip(f"only cards of one model can be compared, and here are {found}: choose by CUDA_VISIBLE_DEVICES")
    cards = [Card(index, device.pci_bus_id) for index, device in enumerate(devices)]
    one = replace(point, params={**params, **point.params})
    for card in cards:  # one after the other, because each draws its inputs in host memory
        card.prepare(import_module(f"accelbench.kernels.{module}").prepare, one).result()
    return CardGroup(cards).task()


class CardGroup:
    """Cards whose work is prepared."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self.cards = cards
        self._work([1] * len(cards))
        self.executions = [max(1, ceil(WINDOW_S / seconds)) for seconds in self._work([TRIAL] * len(cards))]
        """The executions of each card in one window."""
        self.windows: list[list[float]] = []
        """Executions per second of each card, in every window that was measured."""

    def task(self) -> Task:
        """Return the task that measures the cards: one execution is a window."""
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
        """Return the work of all cards in a window."""
        one, times = self.cards[0].task.work, sum(self.executions)
        return replace(
            one,
            flops=one.flops and times * one.flops,
            bytes=one.bytes and times * one.bytes,
        )

    def sample(self, windows: int) -> float:
        """Return the seconds in which all cards do the work of one window, at the sum of their rates."""
        total = 0.0
        for _ in range(windows):
            rates = [1 / seconds for seconds in self._work(self.executions)]
            self.windows.append(rates)
            total += sum(self.executions) / sum(rates)
        return total / windows

    def metrics(self) -> dict[str, Metric]:
        """Return each card's median rate, and what the rates tell of each other."""
        one = self.cards[0].task.work
        amount, unit = (one.flops, "FLOP/s") if one.flops else (one.bytes or 0.0, "B/s")
        rates = {
            card.name: amount * median(rates)
            for card, rates in zip(self.cards, zip(*self.windows, strict=True), strict=True)
        }
        return compare(rates, unit)

    def verify(self) -> Verification:
        """Check all cards' answers at the same time; return the first wrong one, with all wrong cards' names."""
        outcomes = _all([card.verify() for card in self.cards])
        wrong = [(card, outcome) for card, outcome in zip(self.cards, outcomes, strict=True) if not outcome.passed]
        if wrong:
            names, shown = " and ".join(card.name for card, _ in wrong), wrong[0][1]
            return replace(shown, method=f"{names}: {shown.method}")
        worst = max(outcomes, key=lambda outcome: outcome.error or 0.0)
        return replace(worst, method=f"on each of {len(outcomes)} cards: {worst.method}")

    def _work(self, executions: Sequence[int]) -> list[float]:
        """Return the seconds of one execution on each card, while all work."""
        start = Barrier(len(self.cards))
        return _all([card.work(count, start) for card, count in zip(self.cards, executions, strict=True)])


def _all(running: Sequence[Future[Result]]) -> list[Result]:
    """Return what all return, once the last of them has ended; raise what the first of them raised."""
    for future in running:
        future.exception()
    return [future.result() for future in running]
