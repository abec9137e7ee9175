"""Training on several devices and in several processes, by the engines that the frameworks have.

A strategy says how the replicas of a model learn together; it is an axis of the workloads that can. The `batch` of a
point is that of all replicas together (`scaling=strong`), or that of each (`scaling=weak`).
"""

from __future__ import annotations

from collections.abc import Mapping

from profiling.benchmark import Only, Values
from profiling.records.point import Scalar

STRATEGIES: Mapping[str, tuple[str, ...]] = {
    "tensorflow": ("none", "mirrored", "multiworker", "parameter-server", "tpu", "horovod"),
    "jax": ("none", "data-parallel"),
    "torch": ("none", "ddp"),
}
"""Of each backend."""
DISTRIBUTION_AXES: dict[str, Values] = {
    "strategy": ("auto",),
    "scaling": ("strong",),
    "devices": (1,),
    "processes": (1,),
}
DISTRIBUTION_CHOICES: dict[str, tuple[Scalar, ...]] = {
    "strategy": ("auto", *dict.fromkeys(name for names in STRATEGIES.values() for name in names)),
    "scaling": ("strong", "weak"),
}
DISTRIBUTION_LAYOUT = {axis: axis for axis in DISTRIBUTION_AXES}
"""The axes that say the fields of a training's layout."""
PLACES: Mapping[str, Mapping[str, Values]] = {
    "none": {"devices": (1,), "processes": (1,)},
    "mirrored": {"processes": (1,)},
    "multiworker": {"devices": (1,)},
    "parameter-server": {"devices": (1,), "jit_compile": ("auto", "off")},
    "tpu": {"device": ("tpu",), "devices": (1,), "processes": (1,)},
    "horovod": {"devices": (1,)},
    "data-parallel": {},
    "ddp": {"devices": (1,)},
}
"""Where each strategy trains: on several devices of one process, on one device of each of several, or on any."""
DISTRIBUTION_ONLY: Only = {
    "strategy": {
        name: {"backend": tuple(backend for backend, names in STRATEGIES.items() if name in names), **where}
        for name, where in PLACES.items()
    }
}
DISTRIBUTION_LIMITS = {"devices": (1, 64), "processes": (1, 4096)}
