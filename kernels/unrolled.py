"""Loops written out for Numba-CUDA kernels: NVVM leaves large ones rolled, and their arrays are then in memory."""

from __future__ import annotations

from typing import Any

from accelbench.kernels.lib.gpu.numba_cuda import cuda


def unrolled(step: Any, times: int) -> Any:
    """Return a device function of (i, where) that calls the device function `step` with i, i + 1, … and that `where`.

    `where` is a tuple of all that the step works on; `times` is a power of two.
    """
    ahead = 1
    while ahead < times:
        step, ahead = _twice(step, ahead), 2 * ahead
    return step


def _twice(step: Any, ahead: int) -> Any:
    @cuda.jit(device=True)
    def both(i: int, where: Any) -> None:
        step(i, where)
        step(i + ahead, where)

    return both
