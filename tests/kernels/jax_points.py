"""Checks of the JAX kernels in one process, which imports JAX once; prints the results as JSON.

The arrays are small, and XLA optimizes little, because most of the time is compilation.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np

from accelbench.execution.plan import discover
from accelbench.kernels.lib import xla
from accelbench.kernels.lib.cpu import arrays
from accelbench.kernels.norm import any_jax as norm
from accelbench.kernels.optimizer_step import any_jax as optimizer
from accelbench.kernels.peak_arith import any_jax as peak
from accelbench.kernels.treesearch.nqueens import any_jax as nqueens
from accelbench.kernels.treesearch.nqueens.counts import totals
from accelbench.kernels.treesearch.nqueens.prefixes import enumerate_prefixes
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.measure.compilations import JaxCompilations
from accelbench.profiling.records.point import Point, Scalar
from accelbench.profiling.records.quality import Verification

DTYPES = ("float64", "float32", "float16", "bfloat16", "fp8", "int8")
ATTENTION = {"dtype": "float32", "head": 24, "sequence": 70, "heads": 2}
POINTS: list[tuple[str, dict[str, Scalar]]] = [
    *(("matmul", {"dtype": dtype, "n": 70}) for dtype in DTYPES),
    ("gemm", {"dtype": "float32", "shape": "3x50x9x60"}),
    *(("stream", {"op": op, "dtype": "float32"}) for op in ("copy", "mul", "add", "triad", "dot")),
    ("stream", {"op": "triad", "dtype": "float64"}),
    *(("reduce", {"dtype": dtype}) for dtype in ("float64", "float32", "int32")),
    ("softmax-xent", {"vocabulary": 257}),
    ("norm", {"width": 101}),
    ("optimizer-step", {}),
    *(("attention", {**ATTENTION, "mask": mask}) for mask in ("causal", "full")),
    *(("peak-arith", {"dtype": dtype, "cores": "all"}) for dtype in ("float64", "float32", "bfloat16")),
    ("nqueens", {"queens": 9, "cores": "all"}),
]


def made(name: str, device: str = "cpu", **params: Scalar) -> Task:
    """Return the prepared task of a point by JAX."""
    task = discover()[name].prepare(Point(name, device, {"impl": "jax", **params}, seed=5))
    assert isinstance(task, Task)
    return task


def verified(task: Task) -> Verification:
    """Run a task as a measurement does, and return the verification."""
    task.run()
    found = task.verify()
    assert task.sample is not None
    assert task.sample(3) > 0
    assert task.verify().passed == found.passed
    return found


def skipped(name: str, device: str = "cpu", **params: Scalar) -> str:
    """Return the reason why a point is skipped."""
    try:
        made(name, device, **params)
    except Skip as reason:
        return str(reason)
    return ""


def wrong(module: Any, kernel: str, changed: Any, name: str, **params: Scalar) -> bool:
    """Return whether the check fails with another kernel in place of the module's."""
    original = getattr(module, kernel)
    setattr(module, kernel, changed)
    try:
        return not verified(made(name, **params)).passed
    finally:
        setattr(module, kernel, original)


def multiplications(steps: int) -> int:
    """Return the multiplications in the loop of the compiled chains."""
    found: list[str] = []
    original, peak.ON_CPU = peak.ON_CPU, peak.Chains(4, steps, 512)
    check = xla.require_repeated
    xla.require_repeated = found.append
    try:
        assert verified(made("peak-arith", dtype="float32", cores="all")).passed
    finally:
        peak.ON_CPU, xla.require_repeated = original, check
    inside, _ = xla.placed(found[0])
    return sum(" multiply(" in line for line in inside)


def repeated_steps(count: int) -> float:
    """Return the largest difference of the means after `count` steps of AdamW in one program from the formula."""
    import jax

    here = xla.Xla(jax, jax.devices("cpu")[0], "cpu")
    ones = np.ones(8, np.float32)
    loop = xla.Loop(here, optimizer.step, [here.copy(ones * factor) for factor in (1, 1, 0, 0)], [0, 2, 3])
    loop.repeat(count)
    return float(np.abs(np.asarray(loop.arrays[2]) - (1 - optimizer.BETA_1**count)).max())


def refused(kernel: Any) -> str:
    """Return the error of a loop with a kernel of (x, out)."""
    import jax

    here = xla.Xla(jax, jax.devices("cpu")[0], "cpu")
    loop = xla.Loop(here, kernel, [here.copy(np.ones(1 << 10, np.float32)) for _ in range(2)], [1])
    try:
        loop.run()
    except RuntimeError as error:
        return str(error)
    return ""


def searched(queens: int, at_least: int, lanes: int, column_bits: int) -> list[int]:
    """Return the node and solution counts of the whole board, with `column_bits` bits per stored column."""
    original, nqueens.COLUMN_BITS = nqueens.COLUMN_BITS, column_bits
    prefixes = enumerate_prefixes(queens, at_least)
    rows = queens - prefixes.depth
    try:
        search = jax_of_all().jit(partial(nqueens.search, lanes, queens, rows))
        nodes, solutions = search(prefixes.columns, prefixes.left, prefixes.right)
    finally:
        nqueens.COLUMN_BITS = original
    return [*totals(prefixes, np.asarray(nodes), np.asarray(solutions))]


def jax_of_all() -> Any:
    """Return JAX with 64-bit types, as the kernels use it."""
    return xla.Xla.on(Point("nqueens", "cpu", {}), "all").jax


def compilations(sizes: tuple[int, ...]) -> list[str]:
    """Return the noise flags of a block in which a compiled function is called with arrays of these sizes."""
    import jax
    import jax.numpy as jnp

    double = jax.jit(lambda x: 2 * x)
    arrays = [jnp.asarray(np.ones(size, np.float32)) for size in sizes]
    double(arrays[0]).block_until_ready()
    with JaxCompilations() as found:
        for array in arrays:
            double(array).block_until_ready()
    return found.flags()


def main() -> None:
    arrays.SMALLEST, arrays.last_level_bytes = 1 << 16, lambda: 1 << 12
    whole, peak.ON_CPU = peak.ON_CPU, peak.Chains(8, 16, 1 << 10)
    results: dict[str, Any] = {"points": {}, "elements": whole.elements}
    for name, params in POINTS:
        task = made(name, **params)
        found = verified(task)
        assert task.metrics is not None
        assert task.overhead is not None
        results["points"][" ".join([name, *map(str, params.values())])] = {
            "passed": found.passed,
            "metrics": sorted(task.metrics(1.0)),
            "overhead": task.overhead(),
            "timer": task.timer,
        }
    results["wrong"] = {
        "norm": wrong(norm, "normalize", lambda x, scale, out: [x * scale], "norm", width=101),
        "optimizer-step": wrong(optimizer, "step", lambda p, g, m, v: (p - g, m, v), "optimizer-step"),
        "peak-arith": wrong(
            peak, "advance", lambda size, x, b, a: a[0] * x + b, "peak-arith", dtype="float32", cores="all"
        ),
    }
    results["multiplications"] = {steps: multiplications(steps) for steps in (4, 8, 16)}
    results["steps"] = {count: repeated_steps(count) for count in (1, 2, 7)}
    results["searched"] = [
        [queens, lanes, bits, *searched(queens, at_least, lanes, bits)]
        for queens, at_least, lanes, bits in (
            (1, 1, 4, 5),  # the last row only
            (2, 1, 4, 5),
            (6, 1, 1, 5),  # one lane for the complete board
            (8, 50, 64, 5),  # more lanes than placements
            (8, 300, 16, 16),  # four columns per word, so that the second word is used
        )
    ]
    results["removed"] = refused(lambda x, out: [out])
    results["compilations"] = {"same": compilations((4, 4, 4)), "others": compilations((4, 5, 6))}
    results["skipped"] = {
        "gpu": skipped("matmul", "gpu", dtype="float32", n=70),
        "tpu": skipped("matmul", "tpu", dtype="bfloat16", n=70),
        "one core": skipped("peak-arith", dtype="float32", cores="one"),
        "int8": skipped("peak-arith", dtype="int8", cores="all"),
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main()
