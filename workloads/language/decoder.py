"""Decoder-only transformer in Keras, on any backend: from token IDs to the scores of the next token.

Pre-norm blocks of causal self-attention and a gated feed-forward network, with root mean square normalisation (Zhang
and Sennrich, 2019), rotary position embeddings (Su et al., 2021), grouped-query attention (Ainslie et al., 2023),
SwiGLU (Shazeer, 2020), and tied input and output embeddings (Press and Wolf, 2017).
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
"""Base of the rotary position frequencies: the longest wavelength in tokens, over 2π."""
SPREAD = 0.02
"""Standard deviation of initial weights."""
Pair: TypeAlias = tuple[Any, Any]
"""Keys and values, or cosine and sine."""


def decoder(size: Size, sequence: int, attention: str = "math", recomputed: bool = False) -> Any:
    """Return the model from tokens (batch, sequence) to scores (batch, sequence, vocabulary), in float32.

    `attention` is `math` (matrix products and a softmax) or `flash` (the framework's fused kernel). With `recomputed`,
    blocks store only their input and are recomputed in the backward pass.
    """
    tokens = keras.Input((sequence,), dtype="int32", name="tokens")
    table = embedding(VOCABULARY, size.width, embeddings_initializer=normal_initializer(SPREAD), name="embedding")
    found = table(tokens)
    for number in range(size.blocks):
        found = DecoderBlock(size, sequence, attention, recomputed, name=f"block_{number}")(found)
    found = layers.RMSNormalization(epsilon=EPSILON, name="norm")(found)
    return keras.Model(tokens, Scores(table, sequence, name="scores")(found))


def sharding(size: Size) -> Sharding:
    """Return how the parameters may be sharded: by heads, by hidden units, and by tokens."""
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


def normal_initializer(spread: float) -> Any:
    return keras.initializers.RandomNormal(stddev=spread)


class DecoderBlock(layers.Layer):  # type: ignore[misc]
    """Attention and a gated feed-forward network; input and output are (batch, sequence, width)."""

    def __init__(self, size: Size, sequence: int, attention: str, recomputed: bool, **options: Any) -> None:
        super().__init__(**options)
        self.size, self.sequence, self.attention, self.recomputed = size, sequence, attention, recomputed
        # Contributions to the residual stream are scaled down with the number of blocks (Radford et al., 2019).
        last = SPREAD / (2 * size.blocks) ** 0.5
        self.norm_attention = layers.RMSNormalization(epsilon=EPSILON, name="norm_attention")
        self.query = matrix("query", size.width)
        self.key = matrix("key", size.shared_heads * size.head)
        self.value = matrix("value", size.shared_heads * size.head)
        self.out = matrix("out", size.width, last)
        self.norm_network = layers.RMSNormalization(epsilon=EPSILON, name="norm_network")
        self.gate, self.up = matrix("gate", size.hidden), matrix("up", size.hidden)
        self.down = matrix("down", size.width, last)
        self.rotations = rotations(sequence, size.head)

    def call(self, x: Any) -> Any:
        # Keras's RematScope, which wraps each inner layer, fails in TensorFlow graphs: those layers take keywords.
        return keras.remat(self.computed)(x) if self.recomputed else self.computed(x)

    # Not named `forward`, which would replace `call` on PyTorch.
    def computed(self, x: Any) -> Any:
        return self.with_network(x + self.attend(self.norm_attention(x)))

    def with_network(self, x: Any) -> Any:
        y = self.norm_network(x)
        return x + self.down(ops.silu(self.gate(y)) * self.up(y))

    def attend(self, x: Any) -> Any:
        """Causal self-attention."""
        query, key, value = self.heads(x, self.rotations)
        if self.attention == "flash":
            found = ops.dot_product_attention(query, key, value, is_causal=True, flash_attention=True)
        else:
            before = np.tril(np.ones((self.sequence, self.sequence), bool))
            found = masked_attention(query, heads_first(key), heads_first(value), before)
        return self.merge_heads(found)

    def cached(self, x: Any, rotation: Pair, mask: Any, keep: Callable[[Any, Any], Pair]) -> Any:
        """Apply the block to tokens (batch, tokens, width) that continue a cached sequence.

        `keep` stores the new keys and values, each (batch, shared heads, tokens, head), and returns all keys and
        values so far. `rotation` is for the new tokens; `mask` (tokens, length) is the attention mask.
        """
        query, key, value = self.heads(self.norm_attention(x), rotation)
        keys, values = keep(heads_first(key), heads_first(value))
        return self.with_network(x + self.merge_heads(masked_attention(query, keys, values, mask)))

    def heads(self, x: Any, rotation: Pair) -> tuple[Any, Any, Any]:
        """Return queries, keys and values, each (batch, tokens, heads, head); rotary positions are applied."""
        size = self.size
        query = self.split_heads(self.query(x), size.heads)
        key, value = (self.split_heads(into(x), size.shared_heads) for into in (self.key, self.value))
        return rotated(query, rotation), rotated(key, rotation), value

    def split_heads(self, x: Any, heads: int) -> Any:
        return ops.reshape(x, (-1, x.shape[1], heads, self.size.head))

    def merge_heads(self, x: Any) -> Any:
        return self.out(ops.reshape(x, (-1, x.shape[1], self.size.width)))

    def products(self) -> int:
        """Return the multiply-adds per sequence, for `accelbench.profiling.measure.flop_counts.layers`."""
        return self.size.products(self.sequence)


class Scores(layers.Layer):  # type: ignore[misc]
    """Scores of all tokens, computed with the transposed embedding matrix."""

    def __init__(self, table: Any, sequence: int, **options: Any) -> None:
        super().__init__(**options)
        self.table, self.sequence = table, sequence

    def call(self, x: Any) -> Any:
        table = ops.cast(self.table.embeddings, self.compute_dtype)
        return ops.cast(ops.matmul(x, ops.transpose(table)), "float32")

    def products(self) -> int:
        """Return the multiply-adds per sequence, for `accelbench.profiling.measure.flop_counts.layers`."""
        words, width = self.table.embeddings.shape
        return int(self.sequence * words * width)


def matrix(name: str, units: int, spread: float = SPREAD) -> Any:
    return layers.Dense(units, use_bias=False, kernel_initializer=normal_initializer(spread), name=name)


def rotations(sequence: int, head: int) -> Pair:
    """Return cosine and sine, each (sequence, 1, head / 2), of the rotary position angles."""
    waves = BASE ** (-np.arange(0, head, 2) / head)
    angles = np.arange(sequence)[:, None, None] * waves
    return np.cos(angles).astype("float32"), np.sin(angles).astype("float32")


def rotated(x: Any, rotation: Pair) -> Any:
    """Rotate heads (batch, sequence, heads, head) by position; each pair is number i of the first and second half."""
    cosine, sine = (ops.cast(one, x.dtype) for one in rotation)
    first, second = ops.split(x, 2, axis=-1)
    return ops.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def heads_first(x: Any) -> Any:
    """Transpose heads (batch, tokens, heads, head) to (batch, heads, tokens, head)."""
    return ops.transpose(x, (0, 2, 1, 3))


def masked_attention(query: Any, keys: Any, values: Any, mask: Any) -> Any:
    """Return softmax(q·k / √head)·v of each head under the mask (tokens, length).

    `query` and the result are (batch, tokens, heads, head); keys and values are (batch, shared heads, length, head).
    """
    _, tokens, heads, head = query.shape
    shared = keys.shape[1]
    queries = ops.reshape(query, (-1, tokens, shared, heads // shared, head))
    scores = ops.cast(ops.einsum("bqsgd,bskd->bsgqk", queries, keys), "float32") * head**-0.5
    weights = ops.softmax(ops.where(mask, scores, -1e30), axis=-1)
    found = ops.einsum("bsgqk,bskd->bqsgd", ops.cast(weights, values.dtype), values)
    return ops.reshape(found, (-1, tokens, heads, head))
