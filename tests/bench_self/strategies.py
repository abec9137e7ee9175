"""The cost of a strategy that has nobody to exchange with: its steps in one process beside those without a strategy."""

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

PAIRS, TURNS = 3, 2
"""The pairs of processes, which differ by their luck with memory and cores, and the epochs in each."""
STEPS = 20
"""The most steps of one turn."""
STRATEGIES = {
    ("multiworker", "tensorflow"): 1.05,
    ("mirrored", "tensorflow"): None,
    ("data-parallel", "jax"): 1.05,
    ("ddp", "torch"): 1.05,
}
"""The most that each may cost. MirroredStrategy is for GPUs: on one machine, not on another, TensorFlow's distribution
of the data made each step take its memory anew (24 times the page faults)."""
WORKLOADS = ("cnn-mnist", "bilstm-har")
LOCALHOST = "127.0.0.1"


def strategy_beside_none(console: Console) -> list[Bound]:
    """Steady step times of one process under each strategy, as ratios to those of another without, pair by pair."""
    bounds = []
    for (strategy, backend), at_most in STRATEGIES.items():
        if find_spec(backend) is None:
            console.print(f"{backend} is not installed: {strategy} is not measured")
            continue
        for name in WORKLOADS:
            bound = Bound(f"{name}, step under {strategy} of one ÷ without", "×", at_most=at_most)
            for _ in range(PAIRS):
                with trained(name, strategy, backend) as ours, trained(name, "none", backend) as bare:
                    turns = [(take_turn(ours), take_turn(bare)) for _ in range(TURNS)]
                with_, without = (median(times) for times in zip(*turns, strict=True))
                bound.found.append(with_ / without)
                console.print(f"{bound.name}: {with_ * 1e3:.2f} / {without * 1e3:.2f} ms")
            bounds.append(bound)
    return bounds


@contextmanager
def trained(name: str, strategy: str, backend: str) -> Iterator[subprocess.Popen[str]]:
    """A process that trains an epoch for each line it is sent."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.bench_self.strategies", name, strategy, backend]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
        take_turn(process)  # compiles
        yield process
        assert process.stdin
        process.stdin.close()


def take_turn(process: subprocess.Popen[str]) -> float:
    """The seconds of a steady step of one more epoch."""
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def serve(name: str, strategy: str, backend: str) -> None:
    """Train an epoch for each line that is read, and print the median of its steady steps."""
    join(World(rank=0, size=1, addresses=[f"{LOCALHOST}:{free_port(LOCALHOST)}"]))
    benchmark = discover()[name]
    axes = {axis: values[0] for axis, values in benchmark.axes_on("cpu").items()}
    point = Point(name, "cpu", axes | {"epochs": 1, "strategy": strategy}, backend, seed=1)
    use_backend(point)
    whole = pipeline.feed
    pipeline.feed = lambda point, examples, *, batch, **settings: whole(
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
