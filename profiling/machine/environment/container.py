"""The container engine around this process, by the marker that each leaves; the standard library suffices."""

from __future__ import annotations

import os
import re
from pathlib import Path

from accelbench.profiling.machine.environment.files import read_text

# Each engine leaves a marker in its containers; inner ones first: Kubernetes pods are made by Docker or containerd.
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
"""The values of the variable `container` (systemd's container interface) that are recorded."""

IMAGE_VARIABLE = "ACCELBENCH_IMAGE"


def collect_container(root: Path = Path("/")) -> str | None:
    """Return the engine whose container this process is in, or None where no marker of one was seen."""
    by_file = next((engine for name, engine in CONTAINER_FILES.items() if (root / name).exists()), None)
    return first_set(CONTAINER_VARIABLES) or by_file or _stated_container() or _container_by_group(root)


def collect_image() -> str | None:
    """Return the digest of the image's configuration, which only the container's starter or the SIF's builder tells."""
    stated = os.environ.get(IMAGE_VARIABLE, "")
    return stated if re.fullmatch("sha256:[0-9a-f]{64}", stated) else None


def _stated_container() -> str | None:
    stated = os.environ.get("container")  # noqa: SIM112 - the interface writes it in small letters
    return stated if stated in CONTAINER_NAMES else None


def _container_by_group(root: Path) -> str | None:
    paths = read_text(root / "proc/self/cgroup") or ""
    return next((engine for word, engine in CONTAINER_GROUPS.items() if f"/{word}" in paths), None)


def first_set(variables: dict[str, str]) -> str | None:
    """Return the meaning of the first variable that is set."""
    return next((meaning for name, meaning in variables.items() if os.environ.get(name)), None)
