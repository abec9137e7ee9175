"""Messages back and forth between two processes: latency and bandwidth of their connection."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark

BYTES = (1, 1 << 10, 1 << 16, 1 << 20, 1 << 23)
LARGEST = 1 << 30


@benchmark(
    "pingpong",
    devices=("cpu", "gpu"),
    module="accelbench.kernels.pingpong.{device}_{impl}",
    axes={"bytes": BYTES, "processes": (2,)},
    limits={"bytes": (1, LARGEST), "processes": (2, 1 << 16)},
    figure="bytes",
    unbounded="messages between processes are bounded by what joins them, whose peak is not known",
    layout={"processes": "processes"},
    sizes={"bytes": 1},
)
def pingpong() -> None:
    """Bandwidth of a message that rank 0 sends to the last rank, and that comes back; the ranks between look on.

    As NetPIPE draws it (Snell, Mikler and Gustafson, "NetPIPE: a network protocol independent performance evaluator",
    1996): `latency` is half of the round trip, and bandwidth the message's bytes by that. `tcp` is a plain socket, with
    TCP_NODELAY; `nccl` sends from one GPU's memory to another's.
    """
