"""Registry of the strategies in this package, and the selection of a point's strategy.

A module is a strategy if it has a `Strategy` class with backends; none imports a framework before training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from accelbench.profiling import modules_of
from accelbench.profiling.benchmark import Only, Skip, Values, rule_text
from accelbench.profiling.devices import kinds
from accelbench.profiling.ranks.world import world
from accelbench.profiling.records.point import Point, Scalar
from accelbench.workloads.distribution.strategy import AXES, Strategy

FOLDER = "accelbench.workloads.distribution"
(AUTO,) = AXES["strategy"]


def _strategies() -> dict[str, type[Strategy]]:
    """Return all strategies of this package by name."""
    found: dict[str, type[Strategy]] = {}
    for module in modules_of(FOLDER).values():
        for each in list(vars(module).values()):
            if isinstance(each, type) and issubclass(each, Strategy) and vars(each).get("backends"):
                found[each.name] = each
    return found


STRATEGIES = _strategies()
RULES: Mapping[Scalar, Mapping[str, Values]] = {
    name: {"backend": strategy.backends, **strategy.only} for name, strategy in STRATEGIES.items()
}
"""Values of other axes that each strategy supports."""
LIMITS = {"devices": (1, 64), "processes": (1, 4096)}
CASES = {"device": len(kinds()), **{axis: most for axis, (_, most) in LIMITS.items()}}
"""Number of values that a strategy may support, by the axes considered for `auto`."""


def choices(sharded: bool) -> Mapping[str, Values]:
    """Return the strategies and scalings of a distributed workload, with sharding strategies if `sharded`."""
    return {"strategy": (AUTO, *_names(sharded)), "scaling": ("strong", "weak")}


def only(sharded: bool) -> Only:
    """Return the values of other axes that each strategy supports."""
    return {"strategy": {name: RULES[name] for name in _names(sharded)}}


def _names(sharded: bool) -> list[str]:
    return [name for name, strategy in STRATEGIES.items() if sharded or not strategy.sharded]


def strategy_of(point: Point) -> Strategy:
    """Return the point's strategy; Skip if it does not support the point's other values.

    `auto` selects the framework's own strategy for the point's processes and devices: of all that support them, the
    most specific one.
    """
    chosen = point.params.get("strategy", AUTO)
    if chosen != AUTO:
        if not _exists(chosen, point):
            raise Skip(rule_text("strategy", chosen, RULES[chosen]))
        return STRATEGIES[str(chosen)](point)
    own = [name for name, each in STRATEGIES.items() if each.automatic and point.backend in each.backends]
    possible = [name for name in own if _exists(name, point)]
    if not possible:
        known = "; ".join(rule_text("strategy", name, RULES[name]) for name in own)
        raise Skip(f"{point.backend} has no strategy for this number of devices and processes: {known}")
    return STRATEGIES[min(possible, key=_cases)](point)


def _cases(strategy: str) -> int:
    """Return the number of combinations of devices, device counts and process counts that the strategy supports."""
    rules = RULES[strategy]
    return math.prod(len(rules[axis]) if axis in rules else most for axis, most in CASES.items())


def _exists(strategy: Scalar, point: Point) -> bool:
    values = {"device": point.device, "backend": point.backend, "processes": world().size, **point.params}
    return all(values[axis] in known for axis, known in RULES[strategy].items() if axis in values)
