"""Odd nodes: each node compared with the nodes of equal hardware, metric by metric.

A node's value is the Hodges–Lehmann estimate of its repetitions without outliers: the median of all pairwise means,
robust against single slow repetitions, with 96 % of the efficiency of the mean for normal noise (Hodges & Lehmann,
"Estimates of location based on rank tests", Annals of Mathematical Statistics 34 (1963)). Its distance from the group's
median, in robust standard deviations, is tested by Student's t distribution, after the skewness of the nodes is removed
by the transformation of Wilson & Hilferty (PNAS 17 (1931)), since disturbances only make a repetition slower.
The false-discovery rate over all nodes and metrics is limited by the procedure of Benjamini & Hochberg (JRSS B 57
(1995)).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import false_discovery_control
from scipy.stats import t as student

from accelbench.fleet.observations import FleetData
from accelbench.history.spread import EFFICIENCY, NORMAL_QUARTILE, small_set_factor

FALSE_DISCOVERY_RATE = 0.05
"""Share of falsely odd results among all odd ones."""
LEAST_NODES = 5
"""Minimum number of nodes in a group; of fewer, either part may be the odd one."""
LEAST_SPREAD = 1e-4
"""Lower bound of the relative spread between nodes, for equal values."""
LEAST_SKEWED = 200
"""Minimum number of nodes in a group for an estimate of their skewness."""
TAIL, TAIL_DISTANCE = 0.05, 1.645
"""Quantile for that estimate, and its distance from the median of a normal distribution."""
SKEWNESS_ERROR = 7.0
"""Two standard errors of that estimate, times the square root of the number of nodes."""
OUTLIER_SPREADS = 4.0
"""Distance of a repetition from its node's median, in spreads of repetitions, above which it is an outlier."""
LEAST_SKEWNESS = 0.01
"""Skewness below which scores are not changed."""
CHUNK = 1 << 22
"""Number of pairwise means in memory at a time."""

KEYS = ["machine", "metric", "node"]
Floats = NDArray[np.float64]


def compare_nodes(data: FleetData, least_difference: float = 0.01) -> pd.DataFrame:
    """Return a row for each node and metric with its difference from the other nodes of equal hardware.

    The columns are those of `locate_nodes` and `judge_nodes`.
    """
    return judge_nodes(locate_nodes(data), least_difference)


def locate_nodes(data: FleetData) -> pd.DataFrame:
    """Return a row for each node and metric, sorted by hardware, metric and node.

    Columns: machine, metric, node, repetitions, log_speed, variance (of log_speed, by the spread of all repetitions of
    this hardware and metric; 0 if unknown).
    """
    values = pd.DataFrame(
        {
            "machine": pd.Categorical(data.machines),
            "metric": pd.Categorical(data.metrics),
            "node": pd.Categorical(data.nodes),
            "log_speed": np.frombuffer(data.log_speeds, dtype=np.float64),
        }
    ).sort_values(["machine", "metric", "node", "log_speed"], ignore_index=True)  # any order of files, one result
    begins, counts = _parts(values, KEYS)
    groups = [np.asarray(rows) for rows in values.groupby(["machine", "metric"], observed=True).indices.values()]
    usual = _usual(values["log_speed"].to_numpy(), begins, counts, groups)
    values = values[usual].reset_index(drop=True)
    begins, counts = _parts(values, KEYS)
    x = values["log_speed"].to_numpy()
    rows = values.loc[begins, KEYS].reset_index(drop=True)
    rows["repetitions"] = counts
    rows["log_speed"] = location(x, begins, counts)
    within = _residuals(x, rows["log_speed"].to_numpy(), counts)
    ends, variance = begins + counts, np.zeros(len(rows))
    for indices in rows.groupby(["machine", "metric"], observed=True).indices.values():
        members = np.asarray(indices)
        first, last = int(begins[members[0]]), int(ends[members[-1]])  # the rows of a group are contiguous
        variance[members] = _variance(within[first:last]) / counts[members]
    rows["variance"] = variance
    return rows.astype(dict.fromkeys(KEYS, str))


def judge_nodes(rows: pd.DataFrame, least_difference: float = 0.01) -> pd.DataFrame:
    """Return the rows with further columns: the difference of each node from its group, and whether it is odd.

    Columns: group (number of nodes compared), difference (speed relative to the group's median), z, p, adjusted_p, odd.
    The test's columns are NaN in groups below `LEAST_NODES`. Results that differ by less than `least_difference` are
    never odd.
    """
    columns: dict[str, Floats] = {name: np.full(len(rows), np.nan) for name in ("group", "difference", "z", "p")}
    speeds, variances = rows["log_speed"].to_numpy(), rows["variance"].to_numpy()
    for indices in rows.groupby(["machine", "metric"]).indices.values():
        members = np.asarray(indices)
        group = _compare(speeds[members], variances[members])
        columns["group"][members] = len(members)
        columns["difference"][members] = group.difference
        if len(members) >= LEAST_NODES:
            columns["z"][members], columns["p"][members] = group.z, group.p
    judged = rows.assign(**columns)
    tested = judged["p"].notna().to_numpy()
    judged["adjusted_p"] = np.nan
    if tested.any():
        judged.loc[tested, "adjusted_p"] = false_discovery_control(judged.loc[tested, "p"].to_numpy())
    far = judged["difference"].abs() >= least_difference
    return judged.assign(odd=(judged["adjusted_p"] <= FALSE_DISCOVERY_RATE) & far)


def _parts(values: pd.DataFrame, keys: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the begins and lengths of the parts of sorted values with equal keys."""
    codes = values[keys].apply(lambda column: column.cat.codes).to_numpy()
    begins = np.flatnonzero(np.r_[True, (codes[1:] != codes[:-1]).any(axis=1)])
    return begins, np.diff(np.r_[begins, len(values)])


def _residuals(x: Floats, centres: Floats, counts: NDArray[np.int64]) -> Floats:
    """Return the deviations from the parts' centres, scaled to their variance; NaN for a single value."""
    scale = np.where(counts > 1, np.sqrt(counts / np.maximum(counts - 1, 1)), np.nan)
    return np.repeat(scale, counts) * (x - np.repeat(centres, counts))


def _usual(
    x: Floats, begins: NDArray[np.int64], counts: NDArray[np.int64], groups: Iterable[NDArray[np.int64]]
) -> NDArray[np.bool_]:
    """Return which repetitions are no outliers of their node; a node of which more than half are outliers keeps all."""
    medians = np.array(
        [(x[b + (n - 1) // 2] + x[b + n // 2]) / 2 for b, n in zip(begins, counts, strict=True)]
    )  # sorted
    residuals = np.abs(_residuals(x, medians, counts))
    usual = np.ones(len(x), dtype=bool)
    for members in groups:
        known = residuals[members][np.isfinite(residuals[members])]
        if len(known):
            limit = OUTLIER_SPREADS * float(np.median(known)) / NORMAL_QUARTILE
            usual[members] = ~(residuals[members] > limit)
    kept = np.add.reduceat(usual, begins, dtype=np.int64)
    return np.asarray(usual | np.repeat(2 * kept <= counts, counts))


@dataclass(frozen=True)
class GroupComparison:
    """Nodes of a group compared with their median, in one metric."""

    difference: Floats
    z: Floats
    p: Floats


def _variance(within: Floats) -> float:
    """Return the variance of one repetition, from the scaled deviations of all repetitions from their nodes."""
    repeated = within[np.isfinite(within)]  # a single repetition has no deviation
    return (float(np.median(np.abs(repeated))) / NORMAL_QUARTILE) ** 2 if len(repeated) else 0.0


def _compare(speeds: Floats, variances: Floats) -> GroupComparison:
    """Compare the nodes' log speeds, given the variance of each by its repetitions.

    The variance of a node is the variance between nodes plus its own: larger for few repetitions.
    """
    count = len(speeds)
    deviations = speeds - np.median(speeds)
    spread = small_set_factor(count) * float(np.median(np.abs(deviations))) / NORMAL_QUARTILE if count > 1 else 0.0
    spread = max(spread, LEAST_SPREAD)
    mean_noise = float(np.mean(variances))
    between = max(0.0, spread**2 - mean_noise)
    total = between + mean_noise
    scale = np.sqrt((between + variances) / total) if total > 0 else np.ones(count)
    z = deviations / (spread * scale)
    if count >= LEAST_SKEWED:
        z = without_skewness(z, skewness(deviations))
    p = 2 * student.sf(np.abs(z), max(1.0, EFFICIENCY * (count - 1)))
    return GroupComparison(np.expm1(deviations), z, p)


def skewness(deviations: Floats) -> float:
    """Return the skewness of nodes around their median, from their outer quantiles; 0 if it may be chance.

    A few odd nodes hardly change the quantiles. Quantiles and skewness are related as in a gamma distribution
    (Cornish & Fisher, Revue de l'Institut International de Statistique 5 (1938)).
    """
    low, high = np.quantile(deviations, [TAIL, 1 - TAIL])
    found = 6 * float(low + high) / (float(high - low) * TAIL_DISTANCE) if high > low else 0.0
    return found if abs(found) > SKEWNESS_ERROR / len(deviations) ** 0.5 else 0.0


def without_skewness(z: Floats, skewness: float) -> Floats:
    """Return normal scores of distances from the median of a gamma distribution with this skewness.

    Scores in its long tail are smaller than the distances; those in its short tail would be larger and are left alone,
    since a gamma distribution ends there.
    """
    if abs(skewness) < LEAST_SKEWNESS:
        return z
    from_mean = z - skewness / 6
    scores = 6 / skewness * (np.cbrt(skewness * from_mean / 2 + 1) - 1) + skewness / 6
    return np.where(np.abs(scores) < np.abs(z), scores, z)


def location(x: Floats, begins: NDArray[np.int64], counts: NDArray[np.int64]) -> Floats:
    """Return the Hodges–Lehmann estimate of each part of `x`, given the parts' begins and lengths."""
    found = np.empty(len(begins))
    for length in np.unique(counts):
        first, second = np.triu_indices(length)
        parts = np.flatnonzero(counts == length)
        step = max(1, CHUNK // len(first))
        for begin in range(0, len(parts), step):
            chosen = parts[begin : begin + step]
            values = x[begins[chosen][:, None] + np.arange(length)]
            found[chosen] = np.median((values[:, first] + values[:, second]) / 2, axis=1)
    return found
