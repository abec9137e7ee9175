"""A folder of one's own images is read whatever they are, and told apart from what cannot be trained on."""

from __future__ import annotations

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


def test_without_a_folder_the_images_are_synthetic_and_say_so() -> None:
    embryos = load_embryos(size=32, train=90, held_out=30)
    assert embryos.source == "synthetic: 120 drawn embryos of 1 to 5 cells, seed 1"
    assert embryos.synthetic
    assert (embryos.x_train.shape, embryos.x_test.shape) == ((90, 32, 32), (30, 32, 32))
    assert embryos.x_train.dtype == np.uint8
    assert set(embryos.y_train.tolist()) == {0, 1, 2, 3, 4}
    assert embryos.classes == ("1", "2", "3", "4", "5")


def test_synthetic_images_are_the_same_for_a_seed_and_no_two_are_alike() -> None:
    first, again, other = (draw_cells(40, 24, seed) for seed in (1, 1, 2))
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])
    assert len({image.tobytes() for image in first[0]}) == 40


def test_synthetic_images_use_the_range_of_brightness_and_hide_no_class_in_their_mean() -> None:
    images, cells = draw_cells(1_000, 48, seed=4)
    assert images.std(axis=(1, 2)).min() > 5, "an empty image"
    assert np.mean(images == 255) < 0.02
    assert np.mean(images == 0) < 0.02
    means = images.mean(axis=(1, 2))
    nearest = np.array([means[cells == count].mean() for count in range(1, 6)])
    guessed = 1 + np.abs(means[:, np.newaxis] - nearest).argmin(axis=1)
    assert np.mean(guessed == cells) < 0.35, "counting is no more than measuring brightness"


def test_own_images_of_every_kind_become_grey_and_of_one_size(folder: Path) -> None:
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


def test_sixteen_bits_are_not_cut_off(folder: Path, cache: Path) -> None:
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


def test_the_held_out_fifth_is_the_same_every_time(folder: Path) -> None:
    first, again = load_embryos(), load_embryos()
    assert np.array_equal(first.x_test, again.x_test)
    assert np.bincount(first.y_test).tolist() == [2, 1]
    assert np.bincount(first.y_train).tolist() == [8, 4]


@given(st.lists(st.text("abcdefgh0123é", min_size=1, max_size=6), min_size=2, max_size=60, unique=True), st.randoms())
def test_every_image_is_on_one_side_whatever_the_order(names: list[str], random: object) -> None:
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
        (broken, r"cannot read the image .*one cell/broken\.png: .*remove or replace it"),
        (cut_short, r"cannot read the image .*one cell/short\.jpg: .*truncated"),
        (single_image, r"three cells holds a single image"),
        (empty_class, r"three cells holds no images: known kinds are .*\.png"),
        (single_class, r"embryo holds a single class, one cell"),
        (no_classes, r"embryo holds images, but no folder per class: put them into .*CLASS/IMAGE"),
        (nothing, r"embryo holds no images"),
        (a_file, r"cannot read .*embryo: Not a directory"),
        (dangling, r"cannot read .*embryo: No such file"),
    ],
)
def test_a_folder_that_cannot_be_trained_on_is_one_line(folder: Path, spoil: object, message: str) -> None:
    assert callable(spoil)
    spoil(folder)
    with pytest.raises(DataError, match=message) as raised:
        load_embryos()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("which", [".", "one cell", "one cell/3.png"])
def test_what_may_not_be_read_is_named(folder: Path, which: str, request: pytest.FixtureRequest) -> None:
    (folder / which).chmod(0)
    request.getfixturevalue("plain_user")
    with pytest.raises(DataError, match=rf"cannot read .*{(folder / which).name}: .*Permission denied"):
        load_embryos()
