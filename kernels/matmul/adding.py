"""Second kernel of split-K for Numba-CUDA: addition of the parts (see `split`).

Bound: device memory, or L2 if the parts fit in it, because they have just been written; every sum is read once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.numba_cuda import cuda
from accelbench.kernels.lib.gpu.wide_access import ACCESS_BYTES, lanes, load_wide, store_wide
from accelbench.kernels.matmul.split import ADDERS, WARP


def define_adding(real: Any) -> Callable[..., None]:
    """Return `add(sums, c, count, parts)`: c[i] = Σ sums[part·count + i]; `count` elements are whole 16 bytes."""
    wide = lanes(real)
    across = WARP * wide
    all_adders = ADDERS * across

    def add(sums: Any, c: Any, count: int, parts: int) -> None:
        subtotals = cuda.shared.array(all_adders, real, alignment=ACCESS_BYTES)
        read = cuda.local.array(wide, real)
        total = cuda.local.array(wide, real)
        adder, lane = cuda.threadIdx.x // WARP, cuda.threadIdx.x % WARP
        at = np.int64(cuda.blockIdx.x) * across + lane * wide
        for i in range(wide):
            total[i] = real(0)
        if at < count:
            for part in range(adder, parts, ADDERS):
                load_wide(read, 0, sums, part * count + at)
                for i in range(wide):
                    total[i] += read[i]
        store_wide(subtotals, cuda.threadIdx.x * wide, total, 0)
        cuda.syncthreads()
        if adder == 0 and at < count:
            for other in range(1, ADDERS):
                load_wide(read, 0, subtotals, other * across + lane * wide)
                for i in range(wide):
                    total[i] += read[i]
            store_wide(c, at, total, 0)

    return add
