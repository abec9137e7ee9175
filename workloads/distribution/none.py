"""No distribution: one replica on one device of one process, on every backend."""

from __future__ import annotations

from accelbench.workloads.distribution.strategy import Strategy


class Alone(Strategy):
    """Single replica without exchange."""

    backends = ("tensorflow", "jax", "torch")
    only = {"devices": (1,), "processes": (1,)}
    automatic = True
