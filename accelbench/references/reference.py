"""References: published results, and earlier results of this machine, read from `references.toml`.

A reference applies to points of the same benchmark on a device with the same name. Axes without a stated value may have
any value; `how` states the conditions of the measurement. Where a hypervisor hides the name of the CPU, references of
the same core (`AMD Zen 4`) are shown instead, as references of its family.
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

from accelbench.errors import UserError, reason_of
from accelbench.profiling.files import read_toml
from accelbench.profiling.machine.vendor_peaks import PREFIXES, find_core
from accelbench.profiling.records.environment import Cpu, Environment
from accelbench.profiling.records.point import Point, Scalar
from accelbench.profiling.records.stored import Positive, Stored, first_fault

OWN = "references.toml"
"""File next to the stored runs, written by `accelbench contribute`."""
OWN_SOURCE = "run "
"""Prefix of the source of an own reference."""
ReferenceDevice = Literal["cpu", "gpu"]
"""Kind of a reference's device."""
Date = Annotated[str, Field(pattern=r"^20\d\d(-\d\d(-\d\d)?)?$")]
"""Year, month (`2024-07`) or day."""


class Reference(Stored):
    """Entry of `references.toml`."""

    device: str
    """Regular expression for the full name of the CPU, or of the GPU as the driver reports it, without the vendor's
    prefixes."""
    kind: ReferenceDevice
    vendor: str | None = None
    """Vendor of the GPU; None for NVIDIA."""
    cpus: int | None = Field(default=None, gt=0)
    """Number of logical CPUs, for a CPU; it must be equal."""
    sockets: int | None = Field(default=None, gt=0)
    """Number of sockets, for a CPU; all CPUs of the machine must be usable."""
    core: str | None = None
    """Core of the CPU, as titled in `peaks.toml`, for a CPU with a hidden name; see `is_of_family`."""
    benchmark: str
    backend: str | None = None
    """Framework of a training workload; none for any."""
    axes: dict[str, tuple[Scalar, ...]] = {}
    """Allowed values by axis."""
    at_least: dict[str, int] = {}
    """Minimum values by axis, for sizes."""
    value: Positive
    unit: str
    """Unit of the value: `FLOP/s`, `B/s`, `images/s`."""
    how: str
    """Conditions of the measurement (shape, batch size, clock, software), as text."""
    date: Date | None = None
    """Date of measurement or publication; none if unknown."""
    source: str
    """URL of a published reference, section of `docs/measured.md`, or the run of an own one."""

    @property
    def is_own(self) -> bool:
        """Return whether the reference is an earlier run's result."""
        return self.source.startswith(OWN_SOURCE)

    def is_of(self, point: Point, unit: str) -> bool:
        """Return whether the point measures the same work on the same kind of device."""
        values = point.values
        return (
            (self.benchmark, self.kind, self.unit) == (point.benchmark, point.device, unit)
            and self.backend in (None, point.backend)
            and all(values.get(axis) in allowed for axis, allowed in self.axes.items())
            and all(_at_least(values.get(axis), least) for axis, least in self.at_least.items())
        )

    def is_on(self, environment: Environment) -> bool:
        """Return whether the machine has the reference's device."""
        name, cpu = device_name(environment, self.kind), environment.cpu
        if name is None or not re.fullmatch(self.device, name):
            return False
        if self.core and has_hidden_name(cpu) and not (self.is_own and self.core == core_title(cpu)):
            return False
        whole = self.sockets is None or (cpu.sockets == self.sockets and cpu.usable == cpu.logical)
        if self.kind == "gpu":
            return environment.gpus[0].vendor == (self.vendor or "nvidia")
        return whole and self.cpus in (None, cpu.usable)

    def is_of_family(self, environment: Environment, single_core: bool) -> bool:
        """Return whether the machine has CPUs with the reference's core, and a hypervisor hides their name.

        Results of all cores are only comparable for the same number of CPUs.
        """
        cpu = environment.cpu
        if self.kind != "cpu" or self.core is None or not has_hidden_name(cpu):
            return False
        return self.core == core_title(cpu) and (single_core or self.cpus == cpu.usable)


def has_hidden_name(cpu: Cpu) -> bool:
    """Return whether the CPU's name has no model number, as in virtual machines: `AMD EPYC`, `Intel Xeon Processor`."""
    return cpu.model is not None and not _MODEL_NUMBER.search(_CLOCK.sub("", cpu.model))


def core_title(cpu: Cpu) -> str | None:
    """Return the core of the CPU, as titled in `peaks.toml`; None if it is unknown."""
    core = find_core(cpu)
    return core.title if core else None


def device_name(environment: Environment, kind: ReferenceDevice) -> str | None:
    """Return the name of the CPU or GPUs in references: for GPUs, the driver's name without the vendor's prefixes.

    None without GPUs, with different GPUs, and for MIG instances.
    """
    if kind == "cpu":
        return environment.cpu.model
    names = {PREFIXES.sub("", gpu.name) for gpu in environment.gpus}
    divided = any(gpu.mig or " MIG " in gpu.name for gpu in environment.gpus)
    return names.pop() if len(names) == 1 and not divided else None


_CLOCK = re.compile(r"@.*")
_MODEL_NUMBER = re.compile(r"\d[0-9A-Z]{2}|\b[A-Z]\d\b")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def _at_least(value: Scalar | None, least: int) -> bool:
    return isinstance(value, int) and value >= least


@cache
def published() -> tuple[Reference, ...]:
    """Return the references that accelbench includes."""
    text = (files("accelbench.references") / "references.toml").read_text(encoding="utf-8")
    return _parsed(tomllib.loads(text), "references.toml")


def own(folder: Path) -> tuple[Reference, ...]:
    """Return the references of the file in the runs' directory `folder`, none without a file.

    Raises UserError for an invalid file.
    """
    path = folder / OWN
    try:
        content = read_toml(path)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {reason_of(error)}") from None
    # Device names in this file are literal: an untrusted regular expression may take exponential time.
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
        raise UserError(f"{name}: expected [[reference]] tables: {error}") from None
