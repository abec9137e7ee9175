"""Side of a pair: its interpreter or image and its settings from the command line, and the command that starts it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from accelbench.errors import UserError
from accelbench.execution.plan import Choice
from accelbench.pair.container import SIF, in_image, is_image
from accelbench.profiling.child import module_command
from accelbench.profiling.records.point import Device, Point

SERVER = "accelbench.pair.server"
THIS = "."
"""Argument that stands for the Python that runs this command."""
ENVIRONMENT = "env:"


@dataclass(frozen=True)
class PairSide:
    """Interpreter or image of a side, with its settings."""

    name: str
    """`A` or `B`."""
    word: str
    """Interpreter, environment or image as given on the command line."""
    settings: tuple[str, ...] = ()
    """Settings as given on the command line."""
    backend: str | None = None
    """Keras backend from the settings."""
    choices: tuple[Choice, ...] = ()
    """Values of axes from the settings."""
    variables: dict[str, str] = field(default_factory=dict)
    """Environment variables from the settings."""

    @classmethod
    def parse(cls, name: str, word: str, settings: Sequence[str]) -> PairSide:
        """Parse `backend=jax`, `impl=numba`, `matmul.impl=numba`, `env:NAME=VALUE`; raise UserError for others."""
        backend: str | None = None
        choices: list[Choice] = []
        variables: dict[str, str] = {}
        for setting in settings:
            option = f"--{name.lower()} {setting!r}"
            key, equals, value = setting.partition("=")
            if not equals or not key.removeprefix(ENVIRONMENT) or not (value or key.startswith(ENVIRONMENT)):
                raise UserError(
                    f"{option}: invalid setting (expected backend=NAME, AXIS=VALUE or {ENVIRONMENT}NAME=VALUE)"
                )
            if key.startswith(ENVIRONMENT):
                variables[key.removeprefix(ENVIRONMENT)] = value
            elif key == "backend":
                backend = value
            elif "," in value:
                raise UserError(f"{option}: expected a single value; several values, for both sides, need --param")
            else:
                choices.append(Choice.parse(setting))
        side = cls(name, word, tuple(settings), backend, tuple(choices), variables)
        side.command("cpu")  # raises UserError for an invalid interpreter or image
        return side

    def __str__(self) -> str:
        return " ".join((self.word, *self.settings))

    def command(self, device: Device) -> list[str]:
        """Return the command that starts this side; raise UserError if its interpreter or image is not found."""
        try:
            if is_image(self.word):
                return in_image(self.word, ("python", "-m", SERVER), self.variables, device)
            # Neither interpreter imports modules from the current directory (-P).
            return module_command(SERVER) if self.word == THIS else [_interpreter(self.word), "-P", "-m", SERVER]
        except UserError as error:
            raise UserError(f"{self.name}: {error}") from None

    def sets(self, point: Point, axis: str) -> bool:
        """Return whether this side's settings fix the value of the point's axis."""
        return any(choice.axis == axis and choice.benchmark in (None, point.benchmark) for choice in self.choices)


def common_name(point: Point, sides: Sequence[PairSide]) -> str:
    """Return the point's name without the axes and backend set by a side: the same for both points of a pair."""
    params = {axis: value for axis, value in point.params.items() if not any(s.sets(point, axis) for s in sides)}
    backend = None if any(side.backend for side in sides) else point.backend
    return str(Point(point.benchmark, point.device, params, backend))


def _interpreter(word: str) -> str:
    """Return the absolute path of the interpreter; symbolic links are kept, as they identify virtual environments."""
    path = Path(word)
    if path.is_dir():
        path = path / "bin" / "python"
        if not path.exists():
            raise UserError(f"{word} is not a Python environment: it has no bin/python")
    found = shutil.which(path)
    if found is None:
        raise UserError(
            f"{word!r} not found (expected '.' for this Python, another Python or its environment, docker:IMAGE, "
            f"podman:IMAGE or FILE{SIF})"
        )
    return os.path.abspath(found)
