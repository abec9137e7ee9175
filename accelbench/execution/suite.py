"""A suite: a named selection of benchmarks and of values for their axes, as a TOML file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_validator

from accelbench.errors import UserError
from accelbench.profiling.devices import device_kind, kinds
from accelbench.profiling.files import read_toml
from accelbench.profiling.records.point import Device, Scalar
from accelbench.profiling.records.stored import Stored, first_fault
from accelbench.profiling.text import did_you_mean
from accelbench.settings.limits import MOST_ROUNDS, MOST_SECONDS, MOST_VALUE

SUITES = files("accelbench") / "suites"
RENAMED = {"sitito2021": "msu2021", "sitito2021-small": "msu2021-small"}
"""Current names of renamed suites and studies, by their former names, which stored runs still contain."""
KnownDevice = Annotated[Device, AfterValidator(lambda name: device_kind(name).name)]
"""The name of a kind of device that is here: a file that names another is refused."""
Rounds = Annotated[int, Field(ge=1, le=MOST_ROUNDS, strict=True)]
"""A number of rounds."""
ALLOWED = Field(gt=0, le=MOST_SECONDS)
Allowed = Annotated[float, ALLOWED]
"""The seconds that something may take."""


def _no_truth_value(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a value of an axis is a word or a whole number")
    return value


class Selection(Stored):
    """One benchmark of a suite: its axes' values where they are not the default ones, and what it is for."""

    name: str
    device: KnownDevice | None = None
    backends: tuple[str, ...] = ()
    """The backends to compare; none for the benchmark's first one. `--backend` overrides both."""
    axes: dict[str, tuple[Annotated[Scalar, BeforeValidator(_no_truth_value)], ...]] = {}
    host_cores: tuple[Annotated[int, Field(ge=1, le=MOST_VALUE, strict=True)], ...] = ()
    """The numbers of host cores to which the process of a training is kept, one after the other; none for all cores. A
    number that the machine lacks is skipped, with the reason."""


class Suite(Stored):
    """The content of a suite's file."""

    name: str
    description: str
    all: bool = False
    """Whether the suite is every benchmark there is, on its default axes."""
    study: bool = False
    """Whether its trainings are a study, with whose drawings the page begins."""
    minutes: Annotated[float, Field(gt=0)] | None = None
    """The minutes that it takes on two CPU cores, where it was timed."""
    max_seconds: dict[KnownDevice, Allowed] = {}
    """The sampling time in seconds of an unsteady point, by device; the file may give one number for all. On a GPU,
    NVBench takes it twice: for isolated samples, and back to back.
    """
    rounds: dict[KnownDevice, Rounds] = {}
    """The number of fresh processes that measure each kernel, by device; the file may give one number for all."""
    training_rounds: dict[KnownDevice, Rounds] = {}
    """The same of trainings, whose rounds after the first are short; one round is the rule."""
    benchmark: list[Selection] = []

    @field_validator("max_seconds", "rounds", "training_rounds", mode="before")
    @classmethod
    def _on_all_devices(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else dict.fromkeys(kinds(), value)

    def selections(self, device: Device) -> list[Selection]:
        return [selection for selection in self.benchmark if selection.device in (None, device)]


def suite_names() -> list[str]:
    """Return the names of the suites that come with accelbench."""
    return sorted(file.name.removesuffix(".toml") for file in SUITES.iterdir() if file.name.endswith(".toml"))


def load_suite(name_or_path: str) -> Suite:
    """Return the suite of that name, or of that TOML file; `UserError` saying what is wrong with it."""
    path = Path(name_or_path)
    if name_or_path in suite_names():
        name, path = name_or_path, Path(str(SUITES / f"{name_or_path}.toml"))
    elif path.suffix == ".toml":
        name = path.stem
    elif new := RENAMED.get(name_or_path):
        raise UserError(f"the suite {name_or_path} is now called {new}")
    else:
        near = (
            did_you_mean(name_or_path, suite_names()) or f": there is {', '.join(suite_names())}, or name a .toml file"
        )
        raise UserError(f"no suite is called {name_or_path!r}{near}")
    try:
        return Suite.model_validate({"name": name} | read_toml(path))
    except ValidationError as error:
        raise UserError(f"the suite {name_or_path}: {first_fault(error)}") from None
    except OSError as error:
        raise UserError(f"cannot read the suite {path}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"the suite {name_or_path} is not valid TOML: {error}") from None
