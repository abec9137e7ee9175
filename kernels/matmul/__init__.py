"""Matrix products, by the vendor's library and by our own kernels."""

from __future__ import annotations

from accelbench.kernels.matmul.shapes import CPU_SHAPES, SHAPES
from accelbench.profiling.benchmark import Only, axis, benchmark

DTYPES = {
    "cpu": ("float32", "float64"),
    "gpu": ("float64", "float32", "tf32", "float16", "bfloat16", "int8", "fp8"),
    "tpu": ("bfloat16", "float32", "int8"),
}
BLOCK_SCALED = ("mxfp8", "nvfp4")
"""Types of NVIDIA's Blackwell, measured on request: other GPUs lack them."""
HALF = ("float16", "bfloat16")
ONLY: Only = {
    "impl": {
        "numba": {"dtype": ("float64", "float32")},
        "mma": {"dtype": HALF},
        "wgmma": {"dtype": HALF},
        "triton": {"dtype": ("float32", "tf32", *HALF)},
        "dots": {"dtype": ("bfloat16", "int8")},
    }
}
"""Types of our own kernels; the vendor's library and JAX have all types of the device."""


BY_DEVICE: Only = {
    "dtype": {
        "tf32": {"device": ("gpu",)},
        "float64": {"device": ("cpu", "gpu")},
        **{dtype: {"device": ("gpu",), "impl": ("vendor",)} for dtype in BLOCK_SCALED},
    }
}
"""Types that not every kind of device or implementation has. Narrow types are not measured on CPUs by default."""


@benchmark(
    "matmul",
    devices=("cpu", "gpu", "tpu"),
    module="accelbench.kernels.matmul.{device}_{impl}",
    axes={"dtype": DTYPES, "n": {"cpu": (1024, 2048), "gpu": (4096, 8192), "tpu": (4096, 8192)}},
    choices={"dtype": (*DTYPES["gpu"], *BLOCK_SCALED)},
    only={**ONLY, **BY_DEVICE},
    metric="flops",
    bound="arithmetic",
    dtype=axis("dtype"),
    ceiling=True,
    small={"n": (150,)},
)
def matmul() -> None:
    """C = A·B for square n×n matrices: 2n³ FLOP."""


@benchmark(
    "gemm",
    devices=("cpu", "gpu", "tpu"),
    module="accelbench.kernels.matmul.{device}_{impl}",
    axes={
        "dtype": {"cpu": ("float32",), "gpu": ("float32", "bfloat16"), "tpu": ("bfloat16",)},
        "shape": {"cpu": CPU_SHAPES, "gpu": tuple(SHAPES), "tpu": tuple(SHAPES)},
    },
    choices={"shape": tuple(SHAPES)},
    only=ONLY,
    metric="flops",
    bound="arithmetic",
    dtype=axis("dtype"),
    small={"shape": ("2x150x90x600", "70x150x90x70")},
)
def gemm() -> None:
    """C = A·B for tall, skinny, deep and batched shapes of deep learning, m×n×k: 2·m·n·k FLOP per product."""
