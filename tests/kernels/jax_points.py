"""Checks of the JAX kernels in one process, which imports JAX once; prints the results as JSON.

The arrays are small, and XLA optimizes little, because most of the time is compilation.
"""

from __future__ import annotations

import json
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from accelbench.execution.plan import Choice, discover, make_plan
from accelbench.kernels.collectives import ON_DEVICES
from accelbench.kernels.collectives import any_jax as collectives
from accelbench.kernels.lib import xla
from accelbench.kernels.lib.cpu import arrays
from accelbench.kernels.norm import any_jax as norm
from accelbench.kernels.optimizer_step import any_jax as optimizer
from accelbench.kernels.peak_arith import any_jax as peak
from accelbench.kernels.transfer import DIRECTION, MEMORY
from accelbench.kernels.transfer import any_jax as transfer
from accelbench.kernels.treesearch.nqueens import any_jax as nqueens
from accelbench.kernels.treesearch.nqueens.counts import totals
from accelbench.kernels.treesearch.nqueens.prefixes import enumerate_prefixes
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices.cpu import split_for_xla
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
    *(("collectives", {"op": op, "bytes": 5000, "devices": 8}) for op in ON_DEVICES),
    ("collectives", {"op": "all-to-all", "bytes": 5000, "devices": 3}),
]
DEVICES = 8
"""Devices as which JAX sees the CPU, in place of the cores of a TPU."""


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


def wrong_collective(op: str, changed: Any) -> bool:
    """Return whether the check fails with another function on each of three devices."""
    return wrong(collectives, "operation", lambda *_: changed, "collectives", op=op, bytes=5000, devices=3)


def wrong_copy(changed: Any, direction: str) -> bool:
    """Return whether the check fails if `changed(found)` is returned in place of the destinations of a copy."""
    original = transfer.JaxCopies.copy
    replaced = lambda copies, host, device: changed(original(copies, host, device), host)  # noqa: E731
    return wrong(transfer.JaxCopies, "copy", replaced, "transfer", memory="pageable", direction=direction, kib=4)


def wrong_copies() -> dict[str, bool]:
    """Return for each fault of a copy whether its check fails."""
    import jax.numpy as jnp

    return {
        "shares the memory of the source": wrong_copy(lambda found, host: [host], "to-device"),
        "one number not copied to the device": wrong_copy(lambda found, host: [found[0].at[-1].set(0)], "to-device"),
        "one number not copied to the host": wrong_copy(
            lambda found, host: [np.append(found[0][:-1], found[0][0])], "from-device"
        ),
        "directions exchanged": wrong_copy(lambda found, host: [jnp.asarray(found[1]), host], "both"),
    }


def planned_on_a_tpu() -> dict[str, bool]:
    """Return whether the planned points of a TPU with the smallest sizes are verified, on the devices of the CPU."""
    jax = jax_of_all()
    here, free, local = xla._first_device, xla.Xla.free_bytes, jax.local_devices
    xla._first_device = lambda jax, kind: here(jax, "cpu")
    xla.Xla.free_bytes = lambda _: 1 << 30
    jax.local_devices = lambda backend: local(backend="cpu")
    smallest = (Choice.parse("bytes=8"), Choice.parse("kib=4"))
    points = make_plan(("collectives", "transfer"), None, "tpu", smallest, None)
    try:
        return {str(point): verified(made(point.benchmark, "tpu", **point.params)).passed for point in points}
    finally:
        xla._first_device, xla.Xla.free_bytes, jax.local_devices = here, free, local


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


def lacking() -> str:
    """Return the reason why a loop is skipped with XLA's error for a type that the device lacks."""
    import jax

    def fail(_: Any) -> None:
        raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: dot of F64 on this TPU\nmore")

    original, jax.stages.Lowered.compile = jax.stages.Lowered.compile, fail
    try:
        return refused(lambda x, out: [x])
    except Skip as reason:
        return str(reason)
    finally:
        jax.stages.Lowered.compile = original


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
    split_for_xla(DEVICES)
    arrays.SMALLEST, arrays.last_level_bytes = 1 << 16, lambda: 1 << 12
    whole, peak.ON_CPU = peak.ON_CPU, peak.Chains(8, 16, 1 << 10)
    results: dict[str, Any] = {"points": {}, "elements": whole.elements, "transfers": []}
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
    for memory, direction, kib in product(MEMORY, DIRECTION, (4, 300)):
        task = made("transfer", memory=memory, direction=direction, kib=kib)
        found = verified(task)
        results["transfers"].append((found.passed, task.work.bytes, task.timer))
    results["on a TPU"] = planned_on_a_tpu()
    results["wrong copies"] = wrong_copies()
    results["wrong collectives"] = {
        "a device omitted": wrong_collective("all-reduce", lambda x: jax_of_all().lax.psum(x, "device") - x),
        "not exchanged": wrong_collective("all-to-all", lambda x: -x),
        "other direction": wrong_collective(
            "send-recv", lambda x: jax_of_all().lax.ppermute(x, "device", [(0, 2), (1, 0), (2, 1)])
        ),
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
    results["unregistered"] = refused(lambda x, out: [jax_of_all().ffi.ffi_call("no-such", x)(x)])
    results["compilations"] = {"same": compilations((4, 4, 4)), "others": compilations((4, 5, 6))}
    results["skipped"] = {
        "gpu": skipped("matmul", "gpu", dtype="float32", n=70),
        "tpu": skipped("matmul", "tpu", dtype="bfloat16", n=70),
        "one core": skipped("peak-arith", dtype="float32", cores="one"),
        "int8": skipped("peak-arith", dtype="int8", cores="all"),
        "devices": skipped("collectives", op="all-reduce", bytes=8, devices=DEVICES + 1),
        "lacking": lacking(),
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main()
