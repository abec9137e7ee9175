"""Attention by PyTorch's fused CPU kernel, `scaled_dot_product_attention`, the usual implementation in PyTorch.

Bound: the FLOP of both products in the FMA units. Each call allocates its result, which is then copied to O; the copy
is negligible (one pass over O, compared with n passes over the keys). docs/measured.md compares it with `cpu_numba`.
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
    """Return the attention function, which passes all heads as those of one sequence."""
    torch = pytorch()
    functional = torch.nn.functional

    def attend(q: Any, k: Any, v: Any, o: Any) -> None:
        tensors = (torch.from_numpy(array)[None] for array in (q, k, v))
        torch.from_numpy(o).copy_(functional.scaled_dot_product_attention(*tensors, is_causal=size.causal)[0])

    return attend


def prepare(point: Point) -> Task:
    """See `cpu_task`; Skip if PyTorch is not installed."""
    return replace(cpu_task(point, attender, lambda size: size.heads * size.sequence * size.head), library="torch")
