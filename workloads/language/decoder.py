"""A decoder-only transformer in Keras, on any backend, from token numbers to the scores of the next token.

Blocks of causal self-attention and of a gated network, each behind a norm and added to what came in (pre-norm): root
mean square norms (Zhang and Sennrich, 2019), rotary positions (Su et al., 2021), grouped-query attention (Ainslie et
al., 2023), SwiGLU (Shazeer, 2020), and the embedding's matrix as the output's (Press and Wolf, 2017).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import numpy as np
from keras import layers, ops

from accelbench.workloads.distribution.sharding import Sharding
from accelbench.workloads.language.sizes import VOCABULARY, Size
from accelbench.workloads.training.keras_model import embedding

EPSILON = 1e-5
BASE = 10_000.0
"""The longest wave of the rotary positions, in tokens over 2π."""
SPREAD = 0.02
"""The standard deviation of initial weights."""
Pair: TypeAlias = tuple[Any, Any]
"""Keys and values, or cosine and sine."""


def decoder(size: Size, sequence: int, attention: str = "math", recomputed: bool = False) -> Any:
    """Return the model from tokens (batch, sequence) to scores (batch, sequence, vocabulary), in float32.

    `attention` is `math`, of products and a softmax, or `flash`, the framework's fused kernel. Recomputed blocks keep
    only what comes in, and are computed again when gradients are.
    """
    tokens = keras.Input((sequence,), dtype="int32", name="tokens")
    table = embedding(VOCABULARY, size.width, embeddings_initializer=drawn(SPREAD), name="embedding")
    found = table(tokens)
    for number in range(size.blocks):
        found = DecoderBlock(size, sequence, attention, recomputed, name=f"block_{number}")(found)
    found = layers.RMSNormalization(epsilon=EPSILON, name="norm")(found)
    return keras.Model(tokens, Scores(table, sequence, name="scores")(found))


def sharding(size: Size) -> Sharding:
    """Return how the model's parameters may be shared out: by heads, by the network's width, and by tokens."""
    into = "query|key|value|gate|up"
    return Sharding(
        along={f".*/({into})/kernel": 1, ".*/(out|down)/kernel": 0, "embedding/embeddings": 0},
        parts={
            "heads": size.heads,
            "shared heads": size.shared_heads,
            "hidden units": size.hidden,
            "tokens": VOCABULARY,
        },
        block=r"block_\d+",
    )


def drawn(spread: float) -> Any:
    return keras.initializers.RandomNormal(stddev=spread)


class DecoderBlock(layers.Layer):  # type: ignore[misc]
    """Attention and a gated network; (batch, sequence, width) before and after."""

    def __init__(self, size: Size, sequence: int, attention: str, recomputed: bool, **options: Any) -> None:
        super().__init__(**options)
        self.size, self.sequence, self.attention, self.recomputed = size, sequence, attention, recomputed
        # What is added to the stream is the less the more blocks there are (Radford et al., 2019).
        last = SPREAD / (2 * size.blocks) ** 0.5
        self.norm_attention = layers.RMSNormalization(epsilon=EPSILON, name="norm_attention")
        self.query = matrix("query", size.width)
        self.key = matrix("key", size.shared_heads * size.head)
        self.value = matrix("value", size.shared_heads * size.head)
        self.out = matrix("out", size.width, last)
        self.norm_network = layers.RMSNormalization(epsilon=EPSILON, name="norm_network")
        self.gate, self.up = matrix("gate", size.hidden), matrix("up", size.hidden)
        self.down = matrix("down", size.width, last)
        self.turns = turns(sequence, size.head)

    def call(self, x: Any) -> Any:
        # Keras's RematScope, which wraps each inner layer, fails in a graph of TensorFlow's: they take keywords.
        return keras.remat(self.computed)(x) if self.recomputed else self.computed(x)

    # Not `forward`, which on PyTorch would take the place of `call`.
    def computed(self, x: Any) -> Any:
        return self.with_network(x + self.attend(self.norm_attention(x)))

    def with_network(self, x: Any) -> Any:
        y = self.norm_network(x)
        return x + self.down(ops.silu(self.gate(y)) * self.up(y))

    def attend(self, x: Any) -> Any:
        """Return what each token takes from those up to itself."""
        query, key, value = self.heads(x, self.turns)
        if self.attention == "flash":
            found = ops.dot_product_attention(query, key, value, is_causal=True, flash_attention=True)
        else:
            before = np.tril(np.ones((self.sequence, self.sequence), bool))
            found = attended(query, apart(key), apart(value), before)
        return self.joined(found)

    def cached(self, x: Any, by: Pair, seen: Any, keep: Callable[[Any, Any], Pair]) -> Any:
        """Return what `call` makes of tokens that follow on others, (batch, tokens, width).

        `keep` is given their keys and values, each (batch, shared heads, tokens, head), and returns those with the ones
        of the tokens before. `by` are the turns of these tokens, and `seen` (tokens, kept ones) is whom each sees.
        """
        query, key, value = self.heads(self.norm_attention(x), by)
        keys, values = keep(apart(key), apart(value))
        return self.with_network(x + self.joined(attended(query, keys, values, seen)))

    def heads(self, x: Any, by: Pair) -> tuple[Any, Any, Any]:
        """Return what each token asks, its keys and its values, (batch, tokens, heads, head); the first two turned."""
        size = self.size
        query = self.parted(self.query(x), size.heads)
        key, value = (self.parted(into(x), size.shared_heads) for into in (self.key, self.value))
        return rotated(query, by), rotated(key, by), value

    def parted(self, x: Any, heads: int) -> Any:
        return ops.reshape(x, (-1, x.shape[1], heads, self.size.head))

    def joined(self, x: Any) -> Any:
        return self.out(ops.reshape(x, (-1, x.shape[1], self.size.width)))

    def products(self) -> int:
        """Return the multiply-adds of a sequence, for `accelbench.profiling.measure.flop_counts.layers`."""
        return self.size.products(self.sequence)


class Scores(layers.Layer):  # type: ignore[misc]
    """The score of each token to be the next, by the embedding's own matrix."""

    def __init__(self, table: Any, sequence: int, **options: Any) -> None:
        super().__init__(**options)
        self.table, self.sequence = table, sequence

    def call(self, x: Any) -> Any:
        table = ops.cast(self.table.embeddings, self.compute_dtype)
        return ops.cast(ops.matmul(x, ops.transpose(table)), "float32")

    def products(self) -> int:
        """Return the multiply-adds of a sequence, for `accelbench.profiling.measure.flop_counts.layers`."""
        words, width = self.table.embeddings.shape
        return int(self.sequence * words * width)


def matrix(name: str, units: int, spread: float = SPREAD) -> Any:
    return layers.Dense(units, use_bias=False, kernel_initializer=drawn(spread), name=name)


def turns(sequence: int, head: int) -> Pair:
    """Return cosine and sine, each (sequence, 1, head / 2), of the angle by which each pair of numbers is turned."""
    waves = BASE ** (-np.arange(0, head, 2) / head)
    angles = np.arange(sequence)[:, None, None] * waves
    return np.cos(angles).astype("float32"), np.sin(angles).astype("float32")


def rotated(x: Any, by: Pair) -> Any:
    """Return heads (batch, sequence, heads, head) turned by their positions; pairs are of the first and second half."""
    cosine, sine = (ops.cast(one, x.dtype) for one in by)
    first, second = ops.split(x, 2, axis=-1)
    return ops.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def apart(x: Any) -> Any:
    """Return heads (batch, tokens, heads, head) as (batch, heads, tokens, head)."""
    return ops.transpose(x, (0, 2, 1, 3))


def attended(query: Any, keys: Any, values: Any, seen: Any) -> Any:
    """Return softmax(q·k / √head)·v of each head over the tokens that are seen, (batch, tokens, heads, head).

    `query` is as what is returned, keys and values are (batch, shared heads, length, head), `seen` (tokens, length).
    """
    _, tokens, heads, head = query.shape
    shared = keys.shape[1]
    asked = ops.reshape(query, (-1, tokens, shared, heads // shared, head))
    scores = ops.cast(ops.einsum("bqsgd,bskd->bsgqk", asked, keys), "float32") * head**-0.5
    weights = ops.softmax(ops.where(seen, scores, -1e30), axis=-1)
    found = ops.einsum("bsgqk,bskd->bqsgd", ops.cast(weights, values.dtype), values)
    return ops.reshape(found, (-1, tokens, heads, head))
