"""Rate of atomic additions to memory, contended and uncontended."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark


@benchmark(
    "atomics",
    devices=("cpu", "gpu"),
    module="accelbench.kernels.atomics.{device}_numba",
    axes={
        "target": {"cpu": ("one", "own"), "gpu": ("one", "warp", "own", "random", "block")},
        "dtype": {"cpu": ("int64",), "gpu": ("int32", "int64", "float32")},
    },
    figure="items",
    small={"target": ("own",)},
)
def atomics() -> None:
    """Atomic additions per second, all threads at once, by what they add to.

    `one`: all to one counter. `own`: each thread to its own; on a CPU that is a cache line. `warp`: the 32 threads
    of a warp to one. `random`: each addition to one of a million, as in a histogram. `block`: the threads of a block
    to one in shared memory, whose sum is added to memory at the end.
    """
