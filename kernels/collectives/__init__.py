"""Collective operations between processes, as used by distributed training."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark

OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "send-recv")
BYTES = (8, 1 << 10, 1 << 16, 1 << 20, 1 << 24)
LARGEST = 1 << 30


@benchmark(
    "collectives",
    devices=("cpu", "gpu"),
    module="accelbench.kernels.collectives.{device}_{impl}",
    axes={"op": OPERATIONS, "bytes": BYTES, "processes": (2,)},
    limits={"bytes": (8, LARGEST), "processes": (2, 1 << 16)},
    figure="bytes",
    unbounded="messages between processes are bounded by what joins them, whose peak is not known",
    layout={"processes": "processes"},
    sizes={"bytes": 1},
)
def collectives() -> None:
    """Bandwidth of an operation that all processes take part in, against the size of the message.

    The figure is the algorithm bandwidth, the message's bytes by the time in which the last process has its part;
    `bus_bandwidth` is what each link carries, to be compared with the hardware's (`bus_factor`). Messages are float32,
    of so many bytes on each process; of all-gather and reduce-scatter that is the whole, as NVIDIA's nccl-tests count
    (`doc/PERFORMANCE.md`). `broadcast` is from rank 0; in `send-recv` each rank sends to the next and receives from
    the one before it.
    """
