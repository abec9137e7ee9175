"""Measures points of the benchmark `forked` as a run on a GPU does, where there may be none.

`python -m tests.accelbench.run_on_gpu FOLDER SECONDS impl:how …`: a time limit for each point, and the points.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from accelbench.plan import PlannedPoint
from accelbench.progress import Progress
from accelbench.runner import run_plan
from accelbench.store import RunInfo, RunStore, Settings
from profiling.environment.collect import collect


def main(folder: str, limit: str, *points: str) -> None:
    """Measure them into the folder."""
    plan = [
        PlannedPoint(benchmark="forked", device="gpu", params={"impl": impl, "how": how})
        for impl, how in (point.split(":") for point in points)
    ]
    info = RunInfo(
        run_id="forked",
        created=datetime.now(UTC),
        status="running",
        command=[],
        suite=None,
        device="gpu",
        settings=Settings(time_limit_s=float(limit), max_seconds=0.1),
        plan=plan,
        environment=collect(),
    )
    store = RunStore.create(Path(folder), info)
    run_plan(store, Progress(Console()))
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
