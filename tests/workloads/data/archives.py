"""Small archives in the layout of the published ones."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from accelbench.workloads.data.har import SIGNALS

HAR_SUBJECTS = {"train": [1, 1, 1, 3, 3], "test": [2, 2, 4]}
HAR_LABELS = {"train": [5, 4, 6, 1, 2], "test": [3, 1, 2]}


def har_signals(side: str) -> NDArray[np.float64]:
    """Return windows (N, 128, 9) of one part; each value encodes its position."""
    count = len(HAR_LABELS[side])
    first = 0 if side == "train" else 100_000
    return (first + np.arange(count * 128 * 9).reshape(count, 128, 9)) * 1e-3


def har_files() -> dict[str, bytes]:
    files = {"activity_labels.txt": b"1 WALKING\n"}
    for side in ("train", "test"):
        files[f"{side}/y_{side}.txt"] = "".join(f"{label}\n" for label in HAR_LABELS[side]).encode()
        files[f"{side}/subject_{side}.txt"] = "".join(f"{subject}\n" for subject in HAR_SUBJECTS[side]).encode()
        for channel, signal in enumerate(SIGNALS):
            rows = har_signals(side)[:, :, channel]
            # The published files write each value in 16 columns with three digits of exponent.
            text = "\n".join("".join(f" {value: .7e}".rjust(16) for value in row) for row in rows)
            files[f"{side}/Inertial Signals/{signal}_{side}.txt"] = f"{text}\n".encode()
    return files


def har_zip(files: Mapping[str, bytes] | None = None) -> tuple[bytes, bytes]:
    """Return the published archive, and the archive inside it."""
    inner = {f"UCI HAR Dataset/{name}": content for name, content in (files or har_files()).items()}
    inner |= {"__MACOSX/UCI HAR Dataset/._train": b"fork", "UCI HAR Dataset/.DS_Store": b"metadata"}
    packed = zipped(inner)
    return zipped({"UCI HAR Dataset.zip": packed, "UCI HAR Dataset.names": b"a description"}), packed


def zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def pets_tars() -> tuple[bytes, bytes]:
    """Return images and annotations, with resource forks as in the published archive."""
    names = ("Abyssinian_1", "pug_2")
    images = {f"images/{name}.jpg": b"jpeg of " + name.encode() for name in names}
    annotations = {"annotations/list.txt": b"Abyssinian_1 1 1 1\npug_2 26 2 19\n"}
    for name in names:
        annotations[f"annotations/xmls/{name}.xml"] = b"<annotation/>"
        annotations[f"annotations/trimaps/{name}.png"] = b"png"
        annotations[f"annotations/trimaps/._{name}.png"] = b"fork"
    return tar(images), tar(annotations)


def tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o600
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()
