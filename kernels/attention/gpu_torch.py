"""Attention by PyTorch's fused GPU kernels, `scaled_dot_product_attention`, the usual implementation in PyTorch.

PyTorch selects the kernel of cuDNN or of FlashAttention, depending on the device. Bound: tensor-core FLOP. Each call
allocates its result, which is checked there instead of in O. Not measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from accelbench.kernels.attention.gpu_task import AttentionOperands, gpu_task
from accelbench.kernels.attention.shape import Attention
from accelbench.kernels.lib.formats import FORMATS
from accelbench.kernels.lib.pytorch import pytorch
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.machine.nvidia.cuda import require_compute_capability
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

CAPABILITY = (8, 0)
"""Lowest compute capability with fused PyTorch kernels for both types."""


def prepare(point: Point) -> Task:
    """Return the point's task; Skip without PyTorch, a supported device, or enough memory."""
    require_compute_capability(CAPABILITY, "PyTorch's fused attention")
    if not pytorch().cuda.is_available():
        raise Skip("this build of PyTorch finds no GPU (torch.cuda.is_available() is false)")
    storage = FORMATS[str(point["dtype"])].storage
    return gpu_task(point, bind, result_bytes, lambda tensor: tensor.view(pytorch().int16).cpu().numpy().view(storage))


def result_bytes(size: Attention) -> int:
    """Return the bytes of the result, which PyTorch allocates in addition to O."""
    return 2 * size.heads * size.sequence * size.head


def bind(operands: AttentionOperands) -> Callable[[int], Any]:
    """Return `run(stream)`, which enqueues the attention and returns its result, a tensor of `size.shape`."""
    torch, causal = pytorch(), operands.size.causal
    attention = torch.nn.functional.scaled_dot_product_attention
    dtype = getattr(torch, operands.dtype)
    arrays = (operands.q, operands.k, operands.v)
    q, k, v = (torch.from_dlpack(array.view("int16")).view(dtype)[None] for array in arrays)

    def run(stream: int) -> Any:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream)) if stream else nullcontext():
            return attention(q, k, v, is_causal=causal)[0]

    return run
