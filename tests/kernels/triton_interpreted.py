"""Program of `test_triton.py`: the Triton kernels run by Triton's interpreter on tensors in host memory.

The interpreter is selected by TRITON_INTERPRET=1 before a kernel's module is imported. It prints the outcome of each
verification.
"""

from __future__ import annotations

import math
import sys
from importlib import import_module
from typing import Any

import numpy as np
import torch

from accelbench.kernels.attention import gpu_triton as attention
from accelbench.kernels.attention.accuracy import verify_attention
from accelbench.kernels.lib.gpu.device_code import TritonKernel
from accelbench.kernels.matmul import gpu_triton as matmul
from accelbench.kernels.matmul.accuracy import verify_product
from accelbench.kernels.matmul.shapes import Product
from accelbench.kernels.norm import gpu_triton as norm
from accelbench.kernels.norm import reference as norm_reference
from accelbench.kernels.softmax_xent import gpu_triton as softmax_xent
from accelbench.kernels.softmax_xent import reference as softmax_reference
from accelbench.profiling.records.quality import Verification

RNG = np.random.default_rng(5)


def interpret(kernel: TritonKernel, grid: tuple[int, ...], *arguments: Any) -> None:
    """Run the kernel; arrays are changed in place."""
    function = getattr(import_module(kernel.module), kernel.function)
    passed = (torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments)
    function[grid](*passed, **dict(kernel.constants))


def product(dtype: str) -> Verification:
    size, tile = Product(72, 136, 72, batch=2), matmul.TYPES[dtype].tiles[-1]
    a, b = (RNG.standard_normal(shape).astype(dtype) for shape in ((2, size.m, size.k), (2, size.k, size.n)))
    c = np.full((2, size.m, size.n), np.nan, dtype)
    kernel, unit = matmul.kernel_for(dtype, tile, size.k % tile.k == 0), matmul.unit(dtype)
    interpret(kernel, (tile.tiles(size), 2), a, b, c, size.m, size.n // unit, size.k // unit)
    return verify_product(a, b, c, dtype, RNG)


def normed(width: int) -> Verification:
    x, scale = norm_reference.draw_rows(RNG, 0).between(0, 2 * width), norm_reference.draw_scale(RNG, width)
    out = np.full(2 * width, np.nan, np.float32)
    interpret(norm.kernel_for(width), (2,), x, scale, out)
    return norm_reference.verify_norm([([x, scale], [out])])


def cross_entropy(width: int) -> Verification:
    scores = softmax_reference.draw_scores(RNG, 0).between(0, 2 * width)
    labels = softmax_reference.draw_labels(RNG, 2, width)
    losses, gradient = np.full(2, np.nan, np.float32), np.full(2 * width, np.nan, np.float32)
    interpret(softmax_xent.kernel_for(width), (2,), scores, labels, losses, gradient, 1 / 2)
    return softmax_reference.verify_cross_entropy([([scores, labels], [losses, gradient])], 2)


def attended(causal: bool) -> Verification:
    shape = 2, 200, 64
    q, k, v = (RNG.standard_normal(shape).astype(np.float16) for _ in range(3))
    o = np.full(shape, np.nan, np.float16)
    grid, scale = (-(-shape[1] // attention.QUERIES), shape[0]), math.log2(math.e) / math.sqrt(shape[2])
    interpret(attention.kernel_for("float16", shape[2], causal), grid, q, k, v, o, shape[1], scale)
    return verify_attention(q, k, v, o, "float16", causal)


def main() -> int:
    outcomes = {
        **{f"matmul {dtype}": product(dtype) for dtype in ("float16", "float32")},
        **{f"norm {width}": normed(width) for width in (1001, 20001)},
        **{f"softmax-xent {width}": cross_entropy(width) for width in (700, 5001)},
        **{f"attention causal={causal}": attended(causal) for causal in (True, False)},
    }
    for name, outcome in outcomes.items():
        print(name, outcome)
    return int(not all(outcome.passed for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
