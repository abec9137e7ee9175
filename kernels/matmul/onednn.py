"""C = A·B of bfloat16 and int8 by oneDNN, through PyTorch, for types that NumPy's BLAS lacks.

OpenBLAS in NumPy's wheels (0.3.31) exports no product of bfloat16 or int8. Like `cpu_dots`, PyTorch's `mm` rounds the
result of bfloat16 to bfloat16, and `_int_mm` sums int8 into int32.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.matmul.cpu_task import Multiply
from accelbench.kernels.matmul.narrow_task import narrow_task
from accelbench.kernels.matmul.shapes import Product
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.machine.limiting_settings import ONEDNN
from accelbench.profiling.machine.packages import install_extra
from accelbench.profiling.records.point import Point


def onednn(_product: Product, dtype: str) -> Multiply:
    """Return the multiplication by oneDNN on all threads."""
    import torch

    torch.set_num_threads(thread_count())

    def tensor(array: Any) -> Any:
        return (
            torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
            if dtype == "bfloat16"
            else torch.from_numpy(array)
        )

    def multiply(a: Any, b: Any, c: Any) -> None:
        product = torch.mm if dtype == "bfloat16" else torch._int_mm
        for one in zip(tensor(a), tensor(b), tensor(c), strict=True):
            product(one[0], one[1], out=one[2])

    return multiply


def prepare(point: Point) -> Task:
    """Return the task of multiplying random matrices by oneDNN; Skip without PyTorch, which contains it."""
    if find_spec("torch") is None:
        raise Skip(f"NumPy's BLAS has no {point['dtype']}, and oneDNN needs PyTorch: {install_extra('torch')}")
    return replace(narrow_task(point, onednn), library=ONEDNN)
