"""Comparison by placement: within each of the two speeds that the processes of one point have by chance.

A process may be given large pages or small ones, a good or a bad alignment of its arrays, one CPU or another. A point
may then have two speeds from process to process, and the mean of a few processes depends on how many are at which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean, median

from accelbench.compare.evidence import Evidence

LEAST_PROCESSES = 6
"""Minimum number of processes to detect two levels; fewer have gaps by chance."""
LEAST_SHARE = 0.2
"""Minimum share of the processes at each level; fewer are outliers."""
LEAST_GAP = 0.04
"""Minimum difference of the two levels in logarithms; two smaller levels are a spread."""
CLEAR_GAP = 80.0
"""Minimum gap between the levels, times the number of processes, in standard deviations within the levels.

Simulated: at most 0.5 % of sets of 6–40 processes with one level (normal, skewed or heavy-tailed) have such a gap.
"""
NEAR = 0.4
"""Maximum distance from a level, as a share of the distance of the levels; processes between them are at neither."""
DIFFERENT = "the point has two speeds from process to process, and A and B differ in which they have: use more --rounds"


@dataclass(frozen=True)
class SpeedLevels:
    """Two levels of a point's cost, as logarithms."""

    fast: float
    slow: float

    def level_of(self, figure: float) -> int | None:
        """Return 0 for the fast level, 1 for the slow one, None for a logarithm that is near neither."""
        apart = [abs(figure - level) / (self.slow - self.fast) for level in (self.fast, self.slow)]
        return apart.index(min(apart)) if min(apart) <= NEAR else None


def find_levels(costs: Sequence[float]) -> SpeedLevels | None:
    """Return the two levels of the costs of processes of the same code; None if a single level explains them."""
    if len(costs) < LEAST_PROCESSES:
        return None
    logs = sorted(map(log, costs))
    smallest = max(2, round(LEAST_SHARE * len(logs)))
    splits = [(logs[:place], logs[place:]) for place in range(smallest, len(logs) - smallest + 1)]
    fast, slow = min(splits, key=_squares)
    gap = slow[0] - fast[-1]
    if gap < max(LEAST_GAP, CLEAR_GAP / len(logs) * (_squares((fast, slow)) / (len(logs) - 2)) ** 0.5):
        return None
    return SpeedLevels(median(fast), median(slow))


def from_placements(
    a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], past: Sequence[float] = ()
) -> Evidence | str | None:
    """Return the evidence within the levels, or the reason for none; None if the processes do not have two levels.

    The arguments are the costs of the processes: of A and of B by run, and of past runs of the same machine. Each side
    has the levels of its own processes, else the levels of past processes, of the other side, or of both together; the
    last only if a side has both levels, since two levels that are the two sides are a change of speed. The unit of
    observation is the mean of a run's processes at one level, so that runs may differ, too.
    """
    of_a, of_b = ([cost for run in side for cost in run] for side in (a, b))
    own_a, own_b, before = find_levels(of_a), find_levels(of_b), find_levels(past)
    together = own_a or own_b or before or find_levels([*of_a, *of_b])
    if together is None:
        return None
    sides = [_by_level(a, own_a or before or together), _by_level(b, own_b or before or together)]
    if all(len(side) == 1 for side in sides) and (sides[0].keys() == sides[1].keys() or not before):
        return None
    cells = [[side.get(level, []) for side in sides] for level in (0, 1)]
    shared = [cell for cell in cells if all(cell)]
    freedom = sum(len(units) - 1 for cell in cells for units in cell if units)
    if not shared or not freedom or any(None in side for side in sides):
        return DIFFERENT
    weights = [1 / (1 / len(x) + 1 / len(y)) for x, y in shared]
    shifts = [weight * (fmean(x) - fmean(y)) for weight, (x, y) in zip(weights, shared, strict=True)]
    # The levels of one run are not independent: their number does not narrow the interval.
    error = (sum(map(_squares, cells)) / freedom / max(weights)) ** 0.5
    counts = ", ".join(f"{len(x)} and {len(y)} {name}" for (x, y), name in zip(cells, ("fast", "slow"), strict=True))
    return Evidence(sum(shifts) / sum(weights), error, freedom, f"two speeds, each compared with itself: {counts}")


def _squares(parts: Sequence[Sequence[float]]) -> float:
    """Return the sum of the squared deviations from the mean of each part."""
    middles = [fmean(part) if part else 0.0 for part in parts]
    return sum((figure - middle) ** 2 for part, middle in zip(parts, middles, strict=True) for figure in part)


def _by_level(runs: Sequence[Sequence[float]], levels: SpeedLevels) -> dict[int | None, list[float]]:
    """Return the mean logarithm of each run's processes at each level; key None has processes near neither level.

    Levels with less than `LEAST_SHARE` of the processes are left out, as outliers.
    """
    found: dict[int | None, list[float]] = {}
    count = Counter(levels.level_of(log(cost)) for run in runs for cost in run)
    for run in runs:
        of_run: dict[int | None, list[float]] = {}
        for figure in map(log, run):
            of_run.setdefault(levels.level_of(figure), []).append(figure)
        for level, figures in of_run.items():
            if count[level] >= LEAST_SHARE * count.total():
                found.setdefault(level, []).append(fmean(figures))
    return found
