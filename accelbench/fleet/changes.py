"""Changes between two measurements of a fleet, such as before and after a driver: of each group, and of each node.

Only nodes that were measured both times are compared, each with itself. The change of a group is the median over its
nodes, with the interval of the sign test, which assumes nothing about the distribution (Hahn & Meeker, "Statistical
Intervals", 1991, section 5.2). A node is odd if its change differs from the changes of the other nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import binom

from accelbench.fleet.observations import FleetData
from accelbench.fleet.odd import KEYS, Floats, judge_nodes, locate_nodes

CONFIDENCE = 0.95


@dataclass(frozen=True)
class GroupChange:
    """Change of a metric over the nodes with equal hardware: speed after relative to speed before, minus 1."""

    machine: str
    metric: str
    nodes: int
    change: float
    """Median over the nodes."""
    low: float | None
    """Lower end of the median's interval; None for fewer than six nodes."""
    high: float | None
    sorted_changes: Floats
    """Logarithms of the speed ratios of all nodes, sorted."""

    def is_slower_by(self, share: float, confidence: float) -> bool:
        """Return whether the median is slower by more than this share of the speed, with this confidence."""
        interval = median_interval(self.sorted_changes, 2 * confidence - 1)  # one-sided
        return interval is not None and interval[1] < np.log1p(-share)


@dataclass(frozen=True)
class FleetChanges:
    """Two measurements of a fleet, compared."""

    rows: pd.DataFrame
    """A row for each node and metric as from `judge_nodes`; `log_speed` is the logarithm of the speed ratio."""
    groups: list[GroupChange]
    only_before: int
    """Number of nodes that were measured before only."""
    only_after: int


def compare_fleets(before: FleetData, after: FleetData, least_difference: float = 0.01) -> FleetChanges:
    """Compare each node and metric with itself; nodes are identified by name and hardware."""
    a, b = locate_nodes(before), locate_nodes(after)
    both = a.merge(b, on=KEYS, suffixes=("_before", "_after"))
    rows = both[KEYS].assign(
        repetitions=both[["repetitions_before", "repetitions_after"]].min(axis=1),
        log_speed=both["log_speed_after"] - both["log_speed_before"],
        variance=both["variance_before"] + both["variance_after"],
    )
    rows = rows.sort_values(["machine", "metric", "node"], ignore_index=True)
    nodes_a, nodes_b = ({*zip(each["machine"], each["node"], strict=True)} for each in (a, b))
    judged = judge_nodes(rows, least_difference)
    return FleetChanges(judged, _groups(judged), len(nodes_a - nodes_b), len(nodes_b - nodes_a))


def _groups(rows: pd.DataFrame) -> list[GroupChange]:
    """Return the changes of all groups, the largest loss first."""
    found = []
    for (machine, metric), part in rows.groupby(["machine", "metric"]):
        values = np.sort(part["log_speed"].to_numpy())
        interval = median_interval(values, CONFIDENCE)
        low, high = (None, None) if interval is None else (float(np.expm1(end)) for end in interval)
        change = float(np.expm1(np.median(values)))
        found.append(GroupChange(str(machine), str(metric), len(values), change, low, high, values))
    return sorted(found, key=lambda group: (group.change, group.machine, group.metric))


def median_interval(ordered: Floats, confidence: float) -> tuple[float, float] | None:
    """Return the interval of the median of sorted values by the sign test; None if they are too few."""
    count = len(ordered)
    rank = int(binom.ppf((1 - confidence) / 2, count, 0.5))
    return (float(ordered[rank - 1]), float(ordered[count - rank])) if rank >= 1 else None
