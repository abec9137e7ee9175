"""Commands that run a program in a container image: Docker or Podman by image name, Apptainer by SIF file."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from accelbench.errors import UserError
from accelbench.profiling.devices import device_kind
from accelbench.profiling.records.point import Device
from accelbench.workloads.data import CACHE_VARIABLE, DataError, cache_directory

OCI = ("docker", "podman")
"""Engines that take an image name: `docker:IMAGE`, `podman:IMAGE`."""
SIF = ".sif"
OCI_OPTIONS = (
    *("--rm", "--interactive", "--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
    *("--read-only", "--tmpfs", "/tmp", "--shm-size", "1g"),  # as in the Makefile's container-bench
)
DATA = "/data"
"""Mount point in the container of the host's data sets."""
FOLDER = "/accelbench"
"""Working directory in the container: in the caller's directory, a checkout would be imported instead."""
ENTRYPOINT = f"{FOLDER}/containers/entrypoint.sh"
"""Entry point of every container, passed explicitly to Apptainer; Docker and Podman read it from the image."""


def is_image(word: str) -> bool:
    """Return whether the argument names an image."""
    return word.partition(":")[0] in OCI or word.endswith(SIF)


def in_image(word: str, program: Sequence[str], variables: Mapping[str, str], device: Device) -> list[str]:
    """Return the command that runs the program in the image; raise UserError if the engine or the file is missing."""
    engine, _, image = word.partition(":")
    settings = [option for name, value in variables.items() for option in ("--env", f"{name}={value}")]
    if engine in OCI:
        options = (*OCI_OPTIONS, *_access(engine, device), *_data(), *settings)
        return [_installed(engine), "run", *options, image, *program]
    if not Path(word).is_file():
        raise UserError(f"image file {word} not found")
    options = ("--drop-caps", "ALL", "--pwd", FOLDER, *_access("apptainer", device), *settings)
    return [_installed("apptainer"), "exec", *options, word, ENTRYPOINT, *program]


def _access(engine: str, device: Device) -> tuple[str, ...]:
    return device_kind(device).container_options.get(engine, ())


def _data() -> tuple[str, ...]:
    """Return the options that mount the host's data sets; Apptainer mounts them by itself."""
    try:
        folder = cache_directory()
    except DataError:
        return ()
    return ("--volume", f"{folder}:{DATA}:ro", "--env", f"{CACHE_VARIABLE}={DATA}") if folder.is_dir() else ()


def _installed(engine: str) -> str:
    found = shutil.which(engine)
    if found is None:
        raise UserError(f"{engine} is not installed: install it, or give a Python or a virtual environment as the side")
    return found
