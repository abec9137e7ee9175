"""Copies between host and device memory, as for every batch of a training run."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark

MEMORY = ("pinned", "pageable")
DIRECTION = ("to-device", "from-device", "both")
KIB = (4, 16, 64, 256, 1024, 16384, 262144, 1048576)
SMALLEST_KIB, LARGEST_KIB = 4, 1 << 20


@benchmark(
    "transfer",
    devices=("cpu", "gpu", "tpu"),
    module="accelbench.kernels.transfer.{device}_{impl}",
    axes={
        "memory": {"cpu": ("pageable",), "gpu": MEMORY, "tpu": MEMORY},
        "direction": DIRECTION,
        "kib": {"cpu": (4, 256, 16384), "gpu": KIB, "tpu": KIB},
    },
    optional={"impl": {"cpu": ("jax",), "gpu": ("cupy",), "tpu": ("jax",)}},
    choices={"impl": {"cpu": ("jax",), "gpu": ("cupy", "jax"), "tpu": ("jax",)}, "memory": MEMORY},
    limits={"kib": (SMALLEST_KIB, LARGEST_KIB)},
    metric="bytes",
    unbounded="a copy between host and device is bounded by the link between them, and its peak is unknown",
    sizes={"kib": 1024},
)
def transfer() -> None:
    """Bandwidth of a copy between host and device memory, by size.

    Timed by the host clock, from the call until the copy is complete. `both` copies the given size in each direction
    concurrently, on two streams, and counts both. `pinned` memory is page-locked, so that the device can access it
    directly. A copy of `pageable` memory passes through a staging buffer of the driver, which the calling thread fills
    or empties, so that the two directions are not concurrent. `impl=jax` copies by JAX, which allocates the destination
    of every copy; on a CPU it copies within the host's memory.
    """


@benchmark(
    "transfer-fit",
    devices=("gpu",),
    module="accelbench.kernels.transfer.{device}_fit",
    axes={"memory": MEMORY, "direction": DIRECTION, "kib": (LARGEST_KIB,)},
    limits={"kib": (1024, LARGEST_KIB)},
    metric="time",
)
def transfer_fit() -> None:
    """Latency and bandwidth of copies between host and device memory, by a fit over sizes from 4 KiB to `kib`.

    The line seconds = latency + bytes / bandwidth is fitted to the median time of each size by least squares of the
    relative errors (`fit_line`). The result is the mean time of a copy over all sizes.
    """
