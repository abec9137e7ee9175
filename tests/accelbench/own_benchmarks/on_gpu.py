"""Points that are planned for a GPU and use none, so that their workers can be watched on every machine."""

from __future__ import annotations

from profiling.benchmark import Point, Task, benchmark, implemented

IMPLS = ("plain", "again", "dies", "hangs", "threads", "driver")
HOWS = ("well", "crash", "vanish", "fill-memory", "raise", "hang", "beget")


@benchmark("forked", devices=("gpu",), axes={"impl": IMPLS, "how": HOWS}, figure="time", module="forked.{impl}")
def forked(point: Point) -> Task:
    """Behave as asked for; what the module does as it is imported, it does before the worker is forked."""
    return implemented(point)
