"""The ceilings of a run that need not be measured anew: an earlier run found them on this machine as it is now."""

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
"""The age up to which a run's ceilings stand for those of now."""


def earlier_ceilings(
    wanted: Sequence[Point], settings: Settings, device: Device, here: Environment
) -> EarlierCeilings | None:
    """Return these points by the last fresh run that measured all of them undisturbed; None where there is none.

    It was begun within the last hour, in an environment (`here`) that differs in nothing that changes speed, alone,
    and measured each point in as many rounds.
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
    """Return how long ago these ceilings were measured, in words."""
    return seconds((datetime.now().astimezone() - found.created).total_seconds())


def _alike(info: RunInfo, settings: Settings, device: Device, here: Environment) -> bool:
    """Tell whether what the run measured is what a run with these settings would measure now."""
    enough = min(settings.max_seconds, load_suite(CEILINGS).max_seconds.get(device, settings.max_seconds))
    return (
        info.status != "running"
        and info.device == device
        and not info.other_ranks
        and info.settings.max_seconds >= enough
        and not any(difference.matters for difference in differences(info.environment, here, {device}))
    )


def _undisturbed(store: RunStore, names: Collection[str]) -> list[Record]:
    """Return the records of the points of these names that nothing disturbed; none where they cannot be read."""
    with damage_met():
        try:
            found = [r for r in store.points() if str(r.point) in names and r.status == "measured"]
        except (UserError, OSError):
            return []
    return [record for record in found if not any(disturbances(record, course_of(record)))]
