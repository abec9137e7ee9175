"""Human activity recognition from smartphone sensors: UCI HAR (D. Anguita et al., ESANN 2013), or a sample.

Both are from the same experiment: 30 volunteers, a phone at the waist, 50 Hz, windows of 128 readings that overlap by
half. Whole subjects are held out, because neighbouring windows share readings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accelbench.workloads.data.cache import DataError
from accelbench.workloads.data.sources import SOURCES
from accelbench.workloads.data.split import Split

ACTIVITIES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying")
WINDOW, STEP = 128, 64
SIGNALS = tuple(f"{signal}_{axis}" for signal in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
"""Published channels: body acceleration (g), angular velocity (rad/s), total acceleration (g)."""
SAMPLE = Path(__file__).with_name("har_sample.npz")
SAMPLE_CHANNELS = ("total_acc_x", "total_acc_y", "total_acc_z", "body_gyro_x", "body_gyro_y", "body_gyro_z")
SAMPLE_HELD_OUT = (12, 13, 18, 20, 24)
"""Held-out subjects; they are also held out in the published split."""
SAMPLE_NOTE = (
    "an easier split than the published one: a model with an accuracy of 0.94 on these five held-out subjects reached "
    "0.87 on the published nine, and 0.68 on the worst of them"
)
"""Measured when the sample was created (`har_sample.md`)."""


@dataclass(frozen=True, kw_only=True)
class Activities(Split):
    """Windows (N, 128, channels) of float32 in g and rad/s; labels (N,) are indices into `ACTIVITIES`."""

    channels: tuple[str, ...]
    subjects_train: NDArray[np.int64]
    """Subject, 1 to 30, of each training window."""
    subjects_test: NDArray[np.int64]


def load_har() -> Activities:
    """Return UCI HAR with nine channels and its published split if fetched, else a sample: six channels, 20 subjects.

    `DataError` if the fetched files are corrupt.
    """
    source = SOURCES["har"]
    if not source.begun:
        return _sample()
    from accelbench.workloads.data.unpack import check_unpacked

    check_unpacked(source)
    root = source.path / "UCI HAR Dataset"
    try:
        x_train, y_train, subjects_train = _published(root / "train")
        x_test, y_test, subjects_test = _published(root / "test")
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {root}: {error}; 'accelbench data fetch har' replaces it") from error
    return Activities(
        source="UCI HAR, nine channels",
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        channels=SIGNALS,
        subjects_train=subjects_train,
        subjects_test=subjects_test,
    )


def _published(folder: Path) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Return windows, labels and subjects of the training or test part of the published split."""
    labels = np.fromfile(folder / f"y_{folder.name}.txt", np.int64, sep=" ") - 1
    subjects = np.fromfile(folder / f"subject_{folder.name}.txt", np.int64, sep=" ")
    windows = np.empty((len(labels), WINDOW, len(SIGNALS)), np.float32)
    for channel, signal in enumerate(SIGNALS):
        path = folder / "Inertial Signals" / f"{signal}_{folder.name}.txt"
        windows[:, :, channel] = np.fromfile(path, np.float32, sep=" ").reshape(len(labels), WINDOW)
    return windows, labels, subjects


def _sample() -> Activities:
    with np.load(SAMPLE, allow_pickle=False) as arrays:
        lengths, activities, subjects = (arrays[name].astype(np.int64) for name in ("length", "activity", "subject"))
        readings = (np.cumsum(arrays["change"], axis=1) * arrays["scale"][:, np.newaxis]).T.astype(np.float32)
    windows, owners = cut(readings, lengths)
    labels, subjects = activities[owners], subjects[owners]
    held_out = np.isin(subjects, SAMPLE_HELD_OUT)
    return Activities(
        source=f"{len(windows):,} windows of 20 subjects, six channels, of UCI's Activities and Postural Transitions",
        note=SAMPLE_NOTE,
        x_train=windows[~held_out],
        y_train=labels[~held_out],
        x_test=windows[held_out],
        y_test=labels[held_out],
        channels=SAMPLE_CHANNELS,
        subjects_train=subjects[~held_out],
        subjects_test=subjects[held_out],
    )


def cut(readings: NDArray[np.float32], lengths: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Cut windows (N, 128, channels) from concatenated recordings; return them with the index of their recordings.

    Windows overlap by half and do not cross recordings; the remainder of a recording is dropped.
    """
    counts = np.maximum(0, (lengths - WINDOW) // STEP + 1)
    owners = np.repeat(np.arange(len(lengths)), counts)
    within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = np.repeat(np.cumsum(lengths) - lengths, counts) + STEP * within
    return readings[starts[:, np.newaxis] + np.arange(WINDOW)], owners
