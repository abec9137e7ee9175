"""The sizes of the language model by name, and what follows from them: parameters, operations, memory."""

from __future__ import annotations

from dataclasses import dataclass

VOCABULARY = 256
"""The tokens: bytes."""


@dataclass(frozen=True)
class Size:
    """The shape of a decoder: its blocks are alike."""

    width: int
    """The numbers that stand for a token between blocks."""
    blocks: int
    heads: int
    """The heads that ask; each has `width / heads` numbers."""
    shared_heads: int
    """The heads of keys and values, each of which serves as many asking heads as any other."""
    hidden: int
    """The width of the gated network."""
    rate: float
    """The highest learning rate."""

    def __post_init__(self) -> None:
        if self.width % self.heads or self.heads % self.shared_heads or self.width // self.heads % 2:
            raise ValueError(
                f"{self.heads} heads do not divide a width of {self.width} evenly into pairs, or {self.shared_heads} "
                "shared heads do not divide them"
            )

    @property
    def head(self) -> int:
        """Return the numbers of a head."""
        return self.width // self.heads

    @property
    def matrices(self) -> int:
        """Return the weights of a block's matrices: those that a token is multiplied with."""
        attention = 2 * self.width * self.width + 2 * self.width * self.shared_heads * self.head
        return attention + 3 * self.width * self.hidden

    @property
    def parameters(self) -> int:
        """Return the parameters; the embedding is the output's matrix, too, and each norm has a scale per number."""
        return self.blocks * (self.matrices + 2 * self.width) + self.width + VOCABULARY * self.width

    def products(self, sequence: int) -> int:
        """Return the multiply-adds of a block's forward pass for a sequence.

        Every token is held against all of the sequence, also those behind it, as in the convention of PaLM (Chowdhery
        et al., 2022, appendix B) and in what frameworks count; a kernel that leaves those out is faster for it.
        """
        return sequence * (self.matrices + 2 * sequence * self.width)

    def flops_per_token(self, sequence: int) -> int:
        """Return the operations of training on a token: 6 for each weight of a matrix, and those of attention."""
        weights = self.blocks * self.matrices + VOCABULARY * self.width
        return 6 * weights + 12 * self.blocks * sequence * self.width

    def bytes(self, batch: int, sequence: int, half: bool, recomputed: bool) -> int:
        """Return the bytes that training takes at least: of each weight four copies, and what backpropagation needs.

        A weight has its gradient and Adam's two means, all in float32, and a half-precision copy where that is used.
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
"""0.8, 126, 13, 348, 993 and 437 million parameters. A slice has two blocks of its model, for devices to which all of
it is too much; the last is of a model of seven billion with 32 blocks (Jiang et al., "Mistral 7B", 2023). Tokens are
bytes, so blocks have the parameters that others have in vocabularies."""
