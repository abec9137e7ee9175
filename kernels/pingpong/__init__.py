"""Ping-pong messages between two processes: latency and bandwidth of their connection."""

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
    metric="bytes",
    unbounded="messages between processes are bounded by the link between them, and its peak is unknown",
    layout={"processes": "processes"},
    sizes={"bytes": 1},
)
def pingpong() -> None:
    """Bandwidth of a message that rank 0 sends to the last rank and receives back; the other ranks are idle.

    As in NetPIPE (Snell, Mikler and Gustafson, "NetPIPE: a network protocol independent performance evaluator", 1996),
    `latency` is half of the round-trip time, and bandwidth is the size of the message divided by the latency. `tcp` is
    a plain socket with TCP_NODELAY; `nccl` sends from the memory of one GPU to that of another.
    """
