"""Start-up of Numba's CUDA compiler: importing this module compiles an empty kernel.

The first kernel of a process takes half a second of CPU time more than later ones, to register types and functions and
to load libNVVM. A process that forks workers imports this module once for all of them. No device is needed.
"""

from __future__ import annotations

from accelbench.kernels.lib.gpu.numba_cuda import cuda

CAPABILITY = (9, 0)
"""Compute capability of the empty kernel; every supported compiler has it."""


def empty() -> None:
    """Do nothing."""


cuda.compile_ptx(empty, (), cc=CAPABILITY)
