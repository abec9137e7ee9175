"""A folder in the layout of the Oxford-IIIT Pets is read, and errors name the affected file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from accelbench.workloads.data import DataError
from accelbench.workloads.vision.load import load_scenes

NAMES = ("Abyssinian_1", "Abyssinian_2", "Bengal_1", "beagle_1", "beagle_2", "pug_1", "pug_2")
XML = """<annotation>
\t<folder>OXIIIT</folder>
\t<filename>{name}.jpg</filename>
\t<source><database>OXFORD-IIIT Pet Dataset</database><annotation>OXIIIT</annotation><image>flickr</image></source>
\t<size><width>60</width><height>40</height><depth>3</depth></size>
\t<segmented>0</segmented>
\t<object>
\t\t<name>cat</name>
\t\t<pose>Frontal</pose>
\t\t<truncated>0</truncated>
\t\t<occluded>0</occluded>
\t\t<bndbox><xmin>16</xmin><ymin>11</ymin><xmax>30</xmax><ymax>20</ymax></bndbox>
\t\t<difficult>0</difficult>
\t</object>
</annotation>
"""


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Seven images of 60×40; the animal is a block of 30×20 with a border of two pixels; `pug_2` has no head box."""
    folder = tmp_path / "pets"
    for part in ("images", "annotations/trimaps", "annotations/xmls"):
        (folder / part).mkdir(parents=True)
    lines = [f"{name} {number} {1 + name[0].islower()} 1" for number, name in enumerate(NAMES, start=1)]
    header = "#Image CLASS-ID SPECIES BREED ID\n#ID: 1:37 Class ids\n#SPECIES: 1:Cat 2:Dog\n"
    (folder / "annotations" / "list.txt").write_text(header + "\n".join(lines) + "\n", encoding="utf-8")
    trimap = np.full((40, 60), 2, np.uint8)
    trimap[8:32, 13:47] = 3
    trimap[10:30, 15:45] = 1
    for name in NAMES:
        Image.new("RGB", (60, 40), (10, 200, 30)).save(folder / "images" / f"{name}.jpg")
        Image.fromarray(trimap).save(folder / "annotations" / "trimaps" / f"{name}.png")
        (folder / "annotations" / "trimaps" / f"._{name}.png").write_bytes(b"\0\5\26\7")  # as in the real archive
        if name != "pug_2":
            (folder / "annotations" / "xmls" / f"{name}.xml").write_text(XML.format(name=name), encoding="utf-8")
    return folder


def test_head_boxes_are_scaled_with_the_image(pets: Path) -> None:
    data = load_scenes(120, 0, masks=False, folder=pets)
    assert (len(data.train), len(data.held_out)) == (4, 2), "six of seven have a box; every fifth is held out"
    assert (data.synthetic, data.classes, data.most) == (False, ("cat", "dog"), 1)
    assert data.source == "6 images of the Oxford-IIIT Pets, heads"
    scene = data.train[0]
    assert scene.image.shape == (120, 120, 3)
    # Pixels 16 to 30 of 60, and 11 to 20 of 40, counted from 1.
    assert scene.boxes.tolist() == [[30, 30, 60, 60]]
    assert [int(data.train[i].classes[0]) for i in range(4)] == [0, 0, 1, 1]


def test_masks_include_the_border(pets: Path) -> None:
    data = load_scenes(120, 0, masks=True, folder=pets)
    assert (len(data.train), len(data.held_out)) == (5, 2)
    scene = data.held_out[1]
    assert scene.boxes.tolist() == [[26, 24, 94, 96]]
    assert scene.masks[0].sum() == 68 * 72
    assert scene.classes.tolist() == [1]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("images/Abyssinian_2.jpg", None),
        ("images/Abyssinian_2.jpg", b"not an image"),
        ("annotations/trimaps/Abyssinian_2.png", None),
        ("annotations/trimaps/Abyssinian_2.png", b"\x89PNG\r\n\x1a\n broken"),
    ],
)
def test_a_missing_or_broken_file_is_named(pets: Path, file: str, content: bytes | None) -> None:
    (pets / file).unlink()
    if content is not None:
        (pets / file).write_bytes(content)
    with pytest.raises(DataError, match=re.escape(Path(file).name)):
        load_scenes(64, 0, masks=True, folder=pets).train[0]


@pytest.mark.parametrize("content", ["<annotation", "<annotation></annotation>", XML.replace("16", "sixteen")])
def test_a_broken_box_is_named(pets: Path, content: str) -> None:
    (pets / "annotations" / "xmls" / "Abyssinian_2.xml").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=r"Abyssinian_2\.xml"):
        load_scenes(64, 0, masks=False, folder=pets).train[0]


def test_a_box_outside_of_its_image_is_reported(pets: Path) -> None:
    file = pets / "annotations" / "xmls" / "Abyssinian_2.xml"
    file.write_text(XML.replace("<xmax>30", "<xmax>10"), encoding="utf-8")
    with pytest.raises(DataError, match=r"Abyssinian_2\.xml: .*\b16 11 10 20\b.*60×40"):
        load_scenes(64, 0, masks=False, folder=pets).train[0]


def test_an_invalid_trimap_is_reported(pets: Path) -> None:
    file = pets / "annotations" / "trimaps" / "Abyssinian_2.png"
    Image.fromarray(np.full((40, 60), 255, np.uint8)).save(file)
    with pytest.raises(DataError, match=r"Abyssinian_2\.png .*\b1, 2 and 3$"):
        load_scenes(64, 0, masks=True, folder=pets).train[0]
    Image.fromarray(np.full((40, 60), 2, np.uint8)).save(file)
    with pytest.raises(DataError, match=r"Abyssinian_2\.png .*\banimal$"):
        load_scenes(64, 0, masks=True, folder=pets).train[0]


def test_a_missing_or_broken_list_is_named(pets: Path) -> None:
    file = pets / "annotations" / "list.txt"
    file.write_text("#comment\nAbyssinian_1 1 3 1\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"list\.txt, line 2: "):
        load_scenes(64, 0, masks=True, folder=pets)
    file.write_text("Abyssinian_1 1 1 1\n", encoding="utf-8")
    with pytest.raises(DataError, match="1 pets"):
        load_scenes(64, 0, masks=True, folder=pets)
    file.unlink()
    with pytest.raises(DataError, match=r"list\.txt"):
        load_scenes(64, 0, masks=True, folder=pets)


def test_without_the_folder_scenes_are_synthetic(tmp_path: Path) -> None:
    assert load_scenes(64, 0, masks=False, folder=tmp_path / "nothing").synthetic
