"""The strategies that there are, by the files of this folder, and the choice of the one that a point asks for.

A file is a strategy if a class in it says so; none of them imports a framework before it trains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from accelbench.profiling import modules_of
from accelbench.profiling.benchmark import Only, Skip, Values, in_words
from accelbench.profiling.devices import kinds
from accelbench.profiling.ranks.world import world
from accelbench.profiling.records.point import Point, Scalar
from accelbench.workloads.distribution.strategy import AXES, Strategy

FOLDER = "accelbench.workloads.distribution"
(AUTO,) = AXES["strategy"]


def _strategies() -> dict[str, type[Strategy]]:
    """Return every strategy of this folder by its name."""
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
"""The values of other axes that each strategy exists with."""
LIMITS = {"devices": (1, 64), "processes": (1, 4096)}
CASES = {"device": len(kinds()), **{axis: most for axis, (_, most) in LIMITS.items()}}
"""The number of values that a strategy may exist with, by the axes that `auto` looks at."""


def choices(sharded: bool) -> Mapping[str, Values]:
    """Return the values of the axes of a training that can be distributed, and sharded or not."""
    return {"strategy": (AUTO, *_names(sharded)), "scaling": ("strong", "weak")}


def only(sharded: bool) -> Only:
    """Return the values of other axes that each of these strategies exists with."""
    return {"strategy": {name: RULES[name] for name in _names(sharded)}}


def _names(sharded: bool) -> list[str]:
    return [name for name, strategy in STRATEGIES.items() if sharded or not strategy.sharded]


def strategy_of(point: Point) -> Strategy:
    """Return the strategy that the point asks for; Skip where it does not exist with the point's other values.

    `auto` is the framework's own for so many processes and devices: of the strategies that exist there, the one that is
    for the fewest other cases.
    """
    asked = point.params.get("strategy", AUTO)
    if asked != AUTO:
        if not _exists(asked, point):
            raise Skip(in_words("strategy", asked, RULES[asked]))
        return STRATEGIES[str(asked)](point)
    own = [name for name, each in STRATEGIES.items() if each.automatic and point.backend in each.backends]
    there = [name for name in own if _exists(name, point)]
    if not there:
        known = "; ".join(in_words("strategy", name, RULES[name]) for name in own)
        raise Skip(f"{point.backend} has no strategy for this many devices and processes: {known}")
    return STRATEGIES[min(there, key=_cases)](point)


def _cases(strategy: str) -> int:
    """Return the number of devices, and of their counts and those of processes, with which the strategy exists."""
    rules = RULES[strategy]
    return math.prod(len(rules[axis]) if axis in rules else most for axis, most in CASES.items())


def _exists(strategy: Scalar, point: Point) -> bool:
    values = {"device": point.device, "backend": point.backend, "processes": world().size, **point.params}
    return all(values[axis] in known for axis, known in RULES[strategy].items() if axis in values)
