"""Synthetic film reviews whose sentiment hangs on the order of the words.

A review is a sequence of pairs of words. Most pairs are two neutral words. Some end in a word of praise or of blame,
which may follow a negation, and then means its opposite; negations stand before neutral words, too, where they mean
nothing. Counting words therefore tells something of a review's sentiment, and reading them in order nearly all of it.

Measured on 6,000 reviews to learn from and 1,000 held out, seeds 1 to 3: a logistic regression of the counted words
tells 0.80 to 0.83 of the held-out reviews of 100 words; whoever knows the words of praise and blame 0.81 to 0.84, and
the negations, too, 0.99. With 200 words (seeds 1 and 2) these are 0.80, 0.81 to 0.82 and 0.98 to 0.99. A
bidirectional LSTM of 32 units reached 0.72, 0.87 and 0.91 after one, two and three epochs at 100 words, seed 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 3_000
"""The number of different words; with IMDB's 88,584 so few reviews would be learnt by heart, by their rare words."""
NEGATIONS, SENTIMENT_WORDS = 4, 60
"""The number of words that negate, and of words of praise, as many as of blame."""
COMMON = 1_000
"""Negations and sentiment words are among so many of the most frequent words, as in English."""
SENTIMENTS = 15
"""The pairs that end in praise or blame among the last `length` words of a review: a longer one is no easier."""
AGREEING = 0.85
"""The share of these pairs whose meaning is the review's own sentiment; the others concede something."""
NEGATED = 0.3
"""The share of those that say it by negating the opposite, so large that a word alone means little."""
NEGATED_NEUTRAL = 0.05
"""The share of the other pairs that begin with a negation."""


def draw_reviews(count: int, known: int, length: int, seed: int) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Return so many reviews as ranks of words, of different lengths around `length`, and their sentiment, 0 or 1.

    `known` is the number of words that the workload tells apart; ValueError if sentiment words would not be among them.
    """
    if known < COMMON:
        raise ValueError(f"reviews need a vocabulary of at least {COMMON} words, not {known}")
    generator = np.random.default_rng([seed, 1])
    special = generator.choice(np.arange(20, COMMON), NEGATIONS + 2 * SENTIMENT_WORDS, replace=False) + 1
    negations, sentiment_words = special[:NEGATIONS], special[NEGATIONS:].reshape(2, SENTIMENT_WORDS)

    labels = generator.integers(0, 2, count)
    # IMDB's reviews are log-normal in length, with a mean of 235 words and a median of 176; here as many pairs per
    # word kept.
    pairs = np.exp(generator.normal(np.log(length * 0.45), 0.6, count)).astype(np.int64).clip(length // 10, 2 * length)
    ends = np.cumsum(pairs)
    label = np.repeat(labels, pairs)

    words = _neutral_words(generator, special, (ends[-1], 2))
    emotional = generator.random(len(words)) < min(0.5, SENTIMENTS / (length / 2))
    meaning = np.where(generator.random(len(words)) < AGREEING, label, 1 - label)
    negated = generator.random(len(words)) < np.where(emotional, NEGATED, NEGATED_NEUTRAL)
    chosen = generator.integers(0, SENTIMENT_WORDS, len(words))
    spoken = sentiment_words[np.where(negated, 1 - meaning, meaning), chosen]
    words[:, 1] = np.where(emotional, spoken, words[:, 1])
    words[:, 0] = np.where(negated, generator.choice(negations, len(words)), words[:, 0])
    return [review.reshape(-1) for review in np.split(words, ends[:-1])], labels.astype(np.int64)


def _neutral_words(
    generator: np.random.Generator, special: NDArray[np.int64], shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Return ranks drawn by Zipf's law in Mandelbrot's form, 1 / (rank + 2.7), none of them special."""
    weights = 1 / (np.arange(1, VOCABULARY + 1) + 2.7)
    weights[special - 1] = 0
    cumulative = np.cumsum(weights)
    ranks: NDArray[np.int64] = np.searchsorted(cumulative, generator.random(shape) * cumulative[-1], side="right") + 1
    return ranks
