"""Images from folders and TFRecord files: decoding, crops, and errors for corrupt files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from accelbench.workloads.data import DataError
from accelbench.workloads.data.imagenet import load_imagenet, parse_example


def jpeg(colour: tuple[int, int, int], width: int = 60, height: int = 40) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(stream, "JPEG", quality=95)
    return stream.getvalue()


COLOURS = {"blue": (20, 30, 220), "red": (220, 30, 20)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for side, count in (("train", 5), ("val", 2)):
        for name, colour in COLOURS.items():
            place = tmp_path / side / name
            place.mkdir(parents=True)
            for number in range(count):
                (place / f"{number}.jpg").write_bytes(jpeg(colour, width=60 + number))
    return tmp_path


@pytest.fixture
def records(tmp_path: Path) -> Path:
    import tensorflow as tf

    def feature(value: bytes | int | float) -> tf.train.Feature:
        if isinstance(value, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        if isinstance(value, float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=[value, value]))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    for name, labels in (("train-00000-of-00001", (7, 1000, 300)), ("validation-00000-of-00001", (3, 9))):
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            for label in labels:
                values = {
                    "image/encoded": jpeg((label % 256, 100, 50)),
                    "image/class/label": label,
                    "image/class/text": b"goldfish, Carassius",
                    "image/object/bbox/xmin": 0.25,
                }
                features = tf.train.Features(feature={key: feature(value) for key, value in values.items()})
                writer.write(tf.train.Example(features=features).SerializeToString())
    return tmp_path


def test_images_are_cropped_to_size_and_labelled_by_folder(folder: Path) -> None:
    images = load_imagenet(32, seed=1, path=folder)
    assert images is not None
    assert (images.classes, len(images.train), len(images.held_out)) == (2, 10, 4)
    assert images.held_out.known_labels.tolist() == [0, 0, 1, 1]
    for index in range(10):
        pixels, label = images.train[index]
        assert pixels.shape == (32, 32, 3)
        assert pixels.dtype == np.uint8
        colour = list(COLOURS.values())[int(label.argmax())]
        assert np.abs(pixels.mean(axis=(0, 1)) - colour).max() < 8
        assert label.sum() == 1


def test_crops_differ_between_epochs_and_depend_on_the_seed(folder: Path) -> None:
    rng = np.random.default_rng(5)
    noise = Image.fromarray(rng.integers(0, 256, (50, 70, 3), np.uint8))
    noise.save(folder / "train" / "red" / "0.png")
    (folder / "train" / "red" / "0.jpg").unlink()

    def epochs(seed: int) -> list[bytes]:
        images = load_imagenet(32, seed, folder)
        assert images is not None
        return [images.train[5][0].tobytes() for _ in range(3)]

    assert len(set(epochs(1))) == 3
    assert epochs(1) == epochs(1)
    assert epochs(1) != epochs(2)


def test_held_out_images_are_cropped_centrally(folder: Path) -> None:
    images = load_imagenet(32, 1, folder)
    assert images is not None
    assert (images.held_out[0][0] == images.held_out[0][0]).all()


def test_the_sample_of_the_training_images_is_evenly_spaced_and_cropped_centrally(folder: Path) -> None:
    images = load_imagenet(32, 1, folder)
    assert images is not None
    sample = images.train_sample
    assert sample.encoded == [images.train.encoded[index] for index in (0, 2, 5, 7)]
    assert sample.known_labels.tolist() == [0, 0, 1, 1]
    assert (sample[0][0] == sample[0][0]).all()
    assert not images.train.asked.any()


@pytest.mark.needs("tensorflow")
def test_record_files_written_by_tensorflow_are_read(records: Path) -> None:
    images = load_imagenet(16, 1, records)
    assert images is not None
    assert (images.classes, len(images.train), len(images.held_out)) == (1000, 3, 2)
    assert [int(images.train[index][1].argmax()) for index in range(3)] == [6, 999, 299]
    assert images.held_out.known_labels.tolist() == [2, 8]
    assert np.abs(images.train[0][0].mean(axis=(0, 1)) - (7, 100, 50)).max() < 8


@pytest.mark.needs("tensorflow")
@given(label=st.integers(0, 2**63 - 1), name=st.text(max_size=300))
def test_integers_and_text_are_parsed_as_written(label: int, name: str) -> None:
    import tensorflow as tf

    features = {
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[name.encode()])),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    assert parse_example(example.SerializeToString()) == {"label": label, "name": name.encode()}


@pytest.mark.needs("tensorflow")
def test_a_truncated_record_file_is_named(records: Path) -> None:
    file = records / "train-00000-of-00001"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(DataError, match="train-00000-of-00001"):
        load_imagenet(16, 1, records)


@pytest.mark.needs("tensorflow")
def test_a_record_file_without_examples_is_named(records: Path) -> None:
    (records / "validation-00000-of-00001").write_bytes(b"")
    with pytest.raises(DataError, match=r"validation-\*"):
        load_imagenet(32, seed=1, path=records)


@pytest.mark.needs("tensorflow")
def test_a_record_without_an_image_is_named(records: Path) -> None:
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(records / "train-00000-of-00001")) as writer:
        label = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
        features = tf.train.Features(feature={"image/class/label": label})
        writer.write(tf.train.Example(features=features).SerializeToString())
    images = load_imagenet(32, seed=1, path=records)
    assert images is not None
    with pytest.raises(DataError, match=rf"byte 12 of {records}/train-00000-of-00001: .*'image/encoded'"):
        images.train[0]


def test_an_unreadable_image_is_named(folder: Path) -> None:
    file = folder / "train" / "blue" / "3.jpg"
    file.write_bytes(file.read_bytes()[:200])
    images = load_imagenet(32, 1, folder)
    assert images is not None
    with pytest.raises(DataError, match=r"\b3\.jpg"):
        images.train[3]


def test_a_missing_folder_returns_none(tmp_path: Path) -> None:
    assert load_imagenet(32, 1, tmp_path / "nothing") is None
