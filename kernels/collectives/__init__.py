"""Collective operations between processes, or devices of one process, as used by distributed training."""

from __future__ import annotations

from accelbench.kernels.collectives.messages import ALL_TO_ALL
from accelbench.profiling.benchmark import Only, benchmark

OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "send-recv", ALL_TO_ALL)
ON_DEVICES = ("all-reduce", "all-gather", "reduce-scatter", ALL_TO_ALL, "send-recv")
"""Operations between the devices of one process, by JAX."""
BETWEEN_PROCESSES = ("gloo", "mpi", "nccl")
BYTES = (8, 1 << 10, 1 << 16, 1 << 20, 1 << 24)
LARGEST = 1 << 30
LIBRARY = "library"
"""Value of the axes `algorithm` and `gpudirect`: the library chooses by operation, size and topology."""
ONLY: Only = {
    "impl": {
        "jax": {"op": ON_DEVICES, "processes": (1,)},
        **{impl: {"devices": (1,)} for impl in BETWEEN_PROCESSES},
    },
    "processes": {1: {"impl": ("jax",)}},
    "devices": {1: {"impl": BETWEEN_PROCESSES}},
    "algorithm": {"ring": {"impl": ("nccl",)}, "tree": {"impl": ("nccl",)}},
    "gpudirect": {"on": {"impl": ("nccl",)}, "off": {"impl": ("nccl",)}},
}


@benchmark(
    "collectives",
    devices=("cpu", "gpu", "tpu"),
    module="accelbench.kernels.collectives.{device}_{impl}",
    axes={"op": {"cpu": OPERATIONS, "gpu": OPERATIONS, "tpu": ON_DEVICES}, "bytes": BYTES, "processes": (2, 1)},
    optional={"devices": (1, 8), "algorithm": (LIBRARY,), "gpudirect": (LIBRARY,)},
    choices={
        "op": OPERATIONS,
        "algorithm": (LIBRARY, "ring", "tree"),
        "gpudirect": (LIBRARY, "on", "off"),
    },
    only=ONLY,
    limits={"bytes": (8, LARGEST), "processes": (1, 1 << 16), "devices": (1, 1 << 12)},
    metric="bytes",
    unbounded="messages between processes or devices are bounded by the link between them, and its peak is unknown",
    layout={"processes": "processes", "devices": "devices"},
    sizes={"bytes": 1},
)
def collectives() -> None:
    """Bandwidth of a collective operation, by message size.

    The result is the algorithm bandwidth: bytes of the message divided by the time until the last process has finished.
    `bus_bandwidth` is the traffic of each link, comparable with the bandwidth of the hardware (`bus_factor`). Messages
    are float32, and `bytes` is the size per process; for all-gather and reduce-scatter it is the size of the complete
    message, as in NVIDIA's nccl-tests (`doc/PERFORMANCE.md`). `broadcast` has root 0; in `send-recv` each rank sends to
    the next rank and receives from the previous one; in `all-to-all` each rank sends an equal part of its message to
    every rank, itself included.
    `algorithm` is for NCCL: `ring` and `tree` set NCCL_ALGO; by default, NCCL chooses by operation, size and topology.
    `gpudirect` is for NCCL, too: `on` permits direct copies between the GPUs of a node (P2P), and between GPU and
    network card (GPUDirect RDMA), at any distance in the topology, where the hardware supports them; `off` forbids
    both, and NVLink SHARP, so that all messages pass through the host's memory. Neither has run on GPUs.

    `impl=jax` measures the `devices` of one process, each of which is a rank. A CPU is divided into devices that share
    its cores: this checks the operations, and its bandwidth is that of copies in memory.
    """
