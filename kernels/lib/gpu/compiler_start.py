"""Numba's compiler for CUDA, started: importing this compiles an empty kernel.

The first kernel of a process takes half a second of CPU time more than the others, for the types and functions that the
compiler then learns and for libNVVM. A process that forks others does that once for all of them: no device is needed.
"""

from __future__ import annotations

from accelbench.kernels.lib.gpu.numba_cuda import cuda

CAPABILITY = (9, 0)
"""Any one will do: every compiler that we use knows it."""


def empty() -> None:
    """Do nothing."""


cuda.compile_ptx(empty, (), cc=CAPABILITY)
