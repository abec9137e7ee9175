"""One step of an optimizer over the parameters of a model."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark


@benchmark(
    "optimizer-step",
    devices=("cpu", "gpu", "tpu"),
    module="accelbench.kernels.optimizer_step.{device}_{impl}",
    axes={},
    metric="bytes",
    bound="memory",
    dtype="float32",
)
def optimizer_step() -> None:
    """One step of AdamW over float32 parameters: four arrays read and three written, 28 bytes per parameter."""
