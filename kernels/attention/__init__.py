"""Scaled dot-product attention: softmax(Q·Kᵀ/√d)·V for every head, the part of a transformer that grows with n²."""

from __future__ import annotations

from accelbench.kernels.attention.shape import MASKS
from accelbench.profiling.benchmark import axis, benchmark


@benchmark(
    "attention",
    devices=("cpu", "gpu"),
    module="accelbench.kernels.attention.{device}_{impl}",
    axes={
        "dtype": {"cpu": ("float32",), "gpu": ("float16", "bfloat16")},
        "head": (64, 128),
        "sequence": {"cpu": (512, 2048), "gpu": (2048, 8192)},
        "heads": {"cpu": (12,), "gpu": (64,)},
        "mask": ("causal",),
    },
    limits={"head": (1, 512), "sequence": (1, 1 << 17), "heads": (1, 1 << 14)},
    choices={"mask": MASKS},
    only={"impl": {"vendor": {"dtype": ("float32", "float16")}}},
    figure="flops",
    bound="arithmetic",
    dtype=axis("dtype"),
    small={"head": (128,), "sequence": (300,), "heads": (2,)},
)
def attention() -> None:
    """O = softmax(Q·Kᵀ/√d)·V, forward: 4·n²·d operations a head, of which a causal mask leaves half.

    `heads` is the heads of all sequences together, `sequence` their length n, `head` the dimension d of a head.
    """
