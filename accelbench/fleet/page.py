"""Page of a fleet: strips of all nodes by metric with the odd ones marked, tables, and the trend over days."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from accelbench.errors import UserError, reason_of
from accelbench.fleet.fleet_document import FleetComparison, change_text, signed
from accelbench.fleet.observations import FleetData
from accelbench.fleet.strips import Strip, draw_strips, draw_trends
from accelbench.fleet.trend import FleetTrend, trends
from accelbench.history.spread import NORMAL_QUARTILE
from accelbench.output.format import counted, percent, read
from accelbench.profiling.files import replace_file
from accelbench.report.page import templates

MOST_GROUPS, MOST_STRIPS, MOST_NODES, MOST_METRICS = 6, 24, 500, 6
"""Maximum numbers of groups with drawings, strips of a group, odd nodes in the table, and metrics of such a node, which
limit the size of the page."""


@dataclass(frozen=True)
class FleetGroup:
    """Nodes with equal hardware."""

    machine: str
    nodes: int
    odd: int
    """Number of odd nodes."""
    metrics: list[dict[str, Any]]
    """Row of the table for each metric, those with the most odd nodes first."""
    strips: Markup | None
    hidden: int
    """Number of metrics without a strip."""
    trend: Markup | None


def write_page(comparison: FleetComparison, path: Path) -> None:
    """Write the page; UserError if it fails."""
    text = render_fleet(comparison)
    try:
        replace_file(path, lambda new: new.write_text(text, encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot write {path}: {reason_of(error)}") from None


def render_fleet(comparison: FleetComparison) -> str:
    """Return the page as HTML text."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it warns where the user has no home for its cache
    environment = templates(Path(__file__).parent, Path(__file__).parent.parent / "report")
    environment.filters["counted"] = counted
    groups = list(_groups(comparison))
    odd = _odd_nodes(comparison)
    return environment.get_template("fleet.html").render(
        fleet=comparison,
        groups=groups,
        drawn=MOST_GROUPS,
        odd=odd[:MOST_NODES],
        more=max(0, len(odd) - MOST_NODES),
        notes=[*comparison.notes, *(f"skipped: {sentence}" for sentence in comparison.skipped[:20])],
        skipped=max(0, len(comparison.skipped) - 20),
    )


def _groups(comparison: FleetComparison) -> Iterator[FleetGroup]:
    of_all = [] if comparison.changes else trends(comparison.data)
    parts = sorted(
        comparison.rows.groupby("machine"), key=lambda found: (-_odd(found[1]), -found[1]["node"].nunique(), found[0])
    )
    for number, (machine, rows) in enumerate(parts):
        by_metric = sorted(rows.groupby("metric"), key=lambda found: (-int(found[1]["odd"].sum()), found[0]))
        shown = by_metric[:MOST_STRIPS] if number < MOST_GROUPS else []
        title = f"{'Changes' if comparison.changes else 'Differences'} of {counted(rows['node'].nunique(), 'node')}"
        axis = "change relative to the group's" if comparison.changes else "difference from the group's"
        yield FleetGroup(
            machine=str(machine),
            nodes=int(rows["node"].nunique()),
            odd=_odd(rows),
            metrics=[_metric(comparison, str(machine), str(metric), part) for metric, part in by_metric],
            strips=draw_strips(
                [_strip(str(metric), part) for metric, part in shown],
                f"strips-{number}",
                f"{title} of {machine} by metric",
                axis,
            )
            if shown
            else None,
            hidden=len(by_metric) - len(shown),
            trend=_trend(str(machine), of_all, number) if number < MOST_GROUPS else None,
        )


def _odd(rows: pd.DataFrame) -> int:
    """Return the number of odd nodes of a group."""
    return int(rows.loc[rows["odd"], "node"].nunique())


def _strip(metric: str, rows: pd.DataFrame) -> Strip:
    odd = rows[rows["odd"]].sort_values(["difference", "node"])
    return Strip(
        metric,
        rows["difference"].to_numpy(),
        [(str(node), float(value)) for node, value in zip(odd["node"], odd["difference"], strict=True)],
    )


def _trend(machine: str, of_all: list[FleetTrend], number: int) -> Markup | None:
    found = [trend for trend in of_all if trend.machine == machine]
    return draw_trends(found, f"trend-{number}", f"Trend of {machine} over days") if found else None


def _metric(comparison: FleetComparison, machine: str, metric: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the table's row of a metric: value, spread and extremes of the nodes."""
    differences = rows["difference"].to_numpy()
    spread = float(np.median(np.abs(differences))) / NORMAL_QUARTILE
    known = {
        "name": metric,
        "nodes": len(rows),
        "odd": int(rows["odd"].sum()),
        "spread": percent(spread),
        "slowest": signed(float(differences.min())),
        "fastest": signed(float(differences.max())),
    }
    if comparison.changes:
        (group,) = [each for each in comparison.changes.groups if (each.machine, each.metric) == (machine, metric)]
        return known | {"value": change_text(group)}
    return known | {"value": value_text(comparison.data, metric, float(np.median(rows["log_speed"])))}


def value_text(data: FleetData, metric: str, log_speed: float) -> str:
    """Return the value of a metric with its unit as text."""
    return read(float(np.exp(-log_speed if metric in data.times else log_speed)), data.units[metric]).quantity


def _odd_nodes(comparison: FleetComparison) -> list[dict[str, Any]]:
    """Return the odd nodes, the farthest first, each with its metrics and attributes."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in comparison.odd.to_dict("records"):
        key = (str(row["machine"]), str(row["node"]))
        node = found.setdefault(key, {"name": key[1], "machine": key[0], "metrics": [], "more": 0, "attributes": ""})
        if len(node["metrics"]) == MOST_METRICS:
            node["more"] += 1
            continue
        node["metrics"].append((row["metric"], signed(row["difference"]), f"{row['z']:+.1f}".replace("-", "−")))
    shared = {each.attribute for each in comparison.shared}
    for key, node in found.items():
        pairs = (f"{name}={value}" for name, values in comparison.data.attributes[key].items() for value in values)
        node["attributes"] = ", ".join(sorted(pair for pair in pairs if pair in shared))
    return list(found.values())
