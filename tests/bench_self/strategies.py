"""Overhead of a distribution strategy in one process, without exchange, compared with no strategy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from statistics import median

from rich.console import Console

from accelbench.execution.plan import discover
from accelbench.profiling.benchmark import Training
from accelbench.profiling.ranks.channel import free_port
from accelbench.profiling.ranks.world import World, join
from accelbench.profiling.records.point import Point
from accelbench.profiling.timing.steps import StepClock
from accelbench.workloads.data import pipeline
from accelbench.workloads.training.keras_model import use_backend
from tests.bench_self.bounds import Bound

PAIRS, EPOCHS = 3, 2
"""Number of pairs of processes, since processes differ in memory and core placement, and of epochs in each."""
STEPS = 20
"""Maximum number of steps of an epoch."""
STRATEGIES = {
    ("multiworker", "tensorflow"): 1.05,
    ("mirrored", "tensorflow"): None,
    ("data-parallel", "jax"): 1.05,
    ("ddp", "torch"): 1.05,
}
"""Maximum step time ÷ step time without strategy. MirroredStrategy has none because it is for GPUs: on one of two
machines, TensorFlow's distribution of the data allocated the memory of each step anew (24 times the page faults)."""
WORKLOADS = ("cnn-mnist", "bilstm-har")
LOCALHOST = "127.0.0.1"


def strategy_against_none(console: Console) -> list[Bound]:
    """Return the step time of one process with each strategy ÷ the step time of another without, for each pair."""
    bounds = []
    for (strategy, backend), at_most in STRATEGIES.items():
        if find_spec(backend) is None:
            console.print(f"{backend} is not installed: {strategy} is not measured")
            continue
        for name in WORKLOADS:
            bound = Bound(f"{name}, step with {strategy} on one process ÷ without", "×", at_most=at_most)
            for _ in range(PAIRS):
                with trained(name, strategy, backend) as ours, trained(name, "none", backend) as bare:
                    pairs = [(step_seconds(ours), step_seconds(bare)) for _ in range(EPOCHS)]
                with_, without = (median(times) for times in zip(*pairs, strict=True))
                bound.found.append(with_ / without)
                console.print(f"{bound.name}: {with_ * 1e3:.2f} / {without * 1e3:.2f} ms")
            bounds.append(bound)
    return bounds


@contextmanager
def trained(name: str, strategy: str, backend: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that trains an epoch for each line on its stdin."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.bench_self.strategies", name, strategy, backend]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
        step_seconds(process)  # compiles
        yield process
        assert process.stdin
        process.stdin.close()


def step_seconds(process: subprocess.Popen[str]) -> float:
    """Make the process train one more epoch, and return the median seconds of its steady steps."""
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def serve(name: str, strategy: str, backend: str) -> None:
    """Train an epoch for each line on stdin, and print the median seconds of its steady steps."""
    join(World(rank=0, size=1, addresses=[f"{LOCALHOST}:{free_port(LOCALHOST)}"]))
    benchmark = discover()[name]
    axes = {axis: values[0] for axis, values in benchmark.axes_on("cpu").items()}
    point = Point(name, "cpu", axes | {"epochs": 1, "strategy": strategy}, backend, seed=1)
    use_backend(point)
    original = pipeline.feed
    pipeline.feed = lambda point, examples, *, batch, **settings: original(
        point, tuple(part[: STEPS * batch] for part in examples), batch=batch, **settings
    )
    task = benchmark.prepare(point)
    assert isinstance(task, Training)
    for _ in sys.stdin:
        clock = StepClock()
        task.fit([clock.callback()])
        print(median(clock.samples()), flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
