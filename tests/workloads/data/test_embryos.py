"""A user's folder of images is read in any format, and rejected if it is unusable."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from accelbench.workloads.data import DataError, load_embryos
from accelbench.workloads.data.cells import draw_cells
from accelbench.workloads.data.embryos import hold_out


def picture(path: Path, mode: str = "L", size: tuple[int, int] = (20, 30), seed: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    grey = np.random.default_rng(seed).integers(0, 256, (size[1], size[0]), np.uint8)
    if mode in ("I;16", "I", "F"):
        dtype = {"I;16": np.uint16, "I": np.int32, "F": np.float32}[mode]
        Image.fromarray((grey.astype(np.float64) * 200).astype(dtype)).save(path)
    else:
        Image.fromarray(grey).convert(mode).save(path)


@pytest.fixture
def folder(cache: Path) -> Path:
    for count, name in ((10, "one cell"), (5, "two cells")):
        for number in range(count):
            picture(cache / "embryo" / name / f"{number}.png", seed=number)
    return cache / "embryo"


def test_without_a_folder_the_images_are_synthetic() -> None:
    embryos = load_embryos(size=32, train=90, held_out=30)
    assert embryos.source.startswith("synthetic: 120 ")
    assert embryos.synthetic
    assert (embryos.x_train.shape, embryos.x_test.shape) == ((90, 32, 32), (30, 32, 32))
    assert embryos.x_train.dtype == np.uint8
    assert set(embryos.y_train.tolist()) == {0, 1, 2, 3, 4}
    assert embryos.classes == ("1", "2", "3", "4", "5")


def test_synthetic_images_depend_on_the_seed_and_are_all_different() -> None:
    first, again, other = (draw_cells(40, 24, seed) for seed in (1, 1, 2))
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])
    assert len({image.tobytes() for image in first[0]}) == 40


def test_synthetic_images_use_the_brightness_range_and_the_mean_does_not_reveal_the_class() -> None:
    images, cells = draw_cells(1_000, 48, seed=4)
    assert images.std(axis=(1, 2)).min() > 5, "an empty image"
    assert np.mean(images == 255) < 0.02
    assert np.mean(images == 0) < 0.02
    means = images.mean(axis=(1, 2))
    nearest = np.array([means[cells == count].mean() for count in range(1, 6)])
    guessed = 1 + np.abs(means[:, np.newaxis] - nearest).argmin(axis=1)
    assert np.mean(guessed == cells) < 0.35, "the mean brightness reveals the number of cells"


def test_own_images_of_any_kind_become_greyscale_and_equal_in_size(folder: Path) -> None:
    picture(folder / "one cell" / "colour.jpg", "RGB", (33, 20))
    picture(folder / "one cell" / "alpha.png", "RGBA", (100, 100))
    picture(folder / "one cell" / "palette.gif", "P")
    picture(folder / "one cell" / "bits.bmp", "1")
    picture(folder / "two cells" / "Sixteen.TIF", "I;16", (64, 64))
    picture(folder / "two cells" / "floating.tiff", "F", (7, 300))
    picture(folder / "two cells" / "whole.tiff", "I", (1, 1))
    (folder / "two cells" / "notes.txt").write_text("not an image")
    (folder / "two cells" / ".hidden.png").write_bytes(b"not an image")
    (folder / ".hidden").mkdir()
    embryos = load_embryos(size=16)
    assert embryos.source == f"22 images of the folder {folder.name}"
    assert not embryos.synthetic
    assert embryos.classes == ("one cell", "two cells")
    assert len(embryos.x_train) + len(embryos.x_test) == 22
    assert embryos.x_train.shape[1:] == (16, 16)
    assert embryos.x_train.dtype == np.uint8
    assert np.bincount(embryos.y_test).tolist() == [3, 2]


def test_sixteen_bit_images_keep_their_range(folder: Path, cache: Path) -> None:
    ramp = np.tile(np.linspace(0, 65_535, 64).astype(np.uint16), (64, 1))
    for name in ("a", "b"):
        for number in range(2):
            path = cache / "embryo" / name / f"{number}.tif"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(ramp).save(path)
    embryos = load_embryos(size=64)
    image = embryos.x_train[embryos.y_train == embryos.classes.index("a")][0]
    assert (image.min(), image.max()) == (0, 255)
    assert abs(int(image[0, 32]) - 128) < 4


def test_the_held_out_fifth_is_reproducible(folder: Path) -> None:
    first, again = load_embryos(), load_embryos()
    assert np.array_equal(first.x_test, again.x_test)
    assert np.bincount(first.y_test).tolist() == [2, 1]
    assert np.bincount(first.y_train).tolist() == [8, 4]


@given(st.lists(st.text("abcdefgh0123é", min_size=1, max_size=6), min_size=2, max_size=60, unique=True), st.randoms())
def test_each_image_is_in_one_part_regardless_of_order(names: list[str], random: object) -> None:
    files = [Path("folder") / f"{name}.png" for name in names]
    kept, held = hold_out(files)
    assert sorted(kept + held) == sorted(files)
    assert kept
    assert held
    assert len(held) == max(1, round(len(files) / 5))
    assert set(hold_out(files[::-1])[1]) == set(held)
    assert set(hold_out([Path("elsewhere") / file.name for file in files])[1]) == {
        Path("elsewhere") / file.name for file in held
    }


def broken(folder: Path) -> None:
    (folder / "one cell" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnot really")


def cut_short(folder: Path) -> None:
    picture(folder / "one cell" / "short.jpg", size=(200, 200))
    content = (folder / "one cell" / "short.jpg").read_bytes()
    (folder / "one cell" / "short.jpg").write_bytes(content[: len(content) // 2])


def single_image(folder: Path) -> None:
    picture(folder / "three cells" / "0.png")


def empty_class(folder: Path) -> None:
    (folder / "three cells").mkdir()


def single_class(folder: Path) -> None:
    for path in (folder / "two cells").iterdir():
        path.unlink()
    (folder / "two cells").rmdir()


def no_classes(folder: Path) -> None:
    single_class(folder)
    for path in (folder / "one cell").iterdir():
        path.rename(folder / path.name)
    (folder / "one cell").rmdir()


def nothing(folder: Path) -> None:
    no_classes(folder)
    for path in folder.iterdir():
        path.unlink()


def a_file(folder: Path) -> None:
    nothing(folder)
    folder.rmdir()
    folder.write_bytes(b"")


def dangling(folder: Path) -> None:
    nothing(folder)
    folder.rmdir()
    folder.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (broken, r"one cell/broken\.png"),
        (cut_short, r"one cell/short\.jpg"),
        (single_image, r"three cells holds a single"),
        (empty_class, r"three cells holds no images.*\.png"),
        (single_class, r"embryo .*\bone cell\b"),
        (no_classes, r"embryo holds images, .*CLASS/IMAGE"),
        (nothing, r"embryo holds no images"),
        (a_file, rf"embryo: {os.strerror(errno.ENOTDIR)}"),
        (dangling, rf"embryo: {os.strerror(errno.ENOENT)}"),
    ],
)
def test_an_unusable_folder_is_reported_in_one_line(folder: Path, spoil: object, message: str) -> None:
    assert callable(spoil)
    spoil(folder)
    with pytest.raises(DataError, match=message) as raised:
        load_embryos()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("which", [".", "one cell", "one cell/3.png"])
def test_an_unreadable_path_is_named(folder: Path, which: str, request: pytest.FixtureRequest) -> None:
    (folder / which).chmod(0)
    request.getfixturevalue("plain_user")
    with pytest.raises(DataError, match=rf"{(folder / which).name}: .*{os.strerror(errno.EACCES)}"):
        load_embryos()
