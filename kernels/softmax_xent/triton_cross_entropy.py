"""Cross-entropy and its gradient in Triton: a program per row (see `gpu_triton`)."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def cross_entropy_triton(
    scores: tl.tensor,
    labels: tl.tensor,
    losses: tl.tensor,
    gradient: tl.tensor,
    share: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Write the loss and the gradient of the program's row by online softmax; `share` is 1 / number of rows."""
    row = tl.program_id(0).to(tl.int64)
    scores += row * WIDTH
    gradient += row * WIDTH
    columns = tl.arange(0, BLOCK)
    label = tl.load(labels + row)
    top = -float("inf")
    total = 0.0
    for first in range(0, WIDTH, BLOCK):
        part = tl.load(scores + first + columns, mask=first + columns < WIDTH, other=-float("inf"))
        higher = tl.maximum(top, tl.max(part, axis=0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(part - higher), axis=0)
        top = higher
    tl.store(losses + row, tl.log(total) - (tl.load(scores + label) - top))
    factor = share / total
    for first in range(0, WIDTH, BLOCK):
        inside = first + columns < WIDTH
        part = tl.load(scores + first + columns, mask=inside, other=0.0)
        softmax = tl.exp(part - top) * factor
        tl.store(gradient + first + columns, tl.where(first + columns == label, softmax - share, softmax), mask=inside)
