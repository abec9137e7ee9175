"""Loading of scenes for detectors: the Oxford-IIIT Pets if fetched, else synthetic shapes."""

from __future__ import annotations

import os
from pathlib import Path

from accelbench.workloads.data import DataError, cache_directory
from accelbench.workloads.vision.pets import load_pets
from accelbench.workloads.vision.scenes import SceneData
from accelbench.workloads.vision.shapes import drawn_shapes


def load_scenes(size: int, seed: int, *, masks: bool, folder: Path | None = None) -> SceneData:
    """Load the Oxford-IIIT Pets from the folder, by default `pets` in the data folder, as square images of that size.

    Without such a folder, return synthetic shapes. With `masks` the objects are whole animals with masks; without, only
    the heads are boxed. DataError for an unusable folder.
    """
    folder = folder or _default_folder()
    if folder is None or not os.path.lexists(folder):
        return drawn_shapes(size, seed)
    return load_pets(folder, size, masks=masks)


def _default_folder() -> Path | None:
    try:
        return cache_directory() / "pets"
    except DataError:  # there is no home directory
        return None
