"""Word IDs agree with Keras's, and synthetic reviews are learnable from word order rather than word counts."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.workloads.data import DataError, load_imdb
from accelbench.workloads.data.imdb import encode
from accelbench.workloads.data.sentiment import AGREEING, COMMON, NEGATED, NEGATIONS, SENTIMENT_WORDS, draw_reviews
from tests.workloads.data.serving import declare

RANKS = st.lists(st.lists(st.integers(1, 30_000), max_size=40), min_size=1, max_size=8)


@given(RANKS, st.integers(10, 25_000), st.integers(1, 50))
def test_rows_agree_with_keras(reviews: list[list[int]], words: int, length: int) -> None:
    rows = encode(reviews, words, length)
    assert rows.shape == (len(reviews), length)
    for row, review in zip(rows.tolist(), reviews, strict=True):
        numbers = [1] + [rank + 3 if rank + 3 < words else 2 for rank in review]
        padded = [0] * (length - len(numbers)) + numbers
        assert row == padded[-length:]


@pytest.fixture
def small_imdb(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Path:
    """Return a file in IMDB's format in the data folder: lists of different lengths, as objects."""
    generator = np.random.default_rng(1)

    def reviews(count: int) -> Any:
        rows = np.empty(count, object)
        rows[:] = [generator.integers(1, 100, size).tolist() for size in generator.integers(1, 30, count)]
        return rows

    buffer = io.BytesIO()
    np.savez(buffer, x_train=reviews(6), y_train=np.arange(6) % 2, x_test=reviews(4), y_test=np.arange(4) % 2)
    declare(monkeypatch, "imdb", buffer.getvalue())
    cache.mkdir()
    (cache / "imdb.npz").write_bytes(buffer.getvalue())
    return cache / "imdb.npz"


def test_fetched_reviews_are_used(small_imdb: Path) -> None:
    reviews = load_imdb(words=50, length=20)
    assert (reviews.source, reviews.synthetic, reviews.words) == ("IMDB", False, 50)
    assert reviews.x_train.shape == (6, 20)
    assert reviews.x_test.shape == (4, 20)
    assert reviews.x_train.max() < 50
    assert reviews.y_test.tolist() == [0, 1, 0, 1]


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> Any:
        return Path.touch, (self.sprung,)


def test_a_file_with_a_wrong_checksum_is_never_unpickled(small_imdb: Path, tmp_path: Path) -> None:
    rows = np.array([Trap(tmp_path / "sprung")], object)
    np.savez(small_imdb, x_train=rows, y_train=rows, x_test=rows, y_test=rows)
    with pytest.raises(DataError, match=r"[0-9a-f]{64}.*'accelbench data fetch imdb'"):
        load_imdb()
    assert not (tmp_path / "sprung").exists()
    pickle.loads(pickle.dumps(Trap(tmp_path / "sprung")))
    assert (tmp_path / "sprung").exists(), "the trap does not work"


def test_synthetic_reviews_have_the_requested_shape() -> None:
    reviews = load_imdb(words=5_000, length=80, train=300, held_out=100)
    assert reviews.source.startswith("synthetic: 400 ")
    assert reviews.synthetic
    assert (reviews.x_train.shape, reviews.x_test.shape) == ((300, 80), (100, 80))
    assert (reviews.x_train.dtype, reviews.y_train.dtype) == (np.int32, np.int64)
    assert reviews.x_train.min() >= 0
    assert reviews.x_train.max() < 5_000
    assert set(reviews.y_train.tolist()) == {0, 1}
    used = (reviews.x_train > 0).sum(axis=1)
    assert used.min() < 40 < used.max() == 80, "reviews are of different lengths"
    assert 0.4 < reviews.y_train.mean() < 0.6


def test_synthetic_reviews_depend_on_the_seed() -> None:
    first, again, other = (load_imdb(length=50, train=40, held_out=10, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.x_train, again.x_train)
    assert not np.array_equal(first.x_train, other.x_train)


def naive_bayes_accuracy(with_negation: bool) -> float:
    """Return the held-out accuracy of word frequencies; `with_negation` counts words after a negation separately."""
    reviews = load_imdb(words=COMMON + 4, length=50)
    negations = special_words(seed=1)[:NEGATIONS] + 3

    def frequencies(x: Any) -> Any:
        negated = with_negation & np.isin(x[:, :-1], negations)
        seen = np.zeros((len(x), 2, COMMON + 4), np.float32)
        np.add.at(seen, (np.arange(len(x))[:, np.newaxis], negated.astype(int), x[:, 1:]), 1)
        return seen.reshape(len(x), -1)

    train, test = frequencies(reviews.x_train), frequencies(reviews.x_test)
    one, other = (train[reviews.y_train == label].sum(axis=0) + 1 for label in (1, 0))
    weights = np.log(one / one.sum()) - np.log(other / other.sum())
    return float(np.mean((test @ weights > 0) == reviews.y_test))


def special_words(seed: int) -> Any:
    """Return the ranks of negations, then of negative and positive words, as generated."""
    count = NEGATIONS + 2 * SENTIMENT_WORDS
    return np.random.default_rng([seed, 1]).choice(np.arange(20, COMMON), count, replace=False) + 1


def test_word_order_predicts_the_sentiment_much_better_than_counts() -> None:
    words, ordered = naive_bayes_accuracy(with_negation=False), naive_bayes_accuracy(with_negation=True)
    assert 0.6 < words < 0.8
    assert ordered > 0.85


def test_sentiment_words_agree_with_the_label_as_often_as_declared() -> None:
    ranks, labels = draw_reviews(3_000, 20_000, 200, seed=3)
    special = special_words(seed=3)
    pairs = np.concatenate([review.reshape(-1, 2) for review in ranks])
    label = np.repeat(labels, [len(review) // 2 for review in ranks])
    spoken = np.isin(pairs[:, 1], special[NEGATIONS:])
    negated = np.isin(pairs[:, 0], special[:NEGATIONS])
    praise = np.isin(pairs[:, 1], special[NEGATIONS + SENTIMENT_WORDS :])
    assert np.mean((praise ^ negated)[spoken] == label[spoken]) == pytest.approx(AGREEING, abs=0.01)
    assert np.mean(negated[spoken]) == pytest.approx(NEGATED, abs=0.01)


def test_a_vocabulary_without_sentiment_words_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"\b1000\b.*\b496$"):
        load_imdb(words=500)
