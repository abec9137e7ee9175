"""The commands that run a program in an image: of Docker or Podman by its name, of Apptainer by its SIF file."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from accelbench.errors import UserError
from accelbench.profiling.devices import device_kind
from accelbench.profiling.records.point import Device
from accelbench.workloads.data.cache import CACHE_VARIABLE, DataError, cache_directory

OCI = ("docker", "podman")
"""The engines that know images by their names: `docker:IMAGE`, `podman:IMAGE`."""
SIF = ".sif"
OCI_OPTIONS = (
    *("--rm", "--interactive", "--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
    *("--read-only", "--tmpfs", "/tmp", "--shm-size", "1g"),  # as the Makefile's container-bench has them
)
DATA = "/data"
"""The place within a container of the data sets that were fetched on the host."""
FOLDER = "/accelbench"
"""The project's folder in an image. In the caller's own folder, a checkout there would be imported instead."""
ENTRYPOINT = f"{FOLDER}/containers/entrypoint.sh"
"""The script that every container runs first; Docker and Podman know it from the image."""


def is_image(word: str) -> bool:
    """Return whether the word names an image."""
    return word.partition(":")[0] in OCI or word.endswith(SIF)


def in_image(word: str, program: Sequence[str], variables: Mapping[str, str], device: Device) -> list[str]:
    """Return the command that runs the program in the image; UserError where the engine or the file is not there."""
    engine, _, image = word.partition(":")
    settings = [option for name, value in variables.items() for option in ("--env", f"{name}={value}")]
    if engine in OCI:
        options = (*OCI_OPTIONS, *_access(engine, device), *_data(), *settings)
        return [_installed(engine), "run", *options, image, *program]
    if not Path(word).is_file():
        raise UserError(f"there is no image {word}")
    options = ("--drop-caps", "ALL", "--pwd", FOLDER, *_access("apptainer", device), *settings)
    return [_installed("apptainer"), "exec", *options, word, ENTRYPOINT, *program]


def _access(engine: str, device: Device) -> tuple[str, ...]:
    """Return the options that give the container access to the device."""
    return device_kind(device).container_options.get(engine, ())


def _data() -> tuple[str, ...]:
    """Return the options that show the container the data sets of the host; Apptainer does so by itself."""
    try:
        folder = cache_directory()
    except DataError:
        return ()
    return ("--volume", f"{folder}:{DATA}:ro", "--env", f"{CACHE_VARIABLE}={DATA}") if folder.is_dir() else ()


def _installed(engine: str) -> str:
    found = shutil.which(engine)
    if found is None:
        raise UserError(f"{engine} is not installed: a side may also be a Python or the folder of an environment")
    return found
