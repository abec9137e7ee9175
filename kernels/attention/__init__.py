"""Scaled dot-product attention, softmax(Q·Kᵀ/√d)·V for every head: the O(n²) part of a transformer."""

from __future__ import annotations

from accelbench.kernels.attention.shape import MASKS
from accelbench.profiling.benchmark import axis, benchmark


@benchmark(
    "attention",
    devices=("cpu", "gpu", "tpu"),
    module="accelbench.kernels.attention.{device}_{impl}",
    axes={
        "dtype": {"cpu": ("float32",), "gpu": ("float16", "bfloat16"), "tpu": ("bfloat16",)},
        "head": (64, 128),
        "sequence": {"cpu": (512, 2048), "gpu": (2048, 8192), "tpu": (2048,)},
        "heads": {"cpu": (12,), "gpu": (64,), "tpu": (64,)},
        "mask": ("causal",),
    },
    limits={"head": (1, 512), "sequence": (1, 1 << 17), "heads": (1, 1 << 14)},
    choices={"mask": MASKS},
    only={"impl": {"vendor": {"dtype": ("float32", "float16")}}},
    metric="flops",
    bound="arithmetic",
    dtype=axis("dtype"),
    small={"head": (128,), "sequence": (300,), "heads": (2,)},
)
def attention() -> None:
    """O = softmax(Q·Kᵀ/√d)·V, forward pass: 4·n²·d FLOP per head, half of that with a causal mask.

    `heads` is the total number of heads of all sequences, `sequence` the length n of a sequence, and `head` the
    dimension d of a head.
    """
