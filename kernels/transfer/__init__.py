"""Copies between host and device memory, as for every batch of a training run, and between the GPUs of a node."""

from __future__ import annotations

from functools import partial

from accelbench.profiling.benchmark import benchmark
from accelbench.profiling.devices import gpu_backend
from accelbench.profiling.records.matrix import MatrixAxes

MEMORY = ("pinned", "pageable")
DIRECTION = ("to-device", "from-device", "both")
KIB = (4, 16, 64, 256, 1024, 16384, 262144, 1048576)
SMALLEST_KIB, LARGEST_KIB = 4, 1 << 20
MATRIX_KIB = (262144,)
"""Size of the copies in a matrix: 256 MiB, for which the time of a call is negligible."""
MOST_GPUS, MOST_NODES = 64, 1024
PEER, THROUGH_HOST, LOCAL = "peer access", "through the host", "local node"
"""Metrics that mark a result in a matrix."""


def gpu_numbers(fewest: int = 1) -> tuple[int, ...]:
    """Return the numbers of the visible GPUs, or of the given number of GPUs if fewer are visible."""
    found = gpu_backend().visible_count() or 0
    return tuple(range(min(max(found, fewest), MOST_GPUS)))


def node_numbers() -> tuple[int, ...]:
    """Return the numbers of the host's memory nodes (NUMA); node 0 if the kernel lists none."""
    from accelbench.kernels.lib.cpu.topology import read_nodes

    return tuple(number for number, node in read_nodes().items() if node.memory_bytes) or (0,)


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


@benchmark(
    "transfer-gpus",
    devices=("gpu",),
    module="accelbench.kernels.transfer.{device}_to_gpu",
    axes={"from": partial(gpu_numbers, 2), "to": partial(gpu_numbers, 2), "kib": MATRIX_KIB},
    limits={"from": (0, MOST_GPUS - 1), "to": (0, MOST_GPUS - 1), "kib": (SMALLEST_KIB, LARGEST_KIB)},
    metric="bytes",
    unbounded="a copy between GPUs is bounded by the link between them, and its peak is unknown",
    sizes={"kib": 1024},
    matrix=MatrixAxes(rows="from", columns="to", diagonal=False, marks=(PEER, THROUGH_HOST)),
)
def transfer_gpus() -> None:
    """Bandwidth of a copy from the memory of one GPU to the memory of another GPU of the node, for each ordered pair.

    Timed by CUDA events on the GPU `from`. The copy uses peer access where the driver permits it in both directions,
    over NVLink or PCI Express; otherwise the driver copies through host memory. The metric `peer access` or `through
    the host` of the record is 1.
    """


@benchmark(
    "transfer-numa",
    devices=("gpu",),
    module="accelbench.kernels.transfer.{device}_numa",
    axes={"direction": DIRECTION[:2], "node": node_numbers, "gpu": gpu_numbers, "kib": MATRIX_KIB},
    limits={"node": (0, MOST_NODES - 1), "gpu": (0, MOST_GPUS - 1), "kib": (SMALLEST_KIB, LARGEST_KIB)},
    metric="bytes",
    unbounded="a copy between host and device is bounded by the link between them, and its peak is unknown",
    sizes={"kib": 1024},
    matrix=MatrixAxes(rows="node", columns="gpu", marks=(LOCAL,)),
)
def transfer_numa() -> None:
    """Bandwidth of a copy between page-locked memory of a memory node (NUMA) of the host and a GPU, in one direction.

    Timed by CUDA events. The metric `on the node` is the share of the memory's pages on the node; `local node` is 1 if
    the GPU is attached to this node.
    """
