"""Verdict on a script: its bottleneck by trace or host profile, checked by experiments."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from accelbench.profiling.analysis.experiments import checked, compare_steps, invalid
from accelbench.profiling.measure.script.events import ScriptEvents, ScriptStep
from accelbench.profiling.measure.script.observe import FEWEST_STEPS, ScriptObserver
from accelbench.profiling.measure.script.slow_rank import FEWEST_STEPS as FEWEST_COMPARED
from accelbench.profiling.measure.script.slow_rank import PARTS, slow_rank
from accelbench.profiling.records.bottleneck import Bottleneck, Bound, Cause, StepsWithout
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Profile
from accelbench.profiling.records.script import (
    LargeVariable,
    ScriptMemory,
    ScriptProfile,
    ScriptRank,
    SlowRank,
)
from accelbench.profiling.records.stored import readable
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.timing.statistics import ratio_interval, summarize
from accelbench.profiling.timing.steady import steady_steps

HELP: dict[Bound, str] = {
    "device-bound": "a faster device, lower precision, or compilation",
    "dispatch-bound": "larger batches, fewer and larger operations, or compilation",
    "communication-bound": "larger batches per rank, several batches per exchange (no_sync), or a compressed exchange "
    "(a communication hook)",
    "transfer-bound": "fewer bytes to the device, pinned memory, or a faster link",
    "cpu-contended": "exclusive CPUs, or at most one thread per CPU",
    "cpu-quota-bound": "a higher CPU limit, or fewer threads",
}
"""Advice by bound, in terms of a user's script."""


def timing_of(steps: Sequence[ScriptStep]) -> Timing:
    """Return the timing of untouched steps."""
    samples = [step.seconds for step in samples_of(steps)]
    return Timing(
        samples=samples,
        stop="time limit",
        timer="steps",
        summary=summarize(samples),
        steady=steady_steps([samples]),
    )


def samples_of(steps: Sequence[ScriptStep]) -> list[ScriptStep]:
    """Return the steps without the first step of each epoch; all steps if too few are left."""
    inside = [step for step in steps if not step.starts_epoch]
    return inside if len(inside) >= FEWEST_STEPS else list(steps)


def mean_examples(steps: Sequence[ScriptStep]) -> float | None:
    """Return the mean number of examples of these steps; None if no batch was observed."""
    examples = [step.examples for step in samples_of(steps)]
    return float(np.mean(examples)) if any(examples) else None


def flops_of(found: ScriptObserver) -> tuple[float, str] | None:
    """Return the FLOPs of a step with the mean number of examples, and the dtype of most of them; None if unknown."""
    by_dtype, reason = found.events.flops or ({}, None)
    flops = sum(by_dtype.values())
    if reason or not flops > 0:
        return None
    counted = next((step.examples for step in found.events.steps if step.kind == "counted"), 0)
    mean = mean_examples(found.untouched)
    return flops * (mean / counted if mean and counted else 1.0), max(sorted(by_dtype), key=by_dtype.__getitem__)


def profile_of(found: ScriptObserver, point: Point) -> Profile:
    """Return the profile of an observed script."""
    steps = samples_of(found.untouched)
    step_s = float(np.mean([step.seconds for step in steps])) if steps else None
    verdict = found.bottleneck(point.device, step_s)
    if not steps:
        verdict = Bottleneck(reason="no step was found, so that no part of a step is known", cpu=found.cpu)
    experiments = experiments_of(found)
    verdict = checked(verdict, experiments)
    verdict = verdict.model_copy(update={"help": help_of(verdict, found.events)})
    waiting, interval = waiting_of(steps) if found.events.loader else (None, None)
    starts = [step.seconds for step in found.untouched if step.starts_epoch]
    return Profile(
        bottleneck=verdict,
        capture=found.capture,
        trace=found.trace,
        host=found.host,
        trace_folder="traces/script" if found.trace else None,
        host_folder="host/script" if found.host else None,
        elapsed_s=found.elapsed_s,
        script=ScriptProfile.model_validate(
            {
                "steps_by": found.events.source,
                "examples": mean_examples(found.untouched),
                "waiting": waiting,
                "waiting_interval": interval,
                "epoch_start_s": float(np.mean(starts)) if starts else None,
                "workers": found.events.workers,
                "recompiled": found.events.recompiled[0],
                "recompiled_s": found.events.recompiled[1],
                "waiting_lines": found.lines.waiting,
                "host_lines": found.lines.host,
                "thread_lines": found.lines.threads,
                "memory": memory_of(found),
                "world": max(1, found.events.world) if found.ranked else 1,
                "ranks": ranks_of(found),
                "slow_rank": slow_rank_of(found, step_s),
                "missing": [*found.missing, *invalid(experiments)],
            }
        ),
    )


def experiments_of(found: ScriptObserver) -> dict[Cause, StepsWithout | None]:
    """Return the steps of each experiment by the cause that it took away, compared with those directly after it."""
    steps: dict[Cause, StepsWithout | None] = {}
    for cause, (repetitions, after) in found.experiments.items():
        same = found.same_random_numbers if cause == "input" else True
        steps[cause] = compare_steps(timing_of(after or found.untouched).steady, repetitions, same)
    return steps


def part_times(found: ScriptObserver) -> dict[int, dict[str, list[float]]]:
    """Return the seconds of each known part by rank, in the steps that were timed in all ranks of this host."""
    events = {found.rank: found.events, **found.others}
    steps = sorted(set.intersection(*(set(each.parts) for each in events.values())))
    times = {
        rank: {part: [each.parts[step][index] for step in steps] for index, part in enumerate(PARTS)}
        for rank, each in sorted(events.items())
    }
    return {
        rank: {part: [seconds for seconds in found if seconds is not None] for part, found in parts.items()}
        for rank, parts in times.items()
        if steps
    }


def ranks_of(found: ScriptObserver) -> list[ScriptRank]:
    """Return the ranks of this host, if there are several."""
    if not found.others:
        return []
    times = part_times(found)
    levels = {
        rank: {part: float(np.median(seconds)) for part, seconds in parts.items() if len(seconds) >= FEWEST_COMPARED}
        for rank, parts in times.items()
    }
    return [
        ScriptRank.model_validate({"rank": rank, "steps": max(map(len, times[rank].values())), "parts": levels[rank]})
        for rank in times
    ]


def slow_rank_of(found: ScriptObserver, step_s: float | None) -> SlowRank | None:
    """Return the slowest rank; None if none is significantly slower than the others, or if they were not compared."""
    delay = slow_rank(part_times(found), step_s) if found.others and step_s else None
    if delay is None:
        return None
    return SlowRank.model_validate(
        {
            "rank": delay.rank,
            "part": delay.part,
            "delay_s": delay.seconds,
            "delay_low": delay.low,
            "delay_high": delay.high,
            "relative": delay.relative,
        }
    )


def memory_of(found: ScriptObserver) -> ScriptMemory:
    """Return the memory of an observed script."""
    device = found.events.memory or {}
    peak, reserved = device.get("peak"), device.get("reserved")
    error, largest = found.events.out_of_memory or (None, [])
    return ScriptMemory(
        host_peak=found.host_peak,
        device_peak=peak,
        device_reserved=reserved,
        device_limit=device.get("limit"),
        fragmentation=max(0.0, 1 - peak / reserved) if peak is not None and reserved else None,
        exhausted=readable(error) if error else None,
        largest=[LargeVariable(name=readable(name), bytes=size, arrays=count) for name, size, count in largest],
    )


def waiting_of(steps: Sequence[ScriptStep]) -> tuple[float | None, tuple[float, float] | None]:
    """Return the share of the steps that waits for input, with its interval."""
    if not steps:
        return None, None
    waits, wholes = np.array([step.wait_s for step in steps]), np.array([step.seconds for step in steps])
    interval = ratio_interval(waits, wholes)
    share = float(waits.sum() / wholes.sum())
    return share, None if interval is None else (max(0.0, interval.low), min(1.0, interval.high))


def help_of(verdict: Bottleneck, events: ScriptEvents) -> str | None:
    """Return advice for the verdict on a script with these events."""
    if verdict.bound is None:
        return None
    if verdict.bound == "input-bound":
        return help_input(events.loader, events.workers, len(os.sched_getaffinity(0)))
    if verdict.bound == "dispatch-bound" and events.loader is None and events.source != "fit":
        # Without an observed loader, code that makes batches is indistinguishable from the rest of the loop.
        marks = "accelbench.steps(batches) measures the wait for input"
        return f"less work in the lines of the host's time ({marks}), or {HELP[verdict.bound]}"
    return HELP.get(verdict.bound)


def help_input(loader: str | None, workers: int | None, cpus: int) -> str:
    """Return advice for a script that waits for its input, by the type of the loader's iterator and its workers."""
    if loader == "OwnedIterator":  # of tf.data
        parallel = "dataset.map(…, num_parallel_calls=tf.data.AUTOTUNE)"
        return f"{parallel}, and .prefetch(tf.data.AUTOTUNE) after the last transformation ({cpus} CPUs are usable)"
    if workers is None:
        return f"worker processes for the loader ({cpus} CPUs are usable), or examples prepared in advance"
    if workers < cpus:
        return f"DataLoader(num_workers={cpus}) instead of {workers} ({cpus} CPUs are usable)"
    return f"examples prepared in advance, or more CPUs ({workers} workers use all {cpus})"
