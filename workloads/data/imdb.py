"""Film reviews with their sentiment, as word IDs: the IMDB set of A. Maas et al. (ACL 2011) in Keras's format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.workloads.data.cache import read_checked
from accelbench.workloads.data.sources import SOURCES
from accelbench.workloads.data.split import Split

PAD, START, UNKNOWN, INDEX_FROM = 0, 1, 2, 3
"""Keras's word IDs: the word of frequency rank r (1-based) has the ID r + INDEX_FROM."""


@dataclass(frozen=True, kw_only=True)
class Reviews(Split):
    """Word IDs (N, length) below `words`, shorter reviews padded with 0 in front; labels (N,) are 0 or 1."""

    words: int


def load_imdb(
    words: int = 20_000, length: int = 200, *, train: int = 6_000, held_out: int = 1_000, seed: int = 1
) -> Reviews:
    """Return the 25,000 + 25,000 reviews of IMDB if fetched, else `train` + `held_out` synthetic ones.

    The vocabulary is limited to the `words` most frequent words, and reviews to their last `length` words, as by
    Keras's `load_data(num_words=words)` and `pad_sequences(maxlen=length)`. `DataError` if the fetched file is corrupt.
    """
    source = SOURCES["imdb"]
    if not source.present:
        return _synthetic(words, length, train, held_out, seed)
    (file,) = source.files
    # Reviews of different lengths are stored as pickled objects; the checksum is verified before unpickling.
    with np.load(read_checked(file.path, file.sha256, source.name), allow_pickle=True) as arrays:
        return Reviews(
            source="IMDB",
            x_train=encode(arrays["x_train"], words, length),
            y_train=arrays["y_train"].astype(np.int64),
            x_test=encode(arrays["x_test"], words, length),
            y_test=arrays["y_test"].astype(np.int64),
            words=words,
        )


def encode(reviews: Sequence[Any] | NDArray[Any], words: int, length: int) -> NDArray[np.int32]:
    """Convert reviews, given as frequency ranks of words, to rows of equal length of Keras's word IDs."""
    rows = np.full((len(reviews), length), PAD, np.int32)
    for row, ranks in zip(rows, reviews, strict=True):
        numbers = np.asarray([START - INDEX_FROM, *ranks], np.int64)[-length:] + INDEX_FROM
        row[length - len(numbers) :] = np.where(numbers < words, numbers, UNKNOWN)
    return rows


def _synthetic(words: int, length: int, train: int, held_out: int, seed: int) -> Reviews:
    from accelbench.workloads.data.sentiment import draw_reviews

    ranks, labels = draw_reviews(train + held_out, words - 1 - INDEX_FROM, length, seed)
    rows = encode(ranks, words, length)
    return Reviews(
        source=f"synthetic: {train + held_out:,} reviews drawn from a vocabulary with negations, seed {seed}",
        synthetic=True,
        x_train=rows[:train],
        y_train=labels[:train],
        x_test=rows[train:],
        y_test=labels[train:],
        words=words,
    )
