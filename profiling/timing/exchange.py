"""Isolated times of a distributed training step: steps without exchange, and exchanges without steps."""

from __future__ import annotations

from time import perf_counter

from accelbench.profiling.benchmark import Training
from accelbench.profiling.ranks.world import DOING
from accelbench.profiling.records.step import IsolatedTimes
from accelbench.profiling.timing.steps import StepClock, train_until

APART_S = 15.0
"""The seconds of training without exchange; more where `FEWEST` steps take longer."""
FEWEST, MOST = 12, 60
"""The least and the largest number of steps without exchange that are kept."""
EXCHANGES = 20
UNTIMED = 3
"""The number of exchanges before the timed ones: the first waits for the ranks that still train."""


def see_apart(training: Training) -> IsolatedTimes | None:
    """Train without exchange, then exchange without training; all ranks at once, and the model is of no more use.

    None where the replicas exchange nothing that can be left out.
    """
    if training.exchange is None:
        return None
    clock, begin, inputs = StepClock(), perf_counter(), DOING.seconds["input"]
    begun = DOING.steps

    def over() -> bool:
        steps = len(clock.samples())
        return steps >= MOST or (steps >= FEWEST and perf_counter() - begin > APART_S)

    while not clock.samples() or (len(clock.samples()) < FEWEST and perf_counter() - begin < APART_S):
        train_until(training.exchange.apart, over, clock.callback())
    steps = max(1, DOING.steps - begun)
    waited = (DOING.seconds["input"] - inputs) / steps if DOING.steps > begun else 0.0
    alone = []
    for number in range(UNTIMED + EXCHANGES):
        begin = perf_counter()
        training.exchange.alone()
        if number >= UNTIMED:
            alone.append(perf_counter() - begin)
    return IsolatedTimes(apart_s=clock.samples()[:MOST], input_s=waited, alone_s=alone, bytes=training.exchange.bytes)
