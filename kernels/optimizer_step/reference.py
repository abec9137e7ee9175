"""Step of AdamW: inputs, bytes and check (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019, in the
form that PyTorch documents).

m ← β₁·m + (1 − β₁)·g; v ← β₂·v + (1 − β₂)·g²; p ← (1 − η·λ)·p − η·m̂ / (√v̂ + ε), with m̂ = m / (1 − β₁ᵗ) and
v̂ = v / (1 − β₂ᵗ).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from accelbench.kernels.lib.array_problem import ArrayProblem, Operand, RowBlock
from accelbench.kernels.lib.formats import UNIT_ROUNDOFF
from accelbench.kernels.lib.random_array import RandomArray, draw_normal
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.verification import relative_error, verify_close

RATE, DECAY, BETA_1, BETA_2, EPSILON = 1e-3, 0.01, 0.9, 0.999, 1e-8
"""PyTorch's defaults of η, λ, β₁, β₂ and ε."""
STEP = 3
"""Step number t: so early that a missing bias correction fails the check."""
CORRECTION_1, CORRECTION_2 = 1 - BETA_1**STEP, 1 - BETA_2**STEP
GRADIENT = 1e-6
"""Standard deviation of the gradients: so small that a missing ε fails the check."""
TOLERANCE = 16 * UNIT_ROUNDOFF["float32"]


def problem() -> ArrayProblem:
    """Return the arguments of a kernel, (parameter, gradient, mean, square): all but the gradient updated in place."""
    return ArrayProblem(
        operands=(
            Operand(lambda rng, _: draw_normal(rng, np.dtype(np.float32)), written=True),
            Operand(draw_small),
            Operand(draw_small, written=True),
            Operand(draw_square, written=True),
        ),
        work=work_of,
        metrics=lambda length: {"parameters": Metric(length), "array": Metric(4 * length / 2**20, "MiB")},
        verify=lambda blocks, _: verify_step(blocks),
    )


def draw_small(rng: np.random.Generator, _size: int) -> RandomArray:
    """Return normal numbers with a standard deviation of about GRADIENT."""
    return draw_normal(rng, np.dtype(np.float32)).scaled(GRADIENT)


def draw_square(rng: np.random.Generator, _size: int) -> RandomArray:
    """Return mean squares of gradients, which are positive."""
    root = draw_small(rng, _size)
    return RandomArray(root.a**2, np.abs(root.b))


def work_of(length: int) -> Work:
    """Return the bytes: parameter, gradient and both means read, parameter and both means written, once each."""
    return Work(bytes=7 * 4 * length)


def step(library: Any, parameter: Any, gradient: Any, mean: Any, square: Any, spare: Any) -> None:
    """Do the step in place by array operations; `library` is NumPy or CuPy.

    `spare` is an array of the same length for intermediate results.
    """
    mean *= BETA_1
    library.multiply(gradient, 1 - BETA_1, out=spare)
    mean += spare
    square *= BETA_2
    library.multiply(gradient, gradient, out=spare)
    spare *= 1 - BETA_2
    square += spare
    library.multiply(square, 1 / CORRECTION_2, out=spare)
    library.sqrt(spare, out=spare)
    spare += EPSILON
    library.divide(mean, spare, out=spare)
    spare *= RATE / CORRECTION_1
    parameter *= 1 - RATE * DECAY
    parameter -= spare


def verify_step(blocks: Iterable[RowBlock]) -> Verification:
    """Check every parameter and both means against float64, given the values before and after the step.

    A block is ((parameter, gradient, mean, square), (parameter, mean, square)). Errors are relative to the sum of the
    magnitudes of the terms. Constants are rounded to float32, u each. The error of the mean is 3u (constant, product,
    sum), that of the mean square 4u. √v̂ has 4u (half of the 6u of v̂, and a rounding), ε and its sum 2u, m̂ and the
    quotient 7u. Including the subtraction, the update has at most 14u relative to
    η·(β₁·|m| + (1 − β₁)·|g|) / (1 − β₁ᵗ) / (√v̂ + ε), and the decayed parameter 3u. So 16u is a bound for all.
    """
    largest = 0.0
    for before, after in blocks:
        parameter, gradient, mean, square = (array.astype(np.float64) for array in before)
        terms = BETA_1 * mean, (1 - BETA_1) * gradient
        new_mean, magnitude = terms[0] + terms[1], np.abs(terms[0]) + np.abs(terms[1])
        new_square = BETA_2 * square + (1 - BETA_2) * gradient**2
        factor = RATE / CORRECTION_1 / (np.sqrt(new_square / CORRECTION_2) + EPSILON)
        decayed = (1 - RATE * DECAY) * parameter
        expected = decayed - factor * new_mean, new_mean, new_square
        scales = np.abs(decayed) + factor * magnitude, magnitude, new_square
        errors = (relative_error(*found) for found in zip(after, expected, scales, strict=True))
        largest = max(largest, *errors)
    return verify_close(largest, 0.0, TOLERANCE, "float64, every parameter, mean and mean square", scale=1.0)
