"""The decoder agrees with a reference implementation on every backend, and attention is causal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accelbench.profiling.measure.flop_counts.layers import model_flops
from accelbench.profiling.records.point import Point
from accelbench.workloads.language.sizes import SIZES, VOCABULARY, Size
from accelbench.workloads.training.keras_model import use_backend
from tests.fixtures import warm
from tests.requirements import BACKENDS
from tests.workloads.language.small import BATCH, SEQUENCE, SIZE, TOKENS, build, weights

Array = NDArray[np.float64]


def reference(tokens: NDArray[np.int32]) -> Array:
    """Return the scores (sequence, vocabulary) of one sequence, computed per token and head in float64."""
    given = {path: value.astype(np.float64) for path, value in weights().items()}
    stream = given["embedding/embeddings"][tokens]
    for block in range(SIZE.blocks):
        of = {path.split("/")[1]: value for path, value in given.items() if path.startswith(f"block_{block}/")}
        x = normed(stream, of["norm_attention"])
        query, key, value = (x @ of[name] for name in ("query", "key", "value"))
        taken = np.zeros_like(stream)
        for head in range(SIZE.heads):
            mine = slice(head * SIZE.head, (head + 1) * SIZE.head)
            shared = head // (SIZE.heads // SIZE.shared_heads)
            its = slice(shared * SIZE.head, (shared + 1) * SIZE.head)
            for here in range(len(tokens)):
                asked = turned(query[here, mine], here)
                likely = [asked @ turned(key[there, its], there) / SIZE.head**0.5 for there in range(here + 1)]
                shares = np.exp(likely) / np.exp(likely).sum()
                taken[here, mine] = shares @ value[: here + 1, its]
        stream = stream + taken @ of["out"]
        x = normed(stream, of["norm_network"])
        gate = x @ of["gate"]
        stream = stream + (gate / (1 + np.exp(-gate)) * (x @ of["up"])) @ of["down"]
    return np.asarray(normed(stream, given["norm/scale"]) @ given["embedding/embeddings"].T)


def normed(x: Array, scale: Array) -> Array:
    return np.asarray(x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5) * scale)


def turned(x: Array, position: int) -> Array:
    """Rotate one head of one token; each pair of its numbers is treated as a complex number."""
    half = len(x) // 2
    waves = position * 10_000.0 ** (-2 * np.arange(half) / len(x))
    pairs = (x[:half] + 1j * x[half:]) * np.exp(1j * waves)
    return np.concatenate([pairs.real, pairs.imag])


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    """Return the results of each backend, from one process each."""
    return warm.run_on_all("tests.workloads.language.small")


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_agrees_with_the_reference(found: dict[str, dict[str, Any]], backend: str) -> None:
    expected = np.stack([reference(row[:-1]) for row in TOKENS])
    assert np.asarray(found[backend]["scores"]) == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("step", ["step", "recomputed"])
def test_loss_and_gradient_are_independent_of_recomputation_and_backend(
    found: dict[str, dict[str, Any]], backend: str, step: str
) -> None:
    (expected_loss, expected), (loss, after) = found["tensorflow"]["step"], found[backend][step]
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    assert after == pytest.approx(expected, rel=1e-3, abs=1e-4)


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_the_operation_count_agrees_with_pytorchs(found: dict[str, dict[str, Any]]) -> None:
    assert found["torch"]["flops"] == pytest.approx(1, abs=0.01)


@pytest.mark.slow
def test_scores_do_not_depend_on_later_tokens() -> None:
    use_backend(Point("transformer", "cpu", {}, "tensorflow"))
    model = build()
    changed = TOKENS[:, :-1].copy()
    changed[:, SEQUENCE // 2] += 1
    changed %= VOCABULARY
    before, after = (model.predict(tokens, verbose=0) for tokens in (TOKENS[:, :-1], changed))
    assert (before[:, : SEQUENCE // 2] == after[:, : SEQUENCE // 2]).all()
    assert (before[:, SEQUENCE // 2 :] != after[:, SEQUENCE // 2 :]).any(axis=-1).all()


@pytest.mark.slow
def test_parameters_and_operations_agree_with_the_formulas() -> None:
    use_backend(Point("transformer", "cpu", {}, "tensorflow"))
    model = build()
    assert model.count_params() == SIZE.parameters
    assert model_flops(model, BATCH).training == BATCH * SEQUENCE * SIZE.flops_per_token(SEQUENCE)


@pytest.mark.parametrize(
    ("name", "millions"),
    [("tiny", 0.8), ("125m", 126), ("125m-slice", 12.8), ("350m", 348), ("1b", 993), ("7b-slice", 437)],
)
def test_sizes_have_the_parameters_in_their_names(name: str, millions: float) -> None:
    assert SIZES[name].parameters / 1e6 == pytest.approx(millions, rel=0.03)
    # PaLM's convention: 6 operations per weight, plus attention.
    size = SIZES[name]
    beyond = size.flops_per_token(1) - 6 * size.parameters
    assert abs(beyond) < 0.01 * 6 * size.parameters


@pytest.mark.parametrize(("heads", "shared"), [(3, 1), (4, 3), (16, 4)])
def test_indivisible_heads_are_rejected(heads: int, shared: int) -> None:
    with pytest.raises(ValueError, match=f"heads={heads}, .*shared_heads={shared}$"):
        Size(width=16, blocks=1, heads=heads, shared_heads=shared, hidden=8, rate=1e-3)
