"""Experiment on the input: steps with batches from memory, compared with the measured ones and with the verdict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelbench.profiling.records.bottleneck import Bottleneck, PrefetchedSteps
from accelbench.profiling.records.timing import SteadySteps
from accelbench.profiling.timing.steady import steady_steps

MATTERS, LARGEST = 1.1, 2.0
"""Speedup by the experiment from which the input matters, and from which it takes more than half of a step."""


def compare_prefetched(
    measured: SteadySteps | None, seconds: Sequence[float], same_random_numbers: bool = True
) -> PrefetchedSteps | None:
    """Return the steps of the experiment, given by their seconds, compared with the measured ones; None without any."""
    if measured is None or not seconds:
        return None
    without = steady_steps([list(seconds)])
    # Both intervals are symmetric in logarithms, and the step times are independent.
    halves = [np.log(each.ci_high / each.mean) for each in (measured, without)]
    speedup, half = measured.mean / without.mean, float(np.hypot(*halves))
    return PrefetchedSteps(
        steps=without.steps,
        mean=without.mean,
        ci_low=without.ci_low,
        ci_high=without.ci_high,
        speedup=speedup,
        speedup_low=float(speedup * np.exp(-half)),
        speedup_high=float(speedup * np.exp(half)),
        same_random_numbers=same_random_numbers,
    )


def checked(verdict: Bottleneck, prefetched: PrefetchedSteps | None) -> Bottleneck:
    """Return the verdict with the experiment, and whether it is confirmed; undecided if the experiment contradicts."""
    if prefetched is None:
        return verdict
    verdict = verdict.model_copy(update={"prefetched": prefetched})
    if verdict.bound is None or verdict.bound == "cpu-quota-bound":
        return verdict
    by_input = "input-bound" in (verdict.bound, *verdict.beside)
    if by_input and prefetched.speedup_high < MATTERS:
        reason = f"steps wait for input, but are at most {prefetched.speedup_high:.2f}× as fast without it"
    elif not by_input and prefetched.speedup_low > LARGEST:
        reason = f"the profile is {verdict.bound}, but steps are {prefetched.speedup:.1f}× as fast without input"
    else:
        confirmed = True if by_input and prefetched.speedup_low > MATTERS else None
        return verdict.model_copy(update={"confirmed": confirmed})
    return verdict.model_copy(update={"bound": None, "beside": [], "reason": reason, "help": None, "confirmed": False})
