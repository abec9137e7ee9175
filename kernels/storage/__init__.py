"""Storage: checkpoints and small random reads of a file system, by the program fio."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark

MIB = 1024
UNBOUNDED = "a file system is bounded by its devices and its network, and their peak is unknown"


@benchmark(
    "checkpoint",
    devices=("cpu",),
    module="accelbench.kernels.storage.{device}_checkpoint",
    axes={"op": ("write", "read"), "io": ("direct", "buffered"), "mib": (MIB,)},
    only={"op": {"read": {"io": ("direct",)}}},
    metric="bytes",
    unbounded=UNBOUNDED,
    sizes={"mib": 1 << 20},
)
def checkpoint() -> None:
    """Bandwidth of writing and reading one large file, as a training run does for its checkpoint.

    The file is in the folder ACCELBENCH_STORAGE, by default the current one, takes at most a tenth of the free space,
    and has no name, so that it is gone when the process ends or is killed. `direct` bypasses the page cache (O_DIRECT),
    with 16 blocks of 1 MiB in flight; `buffered` writes through the page cache. Both end with fsync, which is timed.
    Reads are direct only, because others would be reads of memory. The contents are random. fio, which reports whole
    milliseconds, is timed without its start.
    """


@benchmark(
    "random-read",
    devices=("cpu",),
    module="accelbench.kernels.storage.{device}_random_read",
    axes={"depth": (1, 32), "kib": (4,), "mib": (MIB,)},
    choices={"kib": (4, 16, 64, 256, 1024)},
    limits={"depth": (1, 1024)},
    metric="items",
    sizes={"kib": 1 << 10},
)
def random_read() -> None:
    """Rate of small reads at random places of one large file, `depth` of them in flight.

    The page cache is bypassed (O_DIRECT), since otherwise reads of a file that fits in memory are not reads of the
    storage. File and folder are as in `checkpoint`. Further metrics are the median and the 99th percentile of the
    latency of a read.
    """
