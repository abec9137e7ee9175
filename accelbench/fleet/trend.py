"""Trend of a fleet over days: the speed of its nodes on each day, relative to the same nodes on all days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
import pandas as pd

from accelbench.fleet.observations import FleetData

LEAST_NODES = 5
"""Minimum number of nodes of a metric that were measured on several days, and on each day."""


@dataclass(frozen=True)
class FleetTrend:
    """Speed of a metric by day, over the nodes that were measured on several days."""

    machine: str
    metric: str
    nodes: int
    days: list[date]
    changes: list[float]
    """Median over the day's nodes of their speed relative to their median over all days, minus 1."""

    @property
    def range(self) -> float:
        """Return the difference between the fastest and the slowest day."""
        return max(self.changes) - min(self.changes)


def trends(data: FleetData) -> list[FleetTrend]:
    """Return the trends of all metrics with at least two days, the widest first."""
    if len(set(data.days)) < 2:
        return []
    values = pd.DataFrame(
        {
            "machine": pd.Categorical(data.machines),
            "metric": pd.Categorical(data.metrics),
            "node": pd.Categorical(data.nodes),
            "day": np.frombuffer(data.days, dtype=np.int32),
            "log_speed": np.frombuffer(data.log_speeds, dtype=np.float64),
        }
    )
    keys = ["machine", "metric", "node"]
    by_day = values.groupby([*keys, "day"], observed=True)["log_speed"].median().reset_index()
    by_node = by_day.groupby(keys, observed=True)["log_speed"]
    by_day["change"] = by_day["log_speed"] - by_node.transform("median")
    several = by_day[by_node.transform("size") > 1]
    found = []
    for (machine, metric), part in several.groupby(["machine", "metric"], observed=True):
        days = part.groupby("day")["change"].agg(["median", "size"])
        days = days[days["size"] >= LEAST_NODES]
        if len(days) > 1:
            dates = [date.fromordinal(int(day)) for day in days.index]
            changes = [float(value) for value in np.expm1(days["median"])]
            found.append(FleetTrend(str(machine), str(metric), int(part["node"].nunique()), dates, changes))
    return sorted(found, key=lambda trend: (-trend.range, trend.machine, trend.metric))
