"""Isolated times of a distributed training step: steps without exchange, and exchanges without steps."""

from __future__ import annotations

from time import perf_counter

from accelbench.profiling.benchmark import Training
from accelbench.profiling.ranks.world import PROGRESS
from accelbench.profiling.records.step import IsolatedTimes
from accelbench.profiling.timing.steps import StepClock, train_until

ISOLATED_S = 15.0
"""Duration of training without exchange, in seconds; longer if `FEWEST` steps take longer."""
FEWEST, MOST = 12, 60
"""Smallest and largest number of recorded steps without exchange."""
EXCHANGES = 20
"""Number of timed exchanges."""
UNTIMED = 3
"""Number of warm-up exchanges: the first waits for ranks that are still training."""


def measure_isolated(training: Training) -> IsolatedTimes | None:
    """Time steps without exchange, then exchanges without steps, on all ranks at the same time.

    Returns None if the exchange cannot be separated from the steps. The model is not usable afterwards.
    """
    if training.exchange is None:
        return None
    clock, begin, inputs = StepClock(), perf_counter(), PROGRESS.seconds["input"]
    begun = PROGRESS.steps

    def over() -> bool:
        steps = len(clock.samples())
        return steps >= MOST or (steps >= FEWEST and perf_counter() - begin > ISOLATED_S)

    while not clock.samples() or (len(clock.samples()) < FEWEST and perf_counter() - begin < ISOLATED_S):
        train_until(training.exchange.train_isolated, over, clock.callback())
    steps = max(1, PROGRESS.steps - begun)
    waited = (PROGRESS.seconds["input"] - inputs) / steps if PROGRESS.steps > begun else 0.0
    alone = []
    for number in range(UNTIMED + EXCHANGES):
        begin = perf_counter()
        training.exchange.exchange_isolated()
        if number >= UNTIMED:
            alone.append(perf_counter() - begin)
    return IsolatedTimes(apart_s=clock.samples()[:MOST], input_s=waited, alone_s=alone, bytes=training.exchange.bytes)
