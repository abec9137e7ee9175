"""One of the two sides: what a word and its settings on the command line mean, and the command that starts it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from accelbench.errors import UserError
from accelbench.run.plan import Choice
from profiling.records.point import Device, Point

SERVER = ("-m", "accelbench.pair.server")
THIS = "."
"""The word for the Python that runs this command."""
ENVIRONMENT = "env:"
CONTAINER_OPTIONS = (
    *("--rm", "--interactive", "--network", "none"),
    *("--read-only", "--tmpfs", "/tmp", "--shm-size", "1g"),  # as the Makefile's container-bench has them
)
IMAGE_FOLDER = "/accelbench"
"""The folder of the project in an image: from the caller's own folder, a checkout there would be imported instead."""
ENTRYPOINT = f"{IMAGE_FOLDER}/containers/entrypoint.sh"
"""The script that every container runs first, which Docker and Podman know from the image."""
GPU_OPTIONS = {"docker": ("--gpus", "all"), "podman": ("--device", "nvidia.com/gpu=all"), "apptainer": ("--nv",)}


@dataclass(frozen=True)
class Side:
    """An interpreter or an image, and the settings under which it measures."""

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
    def parse(cls, name: str, word: str, settings: Sequence[str]) -> Side:
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
        engine, colon, image = self.word.partition(":")
        if colon and engine in ("docker", "podman"):
            variables = [part for name, value in self.variables.items() for part in ("--env", f"{name}={value}")]
            options = (*CONTAINER_OPTIONS, *_gpu(engine, device), *variables)
            return [_installed(engine), "run", *options, image, "python", *SERVER]
        if self.word.endswith(".sif"):
            if not Path(self.word).is_file():
                raise UserError(f"{self.name}: there is no image {self.word}")
            variables = [part for name, value in self.variables.items() for part in ("--env", f"{name}={value}")]
            options = ("--pwd", IMAGE_FOLDER, *_gpu("apptainer", device), *variables)
            return [_installed("apptainer"), "exec", *options, self.word, ENTRYPOINT, "python", *SERVER]
        return [self._interpreter(), *SERVER]

    def _interpreter(self) -> str:
        """Return the path of the Python that is meant, its symbolic link kept: it tells an environment from another."""
        if self.word == THIS:
            return sys.executable
        path = Path(self.word)
        if path.is_dir():
            path = path / "bin" / "python"
            if not path.exists():
                raise UserError(f"{self.name}: {self.word} is no environment of Python: it has no bin/python")
        found = shutil.which(path)
        if found is None:
            raise UserError(
                f"{self.name}: {self.word!r} is neither '.' (this Python), nor a Python or an environment's folder, "
                "nor docker:IMAGE, podman:IMAGE or FILE.sif"
            )
        return os.path.abspath(found)

    def sets(self, point: Point, axis: str) -> bool:
        """Return whether this side's settings choose the value of that axis of the point."""
        return any(choice.axis == axis and choice.benchmark in (None, point.benchmark) for choice in self.choices)


def common_name(point: Point, sides: Sequence[Side]) -> str:
    """Return the point's name without what any of the sides sets: the same for the two points of a pair."""
    params = {axis: value for axis, value in point.params.items() if not any(s.sets(point, axis) for s in sides)}
    backend = None if any(side.backend for side in sides) else point.backend
    return str(Point(point.benchmark, point.device, params, backend))


def _gpu(engine: str, device: Device) -> tuple[str, ...]:
    return GPU_OPTIONS[engine] if device == "gpu" else ()


def _installed(engine: str) -> str:
    found = shutil.which(engine)
    if found is None:
        raise UserError(f"{engine} is not installed: a side may also be a Python or the folder of an environment")
    return found
