"""Key-value cache shape, and operations, bytes and memory of text generation, by formula."""

from __future__ import annotations

from dataclasses import dataclass

from accelbench.profiling.records.work import Work
from accelbench.workloads.language.sizes import VOCABULARY, Size

SHARPNESS = 2.0
"""Standard deviation of the attention scores. Heads then attend to few tokens, so that a wrong token changes the result
measurably."""


@dataclass(frozen=True)
class Generation:
    """Shape of a generation: a batch of prompts of `context` tokens, each continued by `new` tokens."""

    size: Size
    batch: int
    context: int
    new: int
    itemsize: int
    """Bytes per weight, key or value element."""

    @property
    def length(self) -> int:
        """Number of tokens per sequence in the cache."""
        return self.context + self.new

    @property
    def cache_shape(self) -> tuple[int, int, int, int]:
        """Shape of the keys, and of the values, of one block."""
        return self.batch, self.size.shared_heads, self.length, self.size.head

    @property
    def cache_bytes(self) -> int:
        """Bytes of all keys and values; each token of a sequence takes the same share."""
        return self.batch * self.length * self._kept_bytes

    @property
    def weight_bytes(self) -> int:
        return self.size.parameters * self.itemsize

    @property
    def prefill(self) -> Work:
        """Work of reading the prompts: all blocks for each token, and the output scores of the last token.

        Attention is counted as in training (`Size.products`); each weight is read once, each key and value written.
        """
        products = self.size.blocks * self.size.products(self.context) + VOCABULARY * self.size.width
        return Work(
            flops=2 * self.batch * products,
            bytes=self.weight_bytes + self.batch * self.context * self._kept_bytes,
            items=self.batch * self.context,
            item="tokens",
        )

    @property
    def decode(self) -> Work:
        """Work of generating the new tokens, one per sequence and step.

        Each token is multiplied with all weight matrices, and attends to itself and all preceding tokens (`context` + 1
        at first). Each step reads all weights and the cached keys and values, and writes one token's keys and values.
        """
        held = sum(range(self.context + 1, self.length + 1))
        weights = self.size.blocks * self.size.matrices + VOCABULARY * self.size.width
        products = self.new * weights + 2 * self.size.blocks * held * self.size.width
        return Work(
            flops=2 * self.batch * products,
            bytes=self.new * self.weight_bytes + self.batch * held * self._kept_bytes,
            items=self.batch * self.new,
            item="tokens",
        )

    @property
    def bytes(self) -> int:
        """Minimum memory in bytes: weights, cache, and the largest intermediate results of a block.

        The largest results occur for the prompts, or for one full sequence in the verification without a cache.
        """
        size = self.size

        def block(batch: int, tokens: int) -> int:
            numbers = batch * tokens * (4 * size.width + 3 * size.hidden)
            # The attention scores exist in float32 before and after the softmax, then in the compute precision.
            return numbers * self.itemsize + batch * size.heads * tokens * tokens * (8 + self.itemsize)

        widest = max(block(self.batch, self.context), block(1, self.length))
        return self.weight_bytes + self.cache_bytes + widest

    @property
    def _kept_bytes(self) -> int:
        """Bytes of one token's keys and values in all blocks."""
        return 2 * self.size.blocks * self.size.shared_heads * self.size.head * self.itemsize
