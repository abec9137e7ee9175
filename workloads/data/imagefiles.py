"""Folders of images: one folder per class, or TFRecord files. Files are only listed; the pipeline reads them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accelbench.workloads.data.cache import DataError, cache_directory, is_data

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".jpe", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}


@dataclass(frozen=True, kw_only=True)
class ImageFolder:
    """Image files; labels are indices into `classes`."""

    source: str
    synthetic: bool = False
    classes: tuple[str, ...]
    train: tuple[Path, ...]
    y_train: NDArray[np.int64]
    held_out: tuple[Path, ...]
    y_test: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class RecordFiles:
    """TFRecord files of examples with the keys image/encoded (JPEG), image/class/label (1-based) and others."""

    source: str
    synthetic: bool = False
    train: tuple[Path, ...]
    held_out: tuple[Path, ...]


def image_folder(path: Path | None = None) -> ImageFolder | RecordFiles | None:
    """List an ImageNet-like folder, by default `imagenet` in the data folder; None if it does not exist.

    The layout is `train/CLASS/IMAGE` and `val/CLASS/IMAGE`, or `train-*` and `validation-*` TFRecord files as from
    TensorFlow's ImageNet scripts. Classes are numbered in alphabetical order. `DataError` for other layouts, or too few
    images.
    """
    path = path or _default_folder()
    if path is None or not os.path.lexists(path):
        return None
    try:
        names = sorted(entry.name for entry in os.scandir(path))
    except OSError as error:
        raise _unreadable(error, path) from error
    records = tuple(path / name for name in names if name.startswith("train-"))
    if records:
        held_out = tuple(path / name for name in names if name.startswith("validation-"))
        if not held_out:
            raise DataError(f"{path} has train-* records but no validation-* records, on which the quality is measured")
        return RecordFiles(
            source=f"{len(records):,} TFRecord files of the folder {path.name}", train=records, held_out=held_out
        )
    if not {"train", "val"} <= set(names):
        raise DataError(f"{path} needs folders train and val with one folder of images per class, or train-* records")
    train, val = images_by_class(path / "train"), images_by_class(path / "val")
    unknown = sorted(set(val) - set(train))
    if unknown:
        raise DataError(f"{path / 'val'} has a class that is missing from {path / 'train'}: {unknown[0]}")
    classes = tuple(train)
    files, y_train = listed(train, classes)
    held_out, y_test = listed(val, classes)
    return ImageFolder(
        source=f"{len(files):,} + {len(held_out):,} images of the folder {path.name}, {len(classes):,} classes",
        classes=classes,
        train=files,
        y_train=y_train,
        held_out=held_out,
        y_test=y_test,
    )


def _default_folder() -> Path | None:
    try:
        return cache_directory() / "imagenet"
    except DataError:
        return None


def listed(by_class: dict[str, list[Path]], classes: tuple[str, ...]) -> tuple[tuple[Path, ...], NDArray[np.int64]]:
    """Return all files, and the index of each file's class in `classes`."""
    labels = np.repeat([classes.index(name) for name in by_class], [len(files) for files in by_class.values()])
    return tuple(file for files in by_class.values() for file in files), labels.astype(np.int64)


def images_by_class(folder: Path) -> dict[str, list[Path]]:
    """Return each class's images in alphabetical order; `DataError` for fewer than two classes with images.

    Other file types, hidden files, and files and folders added by operating systems are ignored.
    """
    try:
        classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and is_data(entry.name))
        found = {name: _images(folder / name) for name in classes}
        stray = _images(folder)
    except OSError as error:
        raise _unreadable(error, folder) from error
    for name, files in found.items():
        if not files:
            raise DataError(f"{folder / name} holds no images (supported: {' '.join(sorted(SUFFIXES))})")
    if not found:
        where = "images, but no folder per class" if stray else "no images"
        raise DataError(f"{folder} holds {where}: copy the images to {folder / 'CLASS' / 'IMAGE'}")
    if len(found) == 1:
        raise DataError(f"{folder} holds a single class, {classes[0]}: classification needs at least two")
    return found


def _images(folder: Path) -> list[Path]:
    return sorted(
        Path(entry.path)
        for entry in os.scandir(folder)
        if is_data(entry.name) and os.path.splitext(entry.name)[1].lower() in SUFFIXES and entry.is_file()
    )


def _unreadable(error: OSError, path: Path) -> DataError:
    return DataError(f"cannot read {error.filename or path}: {error.strerror or error}")
