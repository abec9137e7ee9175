"""Bandwidth and latency of every level of the memory hierarchy, against the size of the working set."""

from __future__ import annotations

from accelbench.profiling.benchmark import axis, benchmark

CPU_KIB = (
    8, 16, 24, 32, 48, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192, 16384, 24576, 32768, 49152, 65536,
    131072, 262144,
)  # fmt: skip
"""Powers of two, and steps of 1.5 where a cache may end: L1 at 32 to 48 KiB, L2 at 0.25 to 2 MiB, L3 at 16 to 64."""
GPU_KIB = (
    16, 64, 128, 192, 256, 512, 1024, 4096, 16384, 24576, 32768, 49152, 65536, 98304, 131072, 262144, 524288,
)  # fmt: skip
"""L1 of a multiprocessor ends at 128 to 256 KiB, L2 at 40 to 128 MiB; 512 MiB are four times the largest."""
LARGEST_KIB = 1 << 24
"""16 GiB: beyond every cache there is."""


@benchmark(
    "cache-bandwidth",
    devices=("cpu", "gpu"),
    module="accelbench.kernels.cache.{device}_bandwidth",
    axes={"cores": {"cpu": ("one", "all"), "gpu": ("all",)}, "kib": {"cpu": CPU_KIB, "gpu": GPU_KIB}},
    optional={"op": ("read",)},
    choices={"op": ("read", "write", "copy")},
    only={"device": {"gpu": {"op": ("read",)}}},
    limits={"kib": (1, LARGEST_KIB)},
    figure="bytes",
    unbounded="a working set may lie in a cache, which memory's peak and ceiling do not bound",
    cores=axis("cores"),
    sizes={"kib": 1024},
    small={"kib": (64,)},
)
def cache_bandwidth() -> None:
    """The rate of reading a working set again and again: each cache level is a step.

    On a CPU `op=write` and `op=copy` write it, or copy its first half to its second; what is read and what is written
    are both counted. The size is all that each core (CPU) or multiprocessor (GPU) moves. On a CPU every core has a
    working set of its own, so that `all` of them share the last level; on a GPU all read the same one, which L2 then
    serves to all.
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
    figure="time",
    cores=lambda point: "one" if point.device == "cpu" else "all",
    sizes={"kib": 1024},
    small={"kib": (64,)},
)
def cache_latency() -> None:
    """The time of one access whose address is what the access before it has read: each cache level is a step.

    On a CPU `pages=small` keeps the set off huge pages, so that what the TLB misses is added.
    """
