"""C = A·B of bfloat16 and int8 by oneDNN, through PyTorch: the vendor's library for types that NumPy's BLAS lacks.

OpenBLAS in NumPy's wheels (0.3.31) exports no product of bfloat16 or int8. PyTorch's `mm` on bfloat16 rounds to
bfloat16, and `_int_mm` sums int8 into int32, just as our own kernel does.
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
from accelbench.profiling.machine.held_back import ONEDNN
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
    """Prepare random matrices, which oneDNN multiplies; Skip without PyTorch, which brings it."""
    if find_spec("torch") is None:
        raise Skip(f"NumPy's BLAS does not multiply {point['dtype']}, and PyTorch, whose oneDNN does, is not installed")
    return replace(narrow_task(point, onednn), library=ONEDNN)
