"""Data sets: shipped with a package, or fetched by an explicit step and verified by SHA-256.

Measurements never use the network: a loader uses fetched files if present, else an offline substitute, and records the
choice in `source`. Heavy packages are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from accelbench.workloads.data.cache import CACHE_VARIABLE, DataError, cache_directory

if TYPE_CHECKING:
    from accelbench.workloads.data.embryos import Embryos, load_embryos
    from accelbench.workloads.data.har import Activities, load_har
    from accelbench.workloads.data.imagefiles import ImageFolder, RecordFiles, image_folder
    from accelbench.workloads.data.imdb import Reviews, load_imdb
    from accelbench.workloads.data.mnist import Digits, load_mnist
    from accelbench.workloads.data.split import Split

__all__ = [
    "CACHE_VARIABLE",
    "Activities",
    "DataError",
    "Digits",
    "Embryos",
    "ImageFolder",
    "RecordFiles",
    "Reviews",
    "Split",
    "cache_directory",
    "image_folder",
    "load_embryos",
    "load_har",
    "load_imdb",
    "load_mnist",
]

_MODULES = {
    "embryos": ("Embryos", "load_embryos"),
    "har": ("Activities", "load_har"),
    "imagefiles": ("ImageFolder", "RecordFiles", "image_folder"),
    "imdb": ("Reviews", "load_imdb"),
    "mnist": ("Digits", "load_mnist"),
    "split": ("Split",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"accelbench.workloads.data.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
