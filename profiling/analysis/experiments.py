"""Experiments on a training: steps without one of their causes, compared with the measured steps and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from accelbench.profiling.analysis.bottleneck import BOUND_OF
from accelbench.profiling.records.bottleneck import Bottleneck, Cause, StepsWithout
from accelbench.profiling.records.timing import SteadySteps
from accelbench.profiling.timing.steady import join_repetitions, steady_steps

MATTERS, LARGEST = 1.1, 2.0
"""Speedup by the experiment from which a cause matters, and from which it takes more than half of a step."""
PLAUSIBLE = 0.95
"""Smallest speedup of a valid experiment: steps with less work are slower only by batches outside of the cache."""
FIELD: dict[Cause, str] = {"input": "prefetched", "communication": "unexchanged", "dispatch": "one_launch"}
"""Field of the record by the cause that the experiment takes away."""
NAME: dict[Cause, str] = {"input": "input", "communication": "the exchange of gradients", "dispatch": "the host"}


def compare_steps(
    measured: SteadySteps | None, repetitions: Sequence[Sequence[float]], same_random_numbers: bool = True
) -> StepsWithout | None:
    """Return the steps of the experiment compared with the measured ones; None without any.

    `repetitions` are the seconds of the steps by repetition of the experiment.
    """
    found = [steady_steps([seconds]) for seconds in repetitions if len(seconds)]
    if measured is None or not found:
        return None
    without = join_repetitions(found)
    # Both intervals are symmetric in logarithms, or nearly so, and the step times are independent.
    halves = [np.log(each.ci_high / each.ci_low) / 2 for each in (measured, without)]
    speedup, half = measured.mean / without.mean, float(np.hypot(*halves))
    return StepsWithout(
        steps=without.steps,
        mean=without.mean,
        ci_low=without.ci_low,
        ci_high=without.ci_high,
        mean_with=measured.mean,
        speedup=speedup,
        speedup_low=float(speedup * np.exp(-half)),
        speedup_high=float(speedup * np.exp(half)),
        same_random_numbers=same_random_numbers,
    )


def _is_valid(steps: StepsWithout) -> bool:
    return steps.speedup_high >= PLAUSIBLE


def invalid(experiments: Mapping[Cause, StepsWithout | None]) -> list[str]:
    """Return the reason for each experiment with steps that were slower than those with the cause."""
    return [
        f"the experiment on {NAME[cause]}: its steps were slower than the other ones, so that it has no result"
        for cause, steps in experiments.items()
        if steps and not _is_valid(steps)
    ]


def checked(verdict: Bottleneck, experiments: Mapping[Cause, StepsWithout | None]) -> Bottleneck:
    """Return the verdict with the valid experiments, and whether one confirms it; undecided if one contradicts."""
    found = {cause: steps for cause, steps in experiments.items() if steps and _is_valid(steps)}
    verdict = verdict.model_copy(update={FIELD[cause]: steps for cause, steps in found.items()})
    if verdict.bound is None or verdict.bound == "cpu-quota-bound":
        return verdict
    bounds = (verdict.bound, *verdict.beside)
    for cause, steps in found.items():
        if reason := _contradiction(bounds, cause, steps):
            return verdict.model_copy(
                update={"bound": None, "beside": [], "reason": reason, "help": None, "confirmed": False}
            )
    confirms = any(BOUND_OF[cause] in bounds and steps.speedup_low > MATTERS for cause, steps in found.items())
    return verdict.model_copy(update={"confirmed": True if confirms else None})


def _contradiction(bounds: Sequence[str], cause: Cause, steps: StepsWithout) -> str | None:
    """Return how the experiment contradicts a verdict with these bounds; None if it does not."""
    if BOUND_OF[cause] in bounds and steps.speedup_high < MATTERS:
        return f"steps wait for {NAME[cause]}, but are at most {steps.speedup_high:.2f}× as fast without it"
    if BOUND_OF[cause] not in bounds and steps.speedup_low > LARGEST:
        return f"the profile is {bounds[0]}, but steps are {steps.speedup:.1f}× as fast without {NAME[cause]}"
    return None
