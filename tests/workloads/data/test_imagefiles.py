"""ImageNet-like folders of images or records are listed, and errors name the affected path."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from accelbench.workloads.data import DataError, ImageFolder, RecordFiles, image_folder


@pytest.fixture
def folder(cache: Path) -> Path:
    for side, count in (("train", 3), ("val", 2)):
        for name in ("n02", "n01"):
            (cache / "imagenet" / side / name).mkdir(parents=True)
            for number in range(count):
                (cache / "imagenet" / side / name / f"{name}_{number}.JPEG").write_bytes(b"listed, not read")
    return cache / "imagenet"


def test_without_a_folder_the_result_is_none(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert image_folder() is None
    assert image_folder(cache / "elsewhere") is None


def test_images_are_listed_with_sorted_classes(folder: Path) -> None:
    found = image_folder()
    assert isinstance(found, ImageFolder)
    assert found.source == f"6 + 4 images of the folder {folder.name}, 2 classes"
    assert found.classes == ("n01", "n02")
    assert [path.parent.name for path in found.train] == ["n01"] * 3 + ["n02"] * 3
    assert found.y_train.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.y_test.tolist() == [0, 0, 1, 1]
    assert all(path.is_file() for path in found.held_out)
    assert image_folder(folder).source == found.source  # type: ignore[union-attr]


def test_a_class_without_held_out_images_keeps_its_number(folder: Path) -> None:
    (folder / "val" / "n00").mkdir()
    (folder / "val" / "n00" / "a.png").touch()
    with pytest.raises(DataError, match=r"\bval .*\btrain: n00"):
        image_folder()
    (folder / "train" / "n00").mkdir()
    (folder / "train" / "n00" / "a.png").touch()
    (folder / "val" / "n00" / "a.png").unlink()
    (folder / "val" / "n00").rmdir()
    found = image_folder()
    assert isinstance(found, ImageFolder)
    assert found.classes == ("n00", "n01", "n02")
    assert found.y_test.tolist() == [1, 1, 2, 2]


def test_records_are_listed(cache: Path) -> None:
    (cache / "imagenet").mkdir(parents=True)
    for name in ("train-00001-of-00002", "train-00000-of-00002", "validation-00000-of-00001", "labels.txt"):
        (cache / "imagenet" / name).touch()
    found = image_folder()
    assert isinstance(found, RecordFiles)
    assert [path.name for path in found.train] == ["train-00000-of-00002", "train-00001-of-00002"]
    assert [path.name for path in found.held_out] == ["validation-00000-of-00001"]
    assert not found.synthetic


def test_records_without_held_out_records_are_refused(cache: Path) -> None:
    (cache / "imagenet").mkdir(parents=True)
    (cache / "imagenet" / "train-00000-of-00001").touch()
    with pytest.raises(DataError, match=r"no validation-\*"):
        image_folder()


def test_folders_and_files_of_operating_systems_are_no_classes_and_no_images(folder: Path) -> None:
    for name in ("__MACOSX", "@eaDir", "lost+found", "System Volume Information", ".cache"):
        for side in ("train", "val"):
            (folder / side / name).mkdir()
    (folder / "train" / "n01" / "._n01_0.JPEG").touch()
    found = image_folder()
    assert isinstance(found, ImageFolder)
    assert found.classes == ("n01", "n02")
    assert len(found.train) == 6


@pytest.mark.parametrize(
    ("remove", "message"),
    [
        ("val/n01", r"\bval .*\bn02\b"),
        ("train/n01/*", r"train/n01 holds no images"),
        ("val", r"\bval\b.* train-\*"),
        ("train", r"\btrain\b.* train-\*"),
    ],
)
def test_a_missing_part_is_named(folder: Path, remove: str, message: str) -> None:
    for path in sorted([*folder.glob(remove), *folder.glob(f"{remove}/**/*")], reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    with pytest.raises(DataError, match=message):
        image_folder()


def test_validation_images_outside_of_class_folders_are_reported(folder: Path) -> None:
    for path in sorted((folder / "val").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (folder / "val" / "ILSVRC2012_val_00000001.JPEG").touch()
    with pytest.raises(DataError, match=r"val holds images, .*CLASS/IMAGE"):
        image_folder()


def test_a_folder_without_permission_is_named(folder: Path, request: pytest.FixtureRequest) -> None:
    folder.chmod(0)
    request.getfixturevalue("plain_user")
    with pytest.raises(DataError, match=rf"imagenet: {os.strerror(errno.EACCES)}"):
        image_folder()
