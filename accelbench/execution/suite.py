"""Suites: named selections of benchmarks and axis values, stored as TOML files."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_validator

from accelbench.errors import UserError
from accelbench.profiling.devices import kinds
from accelbench.profiling.files import read_toml
from accelbench.profiling.records.point import Device, Scalar
from accelbench.profiling.records.stored import Stored, first_fault
from accelbench.profiling.text import did_you_mean, suggest
from accelbench.settings.limits import MOST_ROUNDS, MOST_SECONDS, MOST_VALUE

SUITES = files("accelbench") / "suites"
RENAMED = {"sitito2021": "msu2021", "sitito2021-small": "msu2021-small"}
"""Current names of renamed suites and studies, by their former names, which stored runs still contain."""


def _known(name: Device) -> Device:
    if name not in kinds():
        raise ValueError(f"unknown device {name!r} (choose {', '.join(kinds())})")
    return name


KnownDevice = Annotated[Device, AfterValidator(_known)]
"""Name of a known kind of device; validation rejects any other name, and searches for no device."""
Rounds = Annotated[int, Field(ge=1, le=MOST_ROUNDS, strict=True)]
"""Number of repetitions, each in a new process."""
KERNEL_ROUNDS = 3
"""Default number of repetitions of a kernel: one process per result cannot be compared with another run."""
ALLOWED = Field(gt=0, le=MOST_SECONDS)
Allowed = Annotated[float, ALLOWED]
"""Duration in seconds, of a week at most."""


def _no_truth_value(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("an axis value must be a text or an integer, not a truth value")
    return value


class Selection(Stored):
    """One benchmark of a suite, with the axis values that differ from its defaults."""

    name: str
    device: KnownDevice | None = None
    backends: tuple[str, ...] = ()
    """Backends to compare; empty for the benchmark's first backend. `--backend` overrides both."""
    axes: dict[str, tuple[Annotated[Scalar, BeforeValidator(_no_truth_value)], ...]] = {}
    host_cores: tuple[Annotated[int, Field(ge=1, le=MOST_VALUE, strict=True)], ...] = ()
    """Numbers of host cores to train with, one point each; empty for all cores. Points that need more cores than the
    machine has are skipped."""


class Suite(Stored):
    """Content of a suite file."""

    name: str
    description: str
    all: bool = False
    """Whether the suite selects every benchmark, with its default axis values."""
    study: bool = False
    """Whether the suite is a study; the report of a study starts with plots of its training workloads."""
    minutes: Annotated[float, Field(gt=0)] | None = None
    """Duration in minutes on two CPU cores; None if not timed."""
    max_seconds: dict[KnownDevice, Allowed] = {}
    """Maximum sampling time of a point in seconds, by device; one number in the file applies to all devices. On a GPU
    it applies twice, as in NVBench: to isolated samples and to batches.
    """
    rounds: dict[KnownDevice, Rounds] = {}
    """Repetitions of each kernel, by device, 3 by default; one number in the file applies to all devices."""
    training_rounds: dict[KnownDevice, Rounds] = {}
    """Repetitions of each training workload, by device, 1 by default; those after the first are short."""
    benchmark: list[Selection] = []

    @field_validator("max_seconds", "rounds", "training_rounds", mode="before")
    @classmethod
    def _on_all_devices(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else dict.fromkeys(kinds(), value)

    def selections(self, device: Device) -> list[Selection]:
        return [selection for selection in self.benchmark if selection.device in (None, device)]


def _first_fault(error: ValidationError) -> str:
    """Return the first validation error in terms of the file: the place, the fault and the remedy."""
    first = error.errors(include_url=False)[0]
    model: type[Stored] = Suite
    place, where = first["loc"], ""
    if place[:1] == ("benchmark",) and len(place) > 2:
        model, where, place = Selection, f"benchmark {int(place[1]) + 1}: ", place[2:]
    if first["type"] == "extra_forbidden":
        return f"{where}unknown key {place[-1]}{suggest(str(place[-1]), model.model_fields)}"
    if first["type"] == "tuple_type":
        value = json.dumps(first["input"], default=str)
        return f"{where}{'.'.join(map(str, place))} must be a list: {place[-1]} = [{value}]"
    return f"{where}{first_fault(error, skip=2 if where else 0)}"


def suite_names() -> list[str]:
    """Return the names of the built-in suites."""
    return sorted(file.name.removesuffix(".toml") for file in SUITES.iterdir() if file.name.endswith(".toml"))


def load_suite(name_or_path: str) -> Suite:
    """Load a built-in suite by name, or a suite from a TOML file; raise `UserError` for an unknown or invalid one."""
    path = Path(name_or_path)
    if name_or_path in suite_names():
        name, path = name_or_path, Path(str(SUITES / f"{name_or_path}.toml"))
    elif path.suffix == ".toml":
        name = path.stem
    elif new := RENAMED.get(name_or_path):
        raise UserError(f"the suite {name_or_path} was renamed: use --suite {new}")
    else:
        near = (
            did_you_mean(name_or_path, suite_names()) or f": choose one of {', '.join(suite_names())}, or a .toml file"
        )
        raise UserError(f"unknown suite {name_or_path!r}{near}")
    try:
        return Suite.model_validate({"name": name} | read_toml(path))
    except ValidationError as error:
        raise UserError(f"the suite {name_or_path}: {_first_fault(error)}") from None
    except OSError as error:
        raise UserError(f"cannot read the suite {path}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"the suite {name_or_path} is not valid TOML: {error}") from None
