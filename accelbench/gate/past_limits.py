"""Metrics of the stored runs of the same hardware, as limits of the gate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from accelbench.execution.store import RunStore
from accelbench.gate.request import PastMetric, PastMetrics
from accelbench.history.fingerprint import fingerprint
from accelbench.history.past import read_past
from accelbench.history.spread import LEAST_RUNS, robust_deviation
from accelbench.profiling.analysis.course import disturbances
from accelbench.profiling.records.record import Record
from accelbench.results.find_run import stored_runs

MOST_RUNS = 20
"""Number of latest stored runs that are read, since the gate has a time limit."""


def past_metrics(folder: Path, stores: Sequence[RunStore]) -> PastMetrics:
    """Return the metrics of the points of `stores` in the runs of the same hardware, from at least five runs."""
    machines = {fingerprint(store.info()) for store in stores}
    wanted = {str(record.point) for store in stores for record in store.points()}
    past = read_past(stored_runs(folder)[-MOST_RUNS:], lambda machine: machine in machines)
    found: dict[tuple[str, str], list[Record]] = {}
    for run in past.runs:
        for record in run.records:
            if str(record.point) in wanted and record.rate() and not disturbances(record):
                found.setdefault((str(record.point), record.unit), []).append(record)
    metrics = []
    for (point, unit), records in found.items():
        values = [rate for record in records if (rate := record.rate())]
        if len(values) >= LEAST_RUNS:
            middle = median(values)
            metrics.append(
                PastMetric(
                    point=point,
                    figure=records[0].figure,
                    unit=unit,
                    median=middle,
                    deviation=(robust_deviation(values) or 0.0) / middle,
                    runs=len(values),
                )
            )
    return PastMetrics(metrics=metrics)
