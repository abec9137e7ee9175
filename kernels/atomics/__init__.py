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
    metric="items",
    small={"target": ("own",)},
)
def atomics() -> None:
    """Rate of atomic additions by all threads at the same time, for different targets.

    `one`: all threads add to one counter. `own`: each thread adds to its own counter, on a CPU in its own cache line.
    `warp`: the 32 threads of a warp share a counter. `random`: each addition goes to one of 2²⁰ counters, as in a
    histogram. `block`: the threads of a block share a counter in shared memory, which is added to memory at the end.
    """
