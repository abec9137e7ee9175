"""What generating text takes: the shape of a key-value cache, and operations, bytes and memory by formula."""

from __future__ import annotations

from dataclasses import dataclass

from accelbench.profiling.records.work import Work
from accelbench.workloads.language.sizes import VOCABULARY, Size

SHARPNESS = 2.0
"""The deviation of attention's scores. Heads then attend to few tokens: among many alike a wrong one is not seen."""


@dataclass(frozen=True)
class Generation:
    """A prompt of `context` tokens for each of a batch of sequences, and the tokens that are decoded after it."""

    size: Size
    batch: int
    context: int
    new: int
    itemsize: int
    """The bytes of a number: of a weight, and of a key."""

    @property
    def length(self) -> int:
        """Return the tokens that the cache holds of each sequence."""
        return self.context + self.new

    @property
    def cache_shape(self) -> tuple[int, int, int, int]:
        """Return the shape of a block's keys, and of its values."""
        return self.batch, self.size.shared_heads, self.length, self.size.head

    @property
    def cache_bytes(self) -> int:
        """Return the bytes of all keys and values, by which a sequence grows with each token alike."""
        return self.batch * self.length * self._kept_bytes

    @property
    def weight_bytes(self) -> int:
        return self.size.parameters * self.itemsize

    @property
    def prefill(self) -> Work:
        """Return the work of reading the prompts: all blocks for each token, the scores of the last one's next.

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
        """Return the work of decoding the new tokens, one of each sequence at a time.

        A token is multiplied with every weight of a matrix, and held against the tokens up to itself, `context` + 1 at
        first. Each step reads all weights, and keys and values of the tokens before, and writes those of its own.
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
        """Return the bytes that are needed at least: weights, cache, and the widest of what a block computes.

        That is either of the prompts, or of one whole sequence without a cache, by which the answer is checked.
        """
        size = self.size

        def block(batch: int, tokens: int) -> int:
            numbers = batch * tokens * (4 * size.width + 3 * size.hidden)
            # The scores are in float32, before and after the softmax, and then numbers of the precision.
            return numbers * self.itemsize + batch * size.heads * tokens * tokens * (8 + self.itemsize)

        widest = max(block(self.batch, self.context), block(1, self.length))
        return self.weight_bytes + self.cache_bytes + widest

    @property
    def _kept_bytes(self) -> int:
        """Return the bytes of a token's keys and values in all blocks."""
        return 2 * self.size.blocks * self.size.shared_heads * self.size.head * self.itemsize
