"""Attention by PyTorch's fused kernel for CPUs, `scaled_dot_product_attention`: the default of its users.

Bound: the products' operations in the FMA units. Its result is new memory each time, from where it is copied into O: a
pass over O for n passes over Q. How our own compares with it is in docs/measured.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from accelbench.kernels.attention.cpu_task import Attend, cpu_task
from accelbench.kernels.attention.shape import Attention
from accelbench.kernels.lib.pytorch import pytorch
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def attender(size: Attention, dtype: Any) -> Attend:
    """Return the function that computes the attention of all heads as those of one sequence."""
    torch = pytorch()
    functional = torch.nn.functional

    def attend(q: Any, k: Any, v: Any, o: Any) -> None:
        tensors = (torch.from_numpy(array)[None] for array in (q, k, v))
        torch.from_numpy(o).copy_(functional.scaled_dot_product_attention(*tensors, is_causal=size.causal)[0])

    return attend


def prepare(point: Point) -> Task:
    """See `cpu_task`; Skip where PyTorch is not installed."""
    return replace(cpu_task(point, attender, lambda size: size.heads * size.sequence * size.head), library="torch")
