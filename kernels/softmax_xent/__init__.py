"""Softmax cross-entropy over a vocabulary, and its gradient: the loss of a language model."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark


@benchmark(
    "softmax-xent",
    devices=("cpu", "gpu", "tpu"),
    module="accelbench.kernels.softmax_xent.{device}_{impl}",
    axes={"vocabulary": (32_000, 50_257)},
    limits={"vocabulary": (1, 1 << 20)},
    metric="bytes",
    bound="memory",
    dtype="float32",
    small={"vocabulary": (50_257,)},
)
def softmax_xent() -> None:
    """Softmax cross-entropy of rows of scores, and its gradient: scores read once, gradient written once.

    The default widths are the vocabulary sizes of Llama 2 and of GPT-2; the latter is odd.
    """
