"""The scenes that detectors are trained on: the Oxford-IIIT Pets where they were fetched, else drawn shapes."""

from __future__ import annotations

import os
from pathlib import Path

from accelbench.workloads.data import DataError, cache_directory
from accelbench.workloads.vision.pets import load_pets
from accelbench.workloads.vision.scenes import SceneData
from accelbench.workloads.vision.shapes import drawn_shapes


def load_scenes(size: int, seed: int, *, masks: bool, folder: Path | None = None) -> SceneData:
    """Return the Oxford-IIIT Pets in the folder, by default `pets` in the data folder, as square images of that size.

    Where there is no such folder, drawn shapes. With `masks` the objects are whole and have their masks; without, only
    the heads of the pets are boxed. DataError for a folder that cannot be trained on.
    """
    folder = folder or _default_folder()
    if folder is None or not os.path.lexists(folder):
        return drawn_shapes(size, seed)
    return load_pets(folder, size, masks=masks)


def _default_folder() -> Path | None:
    try:
        return cache_directory() / "pets"
    except DataError:  # no home, and so no folder
        return None
