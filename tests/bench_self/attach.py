"""Cost of `accelbench diagnose` in the untouched steps: epochs of a training with and without its hooks, in turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from time import perf_counter, thread_time

from rich.console import Console

from accelbench.profiling.attach import jax as jax_hooks
from accelbench.profiling.attach import torch as torch_hooks
from accelbench.profiling.attach.session import Session
from accelbench.profiling.measure.script.launch import exchange_folder
from tests.bench_self.bounds import Bound

PAIRS, PARTS = 20, 5
"""Pairs of epochs for a ratio, and number of ratios."""
EPOCH_S = 0.25
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


def torch_epoch(width: int) -> tuple[Callable[[int], None], Callable[[Session], None]]:
    """Return a function that trains the given number of steps, and one that adds the hooks of a session."""
    import torch

    torch.set_num_threads(1)
    layers = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(torch.rand(BATCH * 50, width), batch_size=BATCH)

    def train(steps: int) -> None:
        while steps > 0:
            for x in loader:
                optimizer.zero_grad()
                layers(x).square().mean().backward()
                optimizer.step()
                steps -= 1

    def attach(session: Session) -> None:
        for name, watch in torch_hooks.hooks(session).items():
            watch(sys.modules[name])

    return train, attach


def jax_epoch(width: int) -> tuple[Callable[[int], None], Callable[[Session], None]]:
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
    """Print the seconds of a step, and the ratios of the CPU times."""
    train, attach = {"torch": torch_epoch, "jax": jax_epoch}[framework](width)
    train(50)
    begin = perf_counter()
    train(50)
    step_s = (perf_counter() - begin) / 50
    steps = max(10, round(EPOCH_S / step_s))

    def epoch(observed: bool) -> tuple[float, float]:
        """Return the CPU time of this thread, in which the hooks run, and the wall time."""
        with exchange_folder() as folder:
            session = Session(str(folder))
            if observed:
                attach(session)
            begin = thread_time(), perf_counter()
            train(steps)
            taken = thread_time() - begin[0], perf_counter() - begin[1]
            session.detach()
            return taken

    print(step_s)
    for _ in range(PARTS):
        costs = []
        for number in range(PAIRS):
            taken = {observed: epoch(observed) for observed in ((True, False) if number % 2 else (False, True))}
            costs.append((taken[True][0] - taken[False][0]) / taken[False][1])
        # The speed of a shared machine changes within seconds, for both epochs of most pairs alike.
        print(1 + statistics.median(costs), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
