"""Our JAX kernels compared with a bare JAX script of the same operation, on all cores.

The script calls a compiled function and waits for its result each time, on donated arrays where the result is large.
Both run in one process, on arrays of the same sizes, in the order script, ours, ours, script, so that each ratio is of
consecutive measurements. The time of twice as many executions, and of chains twice as long, shows that XLA removes
nothing. As a program, this module prints the ratios of each repetition as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from rich.console import Console

from accelbench.execution.plan import discover
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point, Scalar
from tests.bench_self.bounds import Bound

ROUNDS = 5
SAMPLE_SECONDS = 0.1
"""Minimum time of a measurement."""
SCRIPT_AT_LEAST = 0.9
TWICE_AT_LEAST, TWICE_AT_MOST = 1.8, 2.3
LINEAR = "stream", "norm", "optimizer-step", "peak-arith"
"""Benchmarks without large temporary arrays, which each call of a program allocates anew."""
CASES: list[tuple[str, dict[str, Scalar]]] = [
    *(("matmul", {"dtype": dtype, "n": 1024}) for dtype in ("float32", "float64", "float16", "bfloat16", "int8")),
    *(("stream", {"op": op, "dtype": "float32"}) for op in ("copy", "mul", "add", "triad", "dot")),
    *(("reduce", {"dtype": dtype}) for dtype in ("float32", "int32")),
    ("softmax-xent", {"vocabulary": 32_000}),
    ("norm", {"width": 1024}),
    ("attention", {"dtype": "float32", "head": 64, "sequence": 512, "heads": 12, "mask": "causal"}),
    ("optimizer-step", {}),
    ("peak-arith", {"dtype": "float32", "cores": "all"}),
]
Timed = Callable[[int], float]
"""Function that returns the seconds per execution of a number of executions."""


def against_bare_jax(console: Console) -> list[Bound]:
    """Return the rate of our kernels ÷ the rate of a bare JAX script, and how the time grows with the work."""
    bounds = []
    for name, params in CASES:
        measured = ratios(name, params)
        title = " ".join([name, *map(str, params.values())])
        bounds.append(Bound(f"{title}: impl=jax ÷ bare JAX", "×", at_least=SCRIPT_AT_LEAST, found=measured["script"]))
        for what, found in measured["twice"].items():
            most = None if "chains" in what else TWICE_AT_MOST  # longer chains leave fewer registers
            bounds.append(Bound(f"{title}: {what}", "×", at_least=TWICE_AT_LEAST, at_most=most, found=found))
        for bound in bounds[-1 - len(measured["twice"]) :]:
            console.print(f"{bound.name}: {' '.join(f'{ratio:.3f}' for ratio in bound.found)}")
    return bounds


def ratios(name: str, params: dict[str, Scalar]) -> dict[str, Any]:
    """Return the ratios of each repetition, from a new process."""
    command = [sys.executable, "-m", "tests.bench_self.xla", name, json.dumps(params)]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def measured(name: str, params: dict[str, Scalar]) -> dict[str, Any]:
    """Return the ratios of each repetition, after verifying our result."""
    task = made(name, params)
    assert task.verify().passed
    assert task.sample is not None
    ours, script = task.sample, bare(name, params, task)
    twice = {}
    if name in LINEAR:
        twice["twice as many executions"] = [_ratio(ours, lambda loops: 2 * ours(2 * loops)) for _ in range(ROUNDS)]
    if name == "peak-arith":
        longer = longer_chains(params)
        twice["chains twice as long"] = [_ratio(ours, longer) for _ in range(ROUNDS)]
    return {"script": [1 / _ratio(script, ours) for _ in range(ROUNDS)], "twice": twice}


def made(name: str, params: dict[str, Scalar]) -> Task:
    task = discover()[name].prepare(Point(name, "cpu", {"impl": "jax", **params}, seed=1))
    assert isinstance(task, Task)
    task.run()
    return task


def longer_chains(params: dict[str, Scalar]) -> Timed:
    """Return the timer of chains of twice as many steps."""
    from dataclasses import replace

    from accelbench.kernels.peak_arith import any_jax

    whole = any_jax.ON_CPU
    any_jax.ON_CPU = replace(whole, steps=2 * whole.steps)
    try:
        task = made("peak-arith", params)
    finally:
        any_jax.ON_CPU = whole
    assert task.sample is not None
    return task.sample


def _ratio(first: Timed, second: Timed) -> float:
    """Return the time of the second ÷ the time of the first."""
    times = [_seconds(timed) for timed in (first, second, second, first)]
    return (times[1] + times[2]) / (times[0] + times[3])


def _seconds(timed: Timed) -> float:
    once = timed(1)
    return timed(max(1, round(SAMPLE_SECONDS / once)))


def bare(name: str, params: dict[str, Scalar], task: Task) -> Timed:
    """Return the timer of a script that does the operation, on arrays of the sizes of the task."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(1)
    bytes_moved = int(task.work.bytes or 0)

    def normal(*shape: int, dtype: Any = "float32") -> Any:
        return jnp.asarray(rng.standard_normal(shape, np.float32), dtype)

    def calls(function: Callable[..., Any], *inputs: Any) -> Timed:
        """Time calls that return a new array."""
        compiled = jax.jit(function)
        jax.block_until_ready(compiled(*inputs))

        def timed(loops: int) -> float:
            begin = perf_counter()
            for _ in range(loops):
                jax.block_until_ready(compiled(*inputs))
            return (perf_counter() - begin) / loops

        return timed

    def updates(function: Callable[..., Any], inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> Timed:
        """Time calls that write their results to donated arrays."""
        compiled = jax.jit(lambda inputs, outputs: function(*inputs, *outputs), donate_argnums=1, keep_unused=True)
        held = [jax.block_until_ready(compiled(inputs, outputs))]

        def timed(loops: int) -> float:
            begin = perf_counter()
            for _ in range(loops):
                held[0] = jax.block_until_ready(compiled(inputs, held[0]))
            return (perf_counter() - begin) / loops

        return timed

    if name == "matmul":
        n, dtype = int(params["n"]), str(params["dtype"])
        a, b = (normal(n, n, dtype=dtype) for _ in range(2))
        result = jnp.int32 if dtype == "int8" else a.dtype
        return calls(lambda a, b: jnp.matmul(a, b, precision="highest", preferred_element_type=result), a, b)
    if name == "stream":
        scalar, moved = 0.4, 3 if params["op"] in ("add", "triad") else 2
        x, y = (normal(bytes_moved // moved // 4) for _ in range(2))
        if params["op"] == "dot":
            return calls(lambda x, y: jnp.dot(x, y, precision="highest"), x, y)
        operations: dict[Scalar, Any] = {
            "copy": lambda x, y, out: (jnp.array(x, copy=True),),
            "mul": lambda x, y, out: (scalar * x,),
            "add": lambda x, y, out: (x + y,),
            "triad": lambda x, y, out: (x + scalar * y,),
        }
        return updates(operations[params["op"]], (x, y), (jnp.zeros_like(x),))
    if name == "reduce":
        x = jnp.asarray(rng.integers(-15, 15, bytes_moved // 4), str(params["dtype"]))
        return calls(lambda x: jnp.sum(x, dtype="int64" if params["dtype"] == "int32" else x.dtype), x)
    if name == "softmax-xent":
        width = int(params["vocabulary"])
        rows = bytes_moved // 4 // (2 * width + 2)
        scores, labels = normal(rows, width), jnp.asarray(rng.integers(0, width, rows), "int32")

        def loss(scores: Any, labels: Any) -> tuple[Any, Any]:
            losses = jax.nn.logsumexp(scores, axis=1) - jnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
            return losses.mean(), losses

        def both(scores: Any, labels: Any, _losses: Any, _gradient: Any) -> tuple[Any, Any]:
            (_, losses), gradient = jax.value_and_grad(loss, has_aux=True)(scores, labels)
            return losses, gradient

        return updates(both, (scores, labels), (jnp.zeros(rows, "float32"), jnp.zeros_like(scores)))
    if name == "norm":
        width = int(params["width"])
        x, scale = normal(bytes_moved // 8 // width, width), normal(width)

        def rms_norm(x: Any, scale: Any, _out: Any) -> tuple[Any]:
            return (x / jnp.sqrt(jnp.mean(jnp.square(x), axis=1, keepdims=True) + 1e-5) * scale,)

        return updates(rms_norm, (x, scale), (jnp.zeros_like(x),))
    if name == "attention":
        q, k, v = (normal(1, int(params["sequence"]), int(params["heads"]), int(params["head"])) for _ in range(3))
        return calls(
            lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=params["mask"] == "causal"), q, k, v
        )
    if name == "optimizer-step":
        parameters, gradient, mean = (normal(bytes_moved // 28) for _ in range(3))

        def adamw(g: Any, p: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * g**2
            step = (m / 0.271) / (jnp.sqrt(v / 0.002997) + 1e-8)
            return p - 1e-3 * (step + 0.01 * p), m, v

        return updates(adamw, (gradient,), (parameters, mean, jnp.abs(normal(bytes_moved // 28))))
    from accelbench.kernels.peak_arith.any_jax import ON_CPU, advance

    x, b, *factors = (normal(ON_CPU.elements) for _ in range(2 + ON_CPU.chains))
    return updates(lambda b, *given: (advance(ON_CPU, given[-1], b, given[:-1]),), (b, *factors), (x,))


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], json.loads(sys.argv[2]))))
