"""How far apart the ceilings of two devices are, each as its own run measured it."""

from __future__ import annotations

from accelbench.reproduce.evidence import Seen
from accelbench.reproduce.times import Pair


def ceiling_ratios(pair: Pair) -> dict[str, float]:
    """Return the second device's ceiling over the first one's, by the kind of work that both were measured at."""
    over, under = ceilings_of(pair.over[0]), ceilings_of(pair.under[0])
    return {kind: under[kind] / value for kind, value in over.items() if kind in under}


def ceilings_of(seen: Seen) -> dict[str, float]:
    """Return the ceilings of a point's device in its run, by kind; those in doubt or of single cores are left out."""
    device = seen.record.point.device
    return {c.kind: c.value for c in seen.run.ceilings if c.device == device and c.cores == "all" and not c.doubt}
