"""N-Queens in JAX: one `while_loop` advances a search below every placement of a vector of lanes, compiled by XLA.

Bound: the elementwise operations of a step, some 60 of 64 bits per lane, whether or not a lane places a queen. A lane
keeps no stack in memory, for which XLA would gather and scatter: it keeps the columns of its queens in two words, five
bits each, and takes a queen back by the inverse of the shifts. For that, the diagonals are words of 64 bits, from which
no shift drops a bit. After some steps, lanes that are done store their counts and take the next placements. All
queens of a row are counted at once from the free bits, as in `cpu_prefix.py`; symmetry is not used.

93 M nodes/s on two cores of an AMD EPYC (Zen 4) at 14 queens; it has not run on a GPU or a TPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelbench.kernels.lib.xla import Loop, Xla, timed_as_loop
from accelbench.kernels.treesearch.nqueens.counts import search_metrics, verify_search, work_below
from accelbench.kernels.treesearch.nqueens.prefixes import enumerate_prefixes
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.quality import Metric, Verification

LANES: dict[Device, int] = {"cpu": 1 << 11, "gpu": 1 << 18, "tpu": 1 << 17}
"""Number of searches advanced at once: on a CPU their words fit in the L2 cache."""
TASKS_PER_LANE = 8
"""Minimum tasks per lane: at the end lanes wait for the longest search."""
STEPS = 32
"""Steps of all lanes between two replacements of lanes that are done."""
DIAGONAL = 32
"""Number of bits by which diagonals to lower columns are shifted up, so that no bit is dropped."""
COLUMN_BITS, WORD_BITS = 5, 64


def search(lanes: int, queens: int, rows: int, columns: Any, left: Any, right: Any) -> tuple[Any, Any]:
    """Return the nodes and solutions below each placement, (tasks,) uint32, in the last `rows` ≥ 1 rows."""
    import jax
    import jax.numpy as jnp
    from jax.lax import population_count

    board, one, up = jnp.uint64((1 << queens) - 1), jnp.uint64(1), jnp.uint64(DIAGONAL)
    digit, beyond = jnp.uint64(COLUMN_BITS), jnp.uint64(WORD_BITS - COLUMN_BITS)
    tasks = len(columns)

    def free_of(columns: Any, left: Any, right: Any) -> Any:
        return board & ~(columns | left | (right >> up))

    def counted(free: Any) -> Any:
        return population_count(free).astype(jnp.uint32)

    if rows == 1:
        words = [word.astype(jnp.uint64) for word in (columns, left, right)]
        last = counted(free_of(words[0], words[1], words[2] << up))
        return last, last

    def step(_: Any, lane: dict[str, Any]) -> dict[str, Any]:
        """Place a queen, or take the last one back, in every lane that has a task."""
        free, height = lane["free"], lane["height"]
        places = free != 0
        queen = free & (~free + one)
        below_columns, below_left = lane["columns"] | queen, (lane["left"] | queen) << one
        below_right = (lane["right"] | (queen << up)) >> one
        below = free_of(below_columns, below_left, below_right)
        placed = jnp.where(places, counted(below), jnp.uint32(0))
        is_last = height == rows - 2
        descends = places & ~is_last & (below != 0)
        column = population_count(queen - one)

        returns = ~places & (height > 0)
        taken = one << (lane["path"] & jnp.uint64((1 << COLUMN_BITS) - 1))
        above_columns, above_left = lane["columns"] ^ taken, (lane["left"] >> one) ^ taken
        above_right = (lane["right"] << one) ^ (taken << up)
        above = free_of(above_columns, above_left, above_right) & ~((taken << one) - one)

        def choose(down: Any, back: Any, stay: Any) -> Any:
            return jnp.where(descends, down, jnp.where(returns, back, stay))

        path, earlier = lane["path"], lane["earlier"]
        return {
            "task": lane["task"],
            "free": choose(below, above, free & ~queen),
            "columns": choose(below_columns, above_columns, lane["columns"]),
            "left": choose(below_left, above_left, lane["left"]),
            "right": choose(below_right, above_right, lane["right"]),
            "path": choose((path << digit) | column, (path >> digit) | (earlier << beyond), path),
            "earlier": choose((earlier << digit) | (path >> beyond), earlier >> digit, earlier),
            "height": height + descends.astype(jnp.int32) - returns.astype(jnp.int32),
            "nodes": lane["nodes"] + placed,
            "solutions": lane["solutions"] + jnp.where(is_last, placed, jnp.uint32(0)),
        }

    def begin(task: Any) -> dict[str, Any]:
        """Return lanes at the beginning of these tasks; beyond the last task a lane has nothing free."""
        there = task < tasks
        taken = jnp.minimum(task, tasks - 1)
        words = [word[taken].astype(jnp.uint64) for word in (columns, left, right)]
        words[2] <<= up
        free, nothing = jnp.where(there, free_of(words[0], words[1], words[2]), 0), jnp.zeros_like(words[0])
        return {
            "task": task,
            "free": free,
            **dict(zip(("columns", "left", "right"), words, strict=True)),
            "path": nothing,
            "earlier": nothing,
            "height": jnp.zeros_like(task),
            "nodes": counted(free),
            "solutions": jnp.zeros_like(task, jnp.uint32),
        }

    def advance(state: tuple[Any, dict[str, Any], Any, Any]) -> tuple[Any, dict[str, Any], Any, Any]:
        """Advance all lanes by `STEPS`, store the counts of those that are done, and give them the next tasks."""
        following, lane, nodes, solutions = state
        lane = jax.lax.fori_loop(0, STEPS, step, lane)
        done = (lane["free"] == 0) & (lane["height"] == 0)
        place = jnp.where(done, lane["task"], tasks)
        nodes = nodes.at[place].set(lane["nodes"], mode="drop")
        solutions = solutions.at[place].set(lane["solutions"], mode="drop")
        order = jnp.cumsum(done.astype(jnp.int32))
        fresh = begin(jnp.where(done, following + order - 1, lane["task"]))
        lane = {name: jnp.where(done, fresh[name], lane[name]) for name in lane}
        return following + order[-1], lane, nodes, solutions

    def is_unfinished(state: tuple[Any, dict[str, Any], Any, Any]) -> Any:
        return jnp.any(state[1]["task"] < tasks)

    counts = jnp.zeros(tasks, jnp.uint32)
    start = jnp.int32(lanes), begin(jnp.arange(lanes, dtype=jnp.int32)), counts, counts
    _, _, nodes, solutions = jax.lax.while_loop(is_unfinished, advance, start)
    return nodes, solutions


def prepare(point: Point) -> Task:
    """Return the point's task; the placements of the first rows are enumerated here and copied to the device."""
    xla, queens, lanes = Xla.on(point, str(point["cores"])), int(point["queens"]), LANES[point.device]
    prefixes = enumerate_prefixes(queens, TASKS_PER_LANE * lanes)
    xla.require_memory(20 * len(prefixes) + 80 * lanes)
    rows = queens - prefixes.depth

    def kernel(columns: Any, left: Any, right: Any, _nodes: Any, _solutions: Any) -> tuple[Any, Any]:
        return search(lanes, queens, rows, columns, left, right)

    given = [xla.put(words) for words in (prefixes.columns, prefixes.left, prefixes.right)]
    unknown = np.full(len(prefixes), -1, np.int64).astype(np.uint32)
    loop = Loop(xla, kernel, [*given, xla.copy(unknown), xla.copy(unknown)], [3, 4])

    def found() -> tuple[Any, Any]:
        """Return the nodes and solutions below each placement."""
        nodes, solutions = (np.asarray(counts).astype(np.int64) for counts in loop.arrays[3:])
        return nodes, solutions

    def verify() -> Verification:
        loop.arrays[3:] = [xla.copy(unknown), xla.copy(unknown)]
        loop.run()
        nodes, solutions = found()
        return verify_search(prefixes, nodes, solutions, point.rng())

    def metrics(seconds: float) -> dict[str, Metric]:
        nodes, solutions = found()
        return {**search_metrics(prefixes, nodes, solutions, seconds), "lanes": Metric(lanes)}

    return timed_as_loop(Task(loop.run, verify, work_below(prefixes), metrics=metrics), loop)
