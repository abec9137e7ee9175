"""Ceilings (empirical peaks) of past runs on this machine: of a recent run, to be reused, and the best of memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from accelbench.environment.differences import differences
from accelbench.errors import UserError, collect_damage
from accelbench.execution.plan import CEILINGS
from accelbench.execution.store import RUNS, EarlierCeilings, RunInfo, RunStore, Settings, now
from accelbench.execution.suite import load_suite
from accelbench.output.format import seconds
from accelbench.profiling.analysis.course import course_of, disturbances
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Cores
from accelbench.results.find_run import stored_runs
from accelbench.results.forecast import of_machine

FRESH = timedelta(hours=1)
"""Maximum age of reused ceilings."""
MOST_RUNS = 50
"""Number of latest runs of this machine that are read for the best ceilings."""


def earlier_ceilings(
    wanted: Sequence[Point], settings: Settings, device: Device, here: Environment
) -> EarlierCeilings | None:
    """Return the records of the wanted points from the latest suitable run; None if there is none.

    A suitable run started within the last hour, on a single rank, in an environment without differences that matter,
    and measured every wanted point without noise in at least as many repetitions.
    """
    names = {str(point) for point in wanted}
    oldest = now() - FRESH
    for store, info in reversed(of_machine(stored_runs(RUNS), here)):
        if info.created < oldest or not names:
            break
        if _alike(info, settings, device, here):
            found = _undisturbed(store, names)
            rounds = {len(record.rounds) or 1 for record in found}
            if len(found) == len(names) and min(rounds) >= settings.rounds:
                return EarlierCeilings(run_id=info.run_id, created=info.created, records=found)
    return None


def best_ceilings(wanted: Sequence[Point], device: Device, here: Environment) -> list[EarlierCeilings]:
    """Return the highest memory ceilings among the wanted points in past runs of this machine, without noise.

    There is one for each number of cores. The software may differ, except the numbers of threads: it does not change
    what the memory can do.
    """
    names = {str(point) for point in wanted}
    best: dict[Cores, tuple[float, EarlierCeilings]] = {}
    for store, info in of_machine(stored_runs(RUNS), here)[-MOST_RUNS:]:
        if info.device == device and not info.other_ranks and _same_hardware(info, device, here):
            for record in _undisturbed(store, names):
                rate = record.rate("bytes") if record.ceiling and record.bound.metric == "bytes" else None
                if rate and rate > best.get(record.bound.cores, (0.0,))[0]:
                    kept = EarlierCeilings(run_id=info.run_id, created=info.created, records=[record])
                    best[record.bound.cores] = rate, kept
    return [found for _, found in best.values()]


def _same_hardware(info: RunInfo, device: Device, here: Environment) -> bool:
    matter = [found.fact for found in differences(info.environment, here, {device}) if found.matters]
    return all(fact.startswith("software.") and not fact.startswith("software.threads.") for fact in matter)


def age(found: EarlierCeilings) -> str:
    """Return the age of these ceilings as text."""
    return seconds((now() - found.created).total_seconds())


def _alike(info: RunInfo, settings: Settings, device: Device, here: Environment) -> bool:
    """Return whether the run is equivalent to a new run with these settings."""
    enough = min(settings.max_seconds, load_suite(CEILINGS).max_seconds.get(device, settings.max_seconds))
    return (
        info.status != "running"
        and info.device == device
        and not info.other_ranks
        and info.settings.max_seconds >= enough
        and not any(difference.matters for difference in differences(info.environment, here, {device}))
    )


def _undisturbed(store: RunStore, names: Collection[str]) -> list[Record]:
    """Return the records of the named points without noise; an empty list if they cannot be read."""
    with collect_damage():
        try:
            found = [record for record in store.points(names) if record.status == "measured"]
        except (UserError, OSError):
            return []
    return [record for record in found if not any(disturbances(record, course_of(record)))]
