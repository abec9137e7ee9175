"""Cost of `accelbench diagnose` in the untouched steps: blocks of a training with and without its hooks, in turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from itertools import chain, islice, repeat
from time import perf_counter, thread_time

from rich.console import Console

from accelbench.profiling.attach import jax as jax_hooks
from accelbench.profiling.attach import torch as torch_hooks
from accelbench.profiling.attach.session import Session
from accelbench.profiling.measure.script.launch import exchange_folder
from tests.bench_self.bounds import Bound

PAIRS, PARTS = 100, 5
"""Pairs of blocks for a ratio, and number of ratios."""
BLOCK_S = 0.02
"""Time of a block: short, because the speed of a shared machine changes within seconds."""
WRITES, WRITTEN_S = 20, 0.15
"""Number of timed writes of the steps' times, and time of the steps of each; a session writes after 0.2 s."""
WIDTHS = {"torch": (256, 1024), "jax": (448, 1280)}
"""Widths of the layers by framework; steps take about 1 and 10 ms."""
BATCH = 64


def overhead_of_attaching(console: Console) -> list[Bound]:
    """Return the time of steps with hooks ÷ without, by framework and width, each in a new process."""
    bounds = []
    for framework, widths in WIDTHS.items():
        if find_spec(framework) is None:
            console.print(f"{framework} is not installed")
            continue
        for width in widths:
            command = [sys.executable, "-m", "tests.bench_self.attach", framework, str(width)]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
            step_s, *found = map(float, output.split())
            name = f"{framework}, steps of {1e3 * step_s:.2g} ms: time with hooks ÷ without"
            bounds.append(Bound(name, "×", at_most=1.02, found=found))
    return bounds


def torch_training(width: int) -> tuple[Callable[[int], None], Callable[[Session], None]]:
    """Return a function that trains the given number of steps, and one that adds the hooks of a session."""
    import torch

    torch.set_num_threads(1)
    layers = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(torch.rand(BATCH * 50, width), batch_size=BATCH)
    batches = chain.from_iterable(repeat(loader))

    def train(steps: int) -> None:
        for x in islice(batches, steps):
            optimizer.zero_grad()
            layers(x).square().mean().backward()
            optimizer.step()

    def attach(session: Session) -> None:
        for name, watch in torch_hooks.hooks(session).items():
            watch(sys.modules[name])

    return train, attach


def jax_training(width: int) -> tuple[Callable[[int], None], Callable[[Session], None]]:
    """Return a function that trains the given number of steps, and one that adds the hooks of a session."""
    import jax
    import jax.numpy as jnp

    def update(params: list[jax.Array], x: jax.Array) -> list[jax.Array]:
        def loss(params: list[jax.Array]) -> jax.Array:
            return jnp.mean((jax.nn.relu(x @ params[0]) @ params[1]) ** 2)

        return [p - 0.01 * slope for p, slope in zip(params, jax.grad(loss)(params), strict=True)]

    x, state = jnp.ones((BATCH, width)), [[jnp.eye(width), jnp.eye(width)]]
    plain = current = jax.jit(update)

    def train(steps: int) -> None:
        for _ in range(steps):
            state[0] = current(state[0], x)
            jax.block_until_ready(state[0])

    def attach(session: Session) -> None:
        nonlocal current
        calls = jax_hooks.JittedCalls(session)
        current = jax_hooks.JittedFunction(plain, calls)  # as `jax.jit` of a script returns it

        def detach() -> None:
            nonlocal current
            current = plain

        session.on_detach(detach)

    return train, attach


def main(framework: str, width: int) -> None:
    """Print the seconds of a step, and the ratios of the CPU times of this thread, in which the hooks run."""
    train, attach = {"torch": torch_training, "jax": jax_training}[framework](width)
    train(50)
    begin = perf_counter()
    train(50)
    step_s = (perf_counter() - begin) / 50

    @contextmanager
    def observation() -> Iterator[Session]:
        with exchange_folder() as folder:
            session = Session(str(folder))
            attach(session)
            while not session.fast_thread:
                train(1)
            yield session
            session.detach()

    def write() -> float:
        """Return the CPU time per step of a write."""
        with observation() as session:
            steps = round(WRITTEN_S / step_s)
            train(steps)
            begin = thread_time()
            session.flush()
            return (thread_time() - begin) / steps

    def block(observed: bool) -> tuple[float, float]:
        """Return the CPU time per step, without the writes, and the wall time per step."""
        steps = max(4, round(BLOCK_S / step_s))
        with observation() if observed else nullcontext():
            train(4)
            begin = thread_time(), perf_counter()
            train(steps)
            return (thread_time() - begin[0]) / steps, (perf_counter() - begin[1]) / steps

    print(step_s)
    write_s = statistics.median(write() for _ in range(WRITES))
    for _ in range(PARTS):
        costs, walls = [], []
        for number in range(PAIRS):
            taken = {observed: block(observed) for observed in ((True, False) if number % 2 else (False, True))}
            costs.append(taken[True][0] - taken[False][0])
            walls.append(taken[False][1])
        print(1 + (statistics.median(costs) + write_s) / statistics.median(walls), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
