"""Commands that install optional packages: the extras of accelbench, and the frameworks by device."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Literal

Extra = Literal["cpu", "gpu", "gpu13", "tpu", "tpu-tensorflow", "jax", "torch", "triton", "mpi", "s3", "trace", "dev"]
"""The extras of pyproject.toml."""
PackageSet = Literal["cpu", "gpu", "gpu13", "tpu"]
"""The extras with a device's libraries and its first framework: JAX for a TPU, else TensorFlow."""
FRAMEWORKS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
"""Names of the backends in messages."""
TRACE_PACKAGES = ("tensorboard", "xprof")
"""Modules of the extra `trace`, which the extras of all frameworks contain."""
TENSORFLOW_BELOW = (3, 14)
"""First Python version without a TensorFlow wheel; pyproject.toml then installs JAX instead."""
_JAX: dict[PackageSet, str] = {"gpu": "jax[cuda12]", "gpu13": "jax[cuda13]", "tpu": "jax[tpu]"}
"""Requirement that installs JAX for an accelerator; the extra `jax` installs it for CPUs."""


def install_extra(extra: Extra) -> str:
    """Return the command that installs an extra.

    pip resolves the name against the installed package, so a package that is on no index works, too.
    """
    return f"pip install 'accelbench[{extra}]'"


def missing_trace_packages() -> str:
    """Return the message about missing packages of the extra `trace`; empty if none is missing."""
    missing = [name for name in TRACE_PACKAGES if find_spec(name) is None]
    return f"not installed: {', '.join(missing)} ({install_extra('trace')})" if missing else ""


def install_framework(backend: str, packages: PackageSet) -> str:
    """Return the command that installs a backend's framework for a device's package set.

    Returns the reason if the framework has no package for this Python version, and an empty string for an unknown
    backend.
    """
    if backend == "tensorflow" and sys.version_info >= TENSORFLOW_BELOW:
        return "no package for Python {}.{}".format(*sys.version_info)
    if backend == "jax" and packages in _JAX:
        return f"pip install '{_JAX[packages]}'"
    of_tensorflow: Extra = "tpu-tensorflow" if packages == "tpu" else packages
    extras: dict[str, Extra] = {"tensorflow": of_tensorflow, "jax": "jax", "torch": "torch"}
    return install_extra(extras[backend]) if backend in extras else ""


def not_installed(backend: str, remedy: str) -> str:
    """Return the message for a missing framework, with the command that installs it, if known."""
    return f"{FRAMEWORKS.get(backend, backend)} is not installed{f': {remedy}' if remedy else ''}"
