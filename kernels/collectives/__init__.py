"""Collective operations between processes, as used by distributed training."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark

OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "send-recv")
BYTES = (8, 1 << 10, 1 << 16, 1 << 20, 1 << 24)
LARGEST = 1 << 30
LIBRARY = "library"
"""Value of the axis `algorithm`: the library chooses by operation, size and topology."""


@benchmark(
    "collectives",
    devices=("cpu", "gpu"),
    module="accelbench.kernels.collectives.{device}_{impl}",
    axes={"op": OPERATIONS, "bytes": BYTES, "processes": (2,)},
    optional={"algorithm": (LIBRARY,)},
    choices={"algorithm": (LIBRARY, "ring", "tree")},
    only={"algorithm": {"ring": {"impl": ("nccl",)}, "tree": {"impl": ("nccl",)}}},
    limits={"bytes": (8, LARGEST), "processes": (2, 1 << 16)},
    metric="bytes",
    unbounded="messages between processes are bounded by the link between them, and its peak is unknown",
    layout={"processes": "processes"},
    sizes={"bytes": 1},
)
def collectives() -> None:
    """Bandwidth of a collective operation, by message size.

    The result is the algorithm bandwidth: bytes of the message divided by the time until the last process has finished.
    `bus_bandwidth` is the traffic of each link, comparable with the bandwidth of the hardware (`bus_factor`). Messages
    are float32, and `bytes` is the size per process; for all-gather and reduce-scatter it is the size of the complete
    message, as in NVIDIA's nccl-tests (`doc/PERFORMANCE.md`). `broadcast` has root 0; in `send-recv` each rank sends to
    the next rank and receives from the previous one. `algorithm` is for NCCL: `ring` and
    `tree` set NCCL_ALGO; by default, NCCL chooses by operation, size and topology.
    """
