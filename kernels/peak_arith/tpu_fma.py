"""Rate of multiply-adds of a TPU, by JAX: see `any_jax`."""

from accelbench.kernels.peak_arith.any_jax import prepare

__all__ = ["prepare"]
