"""Root-mean-square norm in Triton: a program per row (see `gpu_triton`)."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def norm_triton(
    x: tl.tensor, scale: tl.tensor, out: tl.tensor, WIDTH: tl.constexpr, BLOCK: tl.constexpr, EPSILON: tl.constexpr
) -> None:
    """Write the norm of the program's row. A row of at most `BLOCK` elements is read once and stays in registers."""
    begin = tl.program_id(0).to(tl.int64) * WIDTH
    columns = tl.arange(0, BLOCK)
    if WIDTH <= BLOCK:
        inside = columns < WIDTH
        row = tl.load(x + begin + columns, mask=inside, other=0.0)
        factor = tl.rsqrt(tl.sum(row * row, axis=0) / WIDTH + EPSILON)
        scales = tl.load(scale + columns, mask=inside, other=0.0)
        tl.store(out + begin + columns, row * factor * scales, mask=inside)
    else:
        squares = tl.zeros((BLOCK,), tl.float32)
        for first in range(0, WIDTH, BLOCK):
            part = tl.load(x + begin + first + columns, mask=first + columns < WIDTH, other=0.0)
            squares += part * part
        factor = tl.rsqrt(tl.sum(squares, axis=0) / WIDTH + EPSILON)
        for first in range(0, WIDTH, BLOCK):
            inside = first + columns < WIDTH
            part = tl.load(x + begin + first + columns, mask=inside, other=0.0)
            scales = tl.load(scale + first + columns, mask=inside, other=0.0)
            tl.store(out + begin + first + columns, part * factor * scales, mask=inside)
