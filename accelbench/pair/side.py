"""One of the two sides: what a word and its settings on the command line mean, and the command that starts it."""

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
"""The word for the Python that runs this command."""
ENVIRONMENT = "env:"


@dataclass(frozen=True)
class PairSide:
    """Interpreter or image, and the settings under which it measures."""

    name: str
    """The letter A or B."""
    word: str
    """The word that the user wrote."""
    settings: tuple[str, ...] = ()
    """The settings as the user wrote them."""
    backend: str | None = None
    """The framework under Keras that the settings ask for."""
    choices: tuple[Choice, ...] = ()
    """The values of axes that the settings ask for."""
    variables: dict[str, str] = field(default_factory=dict)
    """The environment variables that the settings ask for."""

    @classmethod
    def parse(cls, name: str, word: str, settings: Sequence[str]) -> PairSide:
        """Read `backend=jax`, `impl=numba`, `matmul.impl=numba` and `env:NAME=VALUE`; UserError for anything else."""
        backend: str | None = None
        choices: list[Choice] = []
        variables: dict[str, str] = {}
        for setting in settings:
            option = f"--{name.lower()} {setting!r}"
            key, equals, value = setting.partition("=")
            if not equals or not key.removeprefix(ENVIRONMENT) or not (value or key.startswith(ENVIRONMENT)):
                raise UserError(
                    f"{option} is not understood: write backend=NAME, AXIS=VALUE or {ENVIRONMENT}NAME=VALUE"
                )
            if key.startswith(ENVIRONMENT):
                variables[key.removeprefix(ENVIRONMENT)] = value
            elif key == "backend":
                backend = value
            elif "," in value:
                raise UserError(f"{option}: a side has one value of an axis; --param gives several to both sides")
            else:
                choices.append(Choice.parse(setting))
        side = cls(name, word, tuple(settings), backend, tuple(choices), variables)
        side.command("cpu")  # a word that means nothing is refused here
        return side

    def __str__(self) -> str:
        return " ".join((self.word, *self.settings))

    def command(self, device: Device) -> list[str]:
        """Return the command that starts this side; UserError where the word means nothing on this machine."""
        try:
            if is_image(self.word):
                return in_image(self.word, ("python", "-m", SERVER), self.variables, device)
            # Without the modules of the current folder, in this Python and in another that has accelbench installed.
            return module_command(SERVER) if self.word == THIS else [_interpreter(self.word), "-P", "-m", SERVER]
        except UserError as error:
            raise UserError(f"{self.name}: {error}") from None

    def sets(self, point: Point, axis: str) -> bool:
        """Return whether this side's settings choose the value of that axis of the point."""
        return any(choice.axis == axis and choice.benchmark in (None, point.benchmark) for choice in self.choices)


def common_name(point: Point, sides: Sequence[PairSide]) -> str:
    """Return the point's name without what any of the sides sets: the same for the two points of a pair."""
    params = {axis: value for axis, value in point.params.items() if not any(s.sets(point, axis) for s in sides)}
    backend = None if any(side.backend for side in sides) else point.backend
    return str(Point(point.benchmark, point.device, params, backend))


def _interpreter(word: str) -> str:
    """Return the path of the Python that is meant, its symbolic link kept: it tells an environment from another."""
    path = Path(word)
    if path.is_dir():
        path = path / "bin" / "python"
        if not path.exists():
            raise UserError(f"{word} is no environment of Python: it has no bin/python")
    found = shutil.which(path)
    if found is None:
        raise UserError(
            f"{word!r} is neither '.' (this Python), nor a Python or an environment's folder, nor docker:IMAGE, "
            f"podman:IMAGE or FILE{SIF}"
        )
    return os.path.abspath(found)
