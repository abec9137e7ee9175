"""Step of AdamW: correct for any number of parameters, and variants of AdamW fail the verification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib import array_problem
from accelbench.kernels.lib.cpu import array_task as cpu
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.optimizer_step import cpu_numba, optimizer_step, reference
from accelbench.profiling.records.point import Point


def point(impl: str) -> Point:
    return Point("optimizer-step", "cpu", {"impl": impl}, seed=7)


@pytest.fixture
def short_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays that are generated and checked in several parts."""
    monkeypatch.setattr(cpu, "rows_per_array", lambda width, threads, itemsize: 5000 * threads)
    monkeypatch.setattr(array_problem, "CHECKED_AT_ONCE", 1999)


@pytest.mark.parametrize("impl", ["numba", "vendor"])
@pytest.mark.usefixtures("short_arrays")
def test_every_implementation_is_verified_and_moves_28_bytes_a_parameter(impl: str) -> None:
    task = optimizer_step(point(impl))
    for _ in range(20):
        task.run()
    outcome = task.verify()
    assert outcome.passed, outcome
    assert task.work.bytes == 28 * 5000 * (thread_count() if impl == "numba" else 1)


@settings(deadline=None, max_examples=60)
@given(
    length=st.integers(1, 40) | st.integers(1, 3000),
    threads=st.integers(1, 3),
    size=st.sampled_from([1e-8, 1e-6, 1e-2, 10.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_number_of_parameters_takes_one_step(length: int, threads: int, size: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = [rng.standard_normal(length, np.float32) for _ in range(4)]
    before = [drawn[0], *(np.float32(size) * array for array in drawn[1:3]), np.square(np.float32(size) * drawn[3])]
    after = [array.copy() for array in before]
    cpu_numba.step(*after, threads)
    assert np.array_equal(after[1], before[1])
    outcome = reference.verify_step([(before, [after[0], after[2], after[3]])])
    assert outcome.passed, outcome


@pytest.mark.needs("torch")
def test_the_step_is_that_of_pytorch() -> None:
    import torch

    rng = np.random.default_rng(5)
    parameter, gradients = rng.standard_normal(1000), rng.standard_normal((reference.STEP, 1000))
    theirs = torch.nn.Parameter(torch.tensor(parameter))
    optimizer = torch.optim.AdamW(
        [theirs],
        lr=reference.RATE,
        betas=(reference.BETA_1, reference.BETA_2),
        eps=reference.EPSILON,
        weight_decay=reference.DECAY,
    )
    for gradient in gradients:
        state = {key: value.clone() for key, value in optimizer.state[theirs].items()}
        before = theirs.detach().numpy().copy()
        theirs.grad = torch.tensor(gradient)
        optimizer.step()
    mean, square = (state[key].numpy() for key in ("exp_avg", "exp_avg_sq"))
    reference.step(np, before, gradients[-1], mean, square, np.empty(1000))
    found = optimizer.state[theirs]
    assert np.allclose(before, theirs.detach().numpy(), rtol=1e-13, atol=0)
    assert np.allclose(mean, found["exp_avg"].numpy(), rtol=1e-12, atol=1e-16)
    assert np.allclose(square, found["exp_avg_sq"].numpy(), rtol=1e-12, atol=0)


def wrong(fault: str, parameter: Any, gradient: Any, mean: Any, square: Any) -> None:
    """Do a step of AdamW in float64 with an injected fault, and write it in float32."""
    p, g, m, v = (array.astype(np.float64) for array in (parameter, gradient, mean, square))
    decay = 0.0 if fault == "no weight decay" else reference.DECAY
    if fault == "weight decay coupled":
        g, decay = g + decay * p, 0.0
    correction_1 = 1.0 if fault == "the mean not corrected" else reference.CORRECTION_1
    correction_2 = 1.0 if fault == "the mean square not corrected" else reference.CORRECTION_2
    epsilon = 0.0 if fault == "no epsilon" else reference.EPSILON
    m = reference.BETA_1 * m + (1 - reference.BETA_1) * g
    v = reference.BETA_2 * v + (1 - reference.BETA_2) * (g if fault == "the gradient not squared" else g**2)
    root = np.sqrt(np.abs(v) / correction_2 + (epsilon if fault == "epsilon under the root" else 0))
    update = reference.RATE * m / correction_1 / (root + epsilon)
    if fault != "nothing written":
        parameter[:], square[:] = p - reference.RATE * decay * p - update, v
        mean[:] = mean if fault == "the mean not written" else m
    if fault == "one parameter left out":
        parameter[-1] = p[-1]


@pytest.mark.parametrize(
    "fault",
    [
        "no weight decay",
        "weight decay coupled",
        "the mean not corrected",
        "the mean square not corrected",
        "no epsilon",
        "epsilon under the root",
        "the gradient not squared",
        "the mean not written",
        "one parameter left out",
        "nothing written",
    ],
)
@pytest.mark.usefixtures("short_arrays")
def test_variants_of_adamw_fail(fault: str) -> None:
    def check(fault: str) -> bool:
        task = cpu.array_task(point("own"), reference.problem(), lambda *arrays: wrong(fault, *arrays[:4]), threads=2)
        return task.verify().passed

    assert check("none")
    assert not check(fault)
