"""Sizes of the language model by name, with their parameters, operations and memory."""

from __future__ import annotations

from dataclasses import dataclass

VOCABULARY = 256
"""Number of tokens: one per byte value."""


@dataclass(frozen=True)
class Size:
    """Shape of a decoder with identical blocks."""

    width: int
    """Dimension of the residual stream."""
    blocks: int
    heads: int
    """Query heads, each of `width / heads` numbers."""
    shared_heads: int
    """Key and value heads; each serves the same number of query heads."""
    hidden: int
    """Width of the gated feed-forward network."""
    rate: float
    """Maximum learning rate."""

    def __post_init__(self) -> None:
        if self.width % self.heads or self.heads % self.shared_heads or self.width // self.heads % 2:
            raise ValueError(
                f"width={self.width} must be a multiple of 2 × heads={self.heads}, and heads a multiple of "
                f"shared_heads={self.shared_heads}"
            )

    @property
    def head(self) -> int:
        """Dimension of a head."""
        return self.width // self.heads

    @property
    def matrices(self) -> int:
        """Number of weights in a block's matrices."""
        attention = 2 * self.width * self.width + 2 * self.width * self.shared_heads * self.head
        return attention + 3 * self.width * self.hidden

    @property
    def parameters(self) -> int:
        """Number of parameters; the output matrix is the embedding, and each norm has a scale per channel."""
        return self.blocks * (self.matrices + 2 * self.width) + self.width + VOCABULARY * self.width

    def products(self, sequence: int) -> int:
        """Return the multiply-adds of a block's forward pass for one sequence.

        Attention is counted without the causal mask, as in PaLM's convention (Chowdhery et al., 2022, appendix B) and
        in the frameworks' counts; a kernel that skips masked pairs reports a higher rate.
        """
        return sequence * (self.matrices + 2 * sequence * self.width)

    def flops_per_token(self, sequence: int) -> int:
        """Return the training operations per token: 6 per matrix weight, plus attention."""
        weights = self.blocks * self.matrices + VOCABULARY * self.width
        return 6 * weights + 12 * self.blocks * sequence * self.width

    def bytes(self, batch: int, sequence: int, half: bool, recomputed: bool) -> int:
        """Return the minimum training memory in bytes: four copies of each weight, and the stored activations.

        Each weight has a gradient and Adam's two moments, all in float32, and in mixed precision a half-precision copy.
        """
        number, tokens = (2 if half else 4), batch * sequence
        block = tokens * (8 * self.width + 4 * self.hidden) + 2 * batch * self.heads * sequence * sequence
        kept = self.blocks * tokens * self.width + block if recomputed else self.blocks * block
        return self.parameters * (18 if half else 16) + number * kept + 8 * tokens * VOCABULARY


SIZES = {
    "tiny": Size(width=128, blocks=4, heads=4, shared_heads=2, hidden=384, rate=3e-3),
    "125m": Size(width=768, blocks=20, heads=12, shared_heads=4, hidden=2048, rate=6e-4),
    "125m-slice": Size(width=768, blocks=2, heads=12, shared_heads=4, hidden=2048, rate=6e-4),
    "350m": Size(width=1024, blocks=32, heads=16, shared_heads=4, hidden=2688, rate=4e-4),
    "1b": Size(width=2048, blocks=22, heads=16, shared_heads=4, hidden=5632, rate=3e-4),
    "7b-slice": Size(width=4096, blocks=2, heads=32, shared_heads=8, hidden=14_336, rate=3e-4),
}
"""0.8, 126, 13, 348, 993 and 437 million parameters. A slice has two blocks of its model, for devices on which the full
model does not fit; `7b-slice` is from a model of seven billion parameters with 32 blocks (Jiang et al., "Mistral 7B",
2023). With one token per byte value, parameters that other models spend on their vocabulary are in the blocks here."""
