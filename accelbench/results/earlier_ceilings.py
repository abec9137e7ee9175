"""Ceilings (empirical peaks) of a recent run on this machine, which the next run can reuse."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from accelbench.environment.differences import differences
from accelbench.errors import UserError, damage_met
from accelbench.execution.plan import CEILINGS
from accelbench.execution.store import RUNS, EarlierCeilings, RunInfo, RunStore, Settings
from accelbench.execution.suite import load_suite
from accelbench.output.format import seconds
from accelbench.profiling.analysis.course import course_of, disturbances
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.record import Record
from accelbench.results.find_run import stored_runs
from accelbench.results.forecast import of_machine

FRESH = timedelta(hours=1)
"""Maximum age of reused ceilings."""


def earlier_ceilings(
    wanted: Sequence[Point], settings: Settings, device: Device, here: Environment
) -> EarlierCeilings | None:
    """Return the records of the wanted points from the latest suitable run; None if there is none.

    A suitable run started within the last hour, on a single rank, in an environment without differences that matter,
    and measured every wanted point without disturbances in at least as many repetitions.
    """
    names = {str(point) for point in wanted}
    oldest = datetime.now().astimezone() - FRESH
    for store, info in reversed(of_machine(stored_runs(RUNS), here)):
        if info.created < oldest or not names:
            break
        if _alike(info, settings, device, here):
            found = _undisturbed(store, names)
            rounds = {len(record.rounds) or 1 for record in found}
            if len(found) == len(names) and min(rounds) >= settings.rounds:
                return EarlierCeilings(run_id=info.run_id, created=info.created, records=found)
    return None


def age(found: EarlierCeilings) -> str:
    """Return the age of these ceilings as text."""
    return seconds((datetime.now().astimezone() - found.created).total_seconds())


def _alike(info: RunInfo, settings: Settings, device: Device, here: Environment) -> bool:
    """Return whether the run measured what a run with these settings would measure now."""
    enough = min(settings.max_seconds, load_suite(CEILINGS).max_seconds.get(device, settings.max_seconds))
    return (
        info.status != "running"
        and info.device == device
        and not info.other_ranks
        and info.settings.max_seconds >= enough
        and not any(difference.matters for difference in differences(info.environment, here, {device}))
    )


def _undisturbed(store: RunStore, names: Collection[str]) -> list[Record]:
    """Return the records of the named points without disturbances; an empty list if they cannot be read."""
    with damage_met():
        try:
            found = [r for r in store.points() if str(r.point) in names and r.status == "measured"]
        except (UserError, OSError):
            return []
    return [record for record in found if not any(disturbances(record, course_of(record)))]
