"""References: published results, and earlier results of this machine, read from `references.toml`.

A reference applies to points of the same benchmark on a device of the same name. Axes that it does not name may have
any value; its text states the conditions of the measurement.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from accelbench.errors import UserError
from accelbench.profiling.files import read_toml
from accelbench.profiling.machine.vendor_peaks import PREFIXES
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Point, Scalar
from accelbench.profiling.records.stored import Positive, Stored, first_fault

OWN = "references.toml"
"""The file beside the stored runs, which has what `accelbench contribute` wrote."""
ReferenceDevice = Literal["cpu", "gpu"]
"""The kinds of device of which figures are published."""
Date = Annotated[str, Field(pattern=r"^20\d\d(-\d\d(-\d\d)?)?$")]
"""A year, a month (`2024-07`) or a day."""


class Reference(Stored):
    """One figure of `references.toml`."""

    device: str
    """A regular expression for the whole name of the card as the driver gives it, less the vendor's prefixes; or for
    that of the CPU."""
    kind: ReferenceDevice
    cpus: int | None = Field(default=None, gt=0)
    """The CPUs that it was measured on, of a CPU: fewer or more of them are another machine."""
    sockets: int | None = Field(default=None, gt=0)
    """The sockets of a whole machine that it was measured on, of a CPU."""
    benchmark: str
    backend: str | None = None
    """The framework of a training; none where any will do."""
    axes: dict[str, tuple[Scalar, ...]] = {}
    """The values that these axes of a point may have."""
    at_least: dict[str, int] = {}
    """The least values of axes that are sizes."""
    value: Positive
    unit: str
    """The unit of the value: `FLOP/s`, `B/s`, `images/s`."""
    how: str
    """The shape, batch, clock and software that it was measured with, in words."""
    date: Date | None = None
    """When it was measured or published; none where nobody says."""
    source: str
    """The address at which it can be read, of a published one; else the run."""

    def is_of(self, point: Point, unit: str) -> bool:
        """Tell whether a point measures what the reference does, on whichever device of its kind."""
        values = point.values
        return (
            (self.benchmark, self.kind, self.unit) == (point.benchmark, point.device, unit)
            and self.backend in (None, point.backend)
            and all(values.get(axis) in allowed for axis, allowed in self.axes.items())
            and all(_at_least(values.get(axis), least) for axis, least in self.at_least.items())
        )

    def is_on(self, environment: Environment) -> bool:
        """Tell whether it was measured on such a device as this machine has."""
        name, cpu = device_name(environment, self.kind), environment.cpu
        if name is None or not re.fullmatch(self.device, name):
            return False
        whole = self.sockets is None or (cpu.sockets == self.sockets and cpu.usable == cpu.logical)
        return self.kind == "gpu" or (whole and self.cpus in (None, cpu.usable))


def device_name(environment: Environment, kind: ReferenceDevice) -> str | None:
    """Return what references call the CPU, or the GPUs; None for GPUs of several kinds, for parts of one, and for none.

    It is the driver's name of the card less the vendor's prefixes.
    """
    if kind == "cpu":
        return environment.cpu.model
    names = {PREFIXES.sub("", gpu.name) for gpu in environment.gpus}
    divided = any(gpu.mig or " MIG " in gpu.name for gpu in environment.gpus)
    return names.pop() if len(names) == 1 and not divided else None


_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def _at_least(value: Scalar | None, least: int) -> bool:
    return isinstance(value, int) and value >= least


@cache
def published() -> tuple[Reference, ...]:
    """Return every figure of the table that comes with accelbench."""
    text = (files("accelbench.references") / "references.toml").read_text(encoding="utf-8")
    return _parsed(tomllib.loads(text), "references.toml")


def own(folder: Path) -> tuple[Reference, ...]:
    """Return the figures of the file beside the runs in this folder, none where there is none.

    Raises UserError for one that is not understood.
    """
    path = folder / OWN
    try:
        content = read_toml(path)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    # The name of a device in such a file is literal: a regular expression of somebody else may take for ever.
    return tuple(
        reference.model_copy(update={"device": re.escape(_ESCAPED.sub(r"\1", reference.device))})
        for reference in _parsed(content, str(path))
    )


def _parsed(content: Mapping[str, Any], name: str) -> tuple[Reference, ...]:
    try:
        return tuple(Reference.model_validate(entry) for entry in content.get("reference", []))
    except ValidationError as error:
        raise UserError(f"{name}: {first_fault(error)}") from None
    except TypeError as error:
        raise UserError(f"{name} is no table of references: {error}") from None
