"""Detection of the container engine by its marker, with the standard library only."""

from __future__ import annotations

import os
import re
from pathlib import Path

from accelbench.profiling.machine.environment.files import read_text

# Markers of the engines in their containers. Inner ones first: Docker or containerd creates Kubernetes pods.
CONTAINER_VARIABLES = {
    "APPTAINER_CONTAINER": "apptainer",
    "SINGULARITY_CONTAINER": "singularity",
    "KUBERNETES_SERVICE_HOST": "kubernetes",
}
CONTAINER_FILES = {
    ".singularity.d": "apptainer",
    "var/run/secrets/kubernetes.io": "kubernetes",
    "run/.containerenv": "podman",
    ".dockerenv": "docker",
}
CONTAINER_GROUPS = {"kubepods": "kubernetes", "libpod": "podman", "docker": "docker", "lxc": "lxc", "garden": "garden"}
CONTAINER_NAMES = ("podman", "docker", "lxc", "oci", "systemd-nspawn", "flatpak")
"""Recorded values of the variable `container` (systemd's container interface)."""

RUNTIME_VARIABLES = {"COLAB_RELEASE_TAG": "colab", "COLAB_GPU": "colab", "KAGGLE_KERNEL_RUN_TYPE": "kaggle"}
ACCELERATOR = "TPU_ACCELERATOR_TYPE"
"""Variable with the type of the TPU, `v5e-1`, on hosted runtimes and in pods of Kubernetes, where the bus is hidden."""

IMAGE_VARIABLE = "ACCELBENCH_IMAGE"


def collect_container(root: Path = Path("/")) -> str | None:
    """Return the engine of the container in which this process runs; None without a marker."""
    by_file = next((engine for name, engine in CONTAINER_FILES.items() if (root / name).exists()), None)
    return first_set(CONTAINER_VARIABLES) or by_file or _stated_container() or _container_by_group(root)


def hosted_notebook() -> str | None:
    """Return the service on whose runtime this process runs, `colab` or `kaggle`; None elsewhere."""
    return first_set(RUNTIME_VARIABLES)


def collect_image() -> str | None:
    """Return the digest of the image's configuration from `ACCELBENCH_IMAGE`; None if unset or malformed."""
    stated = os.environ.get(IMAGE_VARIABLE, "")
    return stated if re.fullmatch("sha256:[0-9a-f]{64}", stated) else None


def _stated_container() -> str | None:
    stated = os.environ.get("container")  # noqa: SIM112 - systemd's interface has it in lower case
    return stated if stated in CONTAINER_NAMES else None


def _container_by_group(root: Path) -> str | None:
    paths = read_text(root / "proc/self/cgroup") or ""
    return next((engine for word, engine in CONTAINER_GROUPS.items() if f"/{word}" in paths), None)


def first_set(variables: dict[str, str]) -> str | None:
    """Return the value in `variables` of the first environment variable that is set."""
    return next((meaning for name, meaning in variables.items() if os.environ.get(name)), None)
