"""Empirical arithmetic peak: the maximum rate of multiply-adds of a device."""

from __future__ import annotations

from accelbench.profiling.benchmark import axis, benchmark


@benchmark(
    "peak-arith",
    devices=("cpu", "gpu", "tpu"),
    module="accelbench.kernels.peak_arith.{device}_{impl}",
    axes={
        "dtype": {
            "cpu": ("float32", "float64"),
            "gpu": ("float32", "float64", "float16", "bfloat16"),
            "tpu": ("float32", "bfloat16"),
        },
        "cores": {"cpu": ("one", "all"), "gpu": ("all",), "tpu": ("all",)},
    },
    optional={"impl": ("fma",)},
    choices={"impl": ("fma", "jax"), "dtype": ("float32", "float64", "float16", "bfloat16", "int8")},
    only={"dtype": {"int8": {"device": ("cpu",)}, "float64": {"device": ("cpu", "gpu")}}},
    metric="flops",
    bound="arithmetic",
    dtype=axis("dtype"),
    cores=axis("cores"),
    ceiling=True,
)
def peak_arith() -> None:
    """Rate of independent fused multiply-adds in registers: the empirical peak without matrix instructions.

    On CPUs int8, bfloat16 and float16 use dot-product instructions; they are not measured by default. `impl=jax` is the
    rate that JAX's array operations reach.
    """
