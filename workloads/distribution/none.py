"""No distribution: one replica on one device of one process, on every backend."""

from __future__ import annotations

from accelbench.workloads.distribution.strategy import Strategy


class Alone(Strategy):
    """The replica has nobody to exchange anything with."""

    backends = ("tensorflow", "jax", "torch")
    only = {"devices": (1,), "processes": (1,)}
    automatic = True
