"""The points of a benchmark that decide a claim, as its file names them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from accelbench.run.plan import discover
from accelbench.run.suite import KnownDevice
from profiling.records.point import Point, Scalar
from profiling.records.stored import Stored

HOST_CORES = "host_cores"
"""The value of a point that is no axis: the number of the host's cores that its process is kept to."""


class Points(Stored):
    """The points of one benchmark that decide a claim."""

    benchmark: str
    devices: Annotated[tuple[KnownDevice, ...], Field(min_length=1)]
    """The devices; a ratio of times is the first one's over each other's."""
    fixed: dict[str, tuple[Scalar, ...]] = {}
    """The values that decide, by axis; points with others do not."""
    swept: str | None = None
    """The axis along which points are compared."""
    free: tuple[str, ...] = ()
    """The axes that change nothing of what is compared: the epochs do not change the time of a step."""
    group: str = ""
    """The group of points that this one is of, where the rule compares groups."""

    def ask_for(self, point: Point) -> bool:
        """Return whether the point is one of these, whatever its device."""
        if point.benchmark != self.benchmark:
            return False
        if point.host_cores is not None and HOST_CORES not in {self.swept, *self.fixed}:
            return False  # a device that is kept from its cores is another one
        return all(value_of(point, axis) in values for axis, values in self.fixed.items())

    def __str__(self) -> str:
        """Return the points in words: `bilstm-har with units 64 or 128`."""
        fixed = [f"{axis} {' or '.join(map(str, values))}" for axis, values in self.fixed.items()]
        fixed += [f"several values of {self.swept}"] if self.swept else []
        return f"{self.benchmark}{' with ' * bool(fixed)}{', '.join(fixed)}"


def value_of(point: Point, axis: str) -> Scalar | None:
    """Return the point's value of an axis; of one that it need not name, the default that its benchmark declares."""
    benchmark = discover().get(point.benchmark)
    default = benchmark.optional.get(axis, (None,)) if benchmark else (None,)
    return point.values.get(axis, default[0])
