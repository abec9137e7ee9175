"""Sizes of matrix products, and published shapes of deep learning."""

from __future__ import annotations

import re
from dataclasses import dataclass

from accelbench.profiling.records.point import Point

DEEPBENCH = "Baidu Research, DeepBench, code/kernels/gemm_problems.h"
BERT = "Devlin et al., BERT, 2019, section 3 and appendix A: hidden sizes 768 and 1024, 12 and 16 heads of 64"

SHAPES = {
    "5124x700x2048": f"{DEEPBENCH}, inference_server_set: the output layer of a speech recogniser; tall",
    "35x700x2048": f"{DEEPBENCH}, inference_server_set: few rows",
    "7680x1x2560": f"{DEEPBENCH}, inference_server_set: a recurrent layer for one listener, matrix times vector",
    "7680x64x2560": f"{DEEPBENCH}, training_set: a recurrent layer on a batch of 64; skinny",
    "512x8x500000": f"{DEEPBENCH}, training_set: a deep inner dimension and a small result",
    "1760x7133x1760": f"{DEEPBENCH}, training_set: a recurrent layer's gradient; wide, an odd number of columns",
    "4096x1024x1024": f"{BERT}; the large model's projections, 32 sequences of 128 tokens",
    "4096x4096x1024": f"{BERT}; the large model's feed-forward layer, 32 sequences of 128 tokens",
    "192x512x512x64": f"{BERT}; the base model's attention scores, 16 sequences of 512 tokens by 12 heads",
    "192x512x64x512": f"{BERT}; the base model's attention times values, 16 sequences of 512 tokens by 12 heads",
}
"""Source and meaning of each shape, by its text as parsed by `Product.parse`."""
CPU_SHAPES = ("35x700x2048", "7680x1x2560", "7680x64x2560", "4096x1024x1024", "192x512x512x64")
"""Default shapes on CPUs: one of each kind, below 10 GFLOP."""


@dataclass(frozen=True)
class Product:
    """Sizes of C = A·B with A m×k, B k×n, C m×n; `batch` products of consecutive matrices."""

    m: int
    n: int
    k: int
    batch: int = 1

    @classmethod
    def parse(cls, shape: str) -> Product:
        """Return the product of a shape "MxNxK" or "BATCHxMxNxK"; raise ValueError for any other text."""
        if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*){2,3}", shape):
            raise ValueError(f"{shape!r} is not a shape: expected MxNxK or BATCHxMxNxK, such as 5124x700x2048")
        *batch, m, n, k = (int(size) for size in shape.split("x"))
        return cls(m, n, k, *batch)

    @classmethod
    def of(cls, point: Point) -> Product:
        """Return the product of a point of `matmul` (axis n) or `gemm` (axis shape)."""
        if "shape" in point.params:
            return cls.parse(str(point["shape"]))
        n = int(point["n"])
        return cls(n, n, n)

    @property
    def flops(self) -> int:
        """FLOP: a multiplication and an addition for each of the k terms of every element of C."""
        return 2 * self.batch * self.m * self.n * self.k

    def bytes(self, item: int, result: int | None = None) -> int:
        """Return the bytes of A and B read once and C written once.

        `item` is the element size of A and B in bytes, `result` the element size of C (default: `item`).
        """
        read = self.m * self.k + self.k * self.n
        return self.batch * (read * item + self.m * self.n * (item if result is None else result))
