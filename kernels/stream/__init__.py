"""Memory bandwidth by BabelStream's five operations on arrays far larger than the caches."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark


@benchmark(
    "stream",
    devices=("cpu", "gpu", "tpu"),
    module="accelbench.kernels.stream.{device}_{impl}",
    axes={
        "op": ("copy", "mul", "add", "triad", "dot"),
        "dtype": {"cpu": ("float64", "float32"), "gpu": ("float64", "float32"), "tpu": ("float32",)},
    },
    only={"impl": {"vendor": {"op": ("copy",)}}, "dtype": {"float64": {"device": ("cpu", "gpu")}}},
    metric="bytes",
    bound="memory",
    ceiling=True,
    small={"op": ("dot",)},
)
def stream() -> None:
    """Memory bandwidth by BabelStream's operations: copy c=a, mul b=s·c, add c=a+b, triad a=b+s·c, dot Σa·b."""
