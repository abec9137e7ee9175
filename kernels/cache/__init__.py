"""Bandwidth and latency of every level of the memory hierarchy, against the size of the working set."""

from __future__ import annotations

from accelbench.profiling.benchmark import axis, benchmark

CPU_KIB = (
    8, 16, 24, 32, 48, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192, 16384, 24576, 32768, 49152, 65536,
    131072, 262144,
)  # fmt: skip
"""Powers of two, and factors of 1.5 near common cache sizes: L1 32–48 KiB, L2 0.25–2 MiB, L3 16–64 MiB."""
GPU_KIB = (
    16, 64, 128, 192, 256, 512, 1024, 4096, 16384, 24576, 32768, 49152, 65536, 98304, 131072, 262144, 524288,
)  # fmt: skip
"""Sizes around L1 (128–256 KiB per multiprocessor) and L2 (40–128 MiB); 512 MiB are four times the largest L2."""
LARGEST_KIB = 1 << 24
"""16 GiB: larger than every cache."""


@benchmark(
    "cache-bandwidth",
    devices=("cpu", "gpu"),
    module="accelbench.kernels.cache.{device}_bandwidth",
    axes={"cores": {"cpu": ("one", "all"), "gpu": ("all",)}, "kib": {"cpu": CPU_KIB, "gpu": GPU_KIB}},
    optional={"op": ("read",)},
    choices={"op": ("read", "write", "copy")},
    only={"device": {"gpu": {"op": ("read",)}}},
    limits={"kib": (1, LARGEST_KIB)},
    metric="bytes",
    unbounded="a working set may fit in a cache, to which the peak and the ceiling of memory do not apply",
    cores=axis("cores"),
    sizes={"kib": 1024},
    small={"kib": (64,)},
)
def cache_bandwidth() -> None:
    """Bandwidth of repeated reads of a working set, by its size: each cache level appears as a step.

    On a CPU `op=write` fills the working set and `op=copy` copies its first half to the second; read and written bytes
    are both counted. The size is the number of bytes per core (CPU) or multiprocessor (GPU). On a CPU every core has
    its own working set, so that with `cores=all` the cores share the last level. On a GPU all multiprocessors read the
    same working set, which they share in L2.
    """


@benchmark(
    "cache-latency",
    devices=("cpu", "gpu"),
    module="accelbench.kernels.cache.{device}_latency",
    axes={"kib": {"cpu": CPU_KIB, "gpu": GPU_KIB}},
    optional={"pages": ("huge",)},
    choices={"pages": ("huge", "small")},
    only={"device": {"gpu": {"pages": ("huge",)}}},
    limits={"kib": (1, LARGEST_KIB)},
    metric="time",
    cores=lambda point: "one" if point.device == "cpu" else "all",
    sizes={"kib": 1024},
    small={"kib": (64,)},
)
def cache_latency() -> None:
    """Latency of dependent loads (pointer chasing), by size of the working set: each cache level appears as a step.

    On a CPU `pages=small` allocates the working set on ordinary pages, so that the latency includes TLB misses.
    """
