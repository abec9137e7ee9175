"""Copies between host and device memory, as for every batch of a training."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark

MEMORY = ("pinned", "pageable")
DIRECTION = ("to-device", "from-device", "both")
KIB = (4, 16, 64, 256, 1024, 16384, 262144, 1048576)
SMALLEST_KIB, LARGEST_KIB = 4, 1 << 20


@benchmark(
    "transfer",
    devices=("gpu",),
    module="accelbench.kernels.transfer.{device}_size",
    axes={"memory": MEMORY, "direction": DIRECTION, "kib": KIB},
    limits={"kib": (SMALLEST_KIB, LARGEST_KIB)},
    figure="bytes",
    unbounded="a copy between host and device is bounded by what joins them, whose peak is not known",
    sizes={"kib": 1024},
)
def transfer() -> None:
    """The rate of a copy between host and device memory, against its size.

    Timed by the host clock, from the call to the end of the wait, as a program pays for it. `both` copies that many
    bytes each way at once, on two streams, and counts them both. Memory is `pinned` if the system may not move it, so
    that the device can read it by itself; a copy of `pageable` memory passes through a staging buffer of the driver,
    filled or emptied by the calling thread, and so both directions follow one another.
    """


@benchmark(
    "transfer-fit",
    devices=("gpu",),
    module="accelbench.kernels.transfer.{device}_fit",
    axes={"memory": MEMORY, "direction": DIRECTION, "kib": (LARGEST_KIB,)},
    limits={"kib": (1024, LARGEST_KIB)},
    figure="time",
)
def transfer_fit() -> None:
    """Latency and bandwidth of copies between host and device memory, by a fit over sizes from 4 KiB to the given.

    The line seconds = latency + bytes / bandwidth through the median times of each size, weighted so that the relative
    errors count (`fit_line`). The figure is the mean time of a copy over all the sizes.
    """
