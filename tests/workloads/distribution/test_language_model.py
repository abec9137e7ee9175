"""The language model trains in several processes, replicated or sharded, as in one."""

from __future__ import annotations

from functools import cache

import pytest

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.ranks.world import World, join
from accelbench.profiling.records.point import Point
from accelbench.workloads.distribution.find import strategy_of
from accelbench.workloads.language.sizes import SIZES
from tests.workloads.distribution.engine_rank import FEW_BLOCKS
from tests.workloads.distribution.engines import TOLERANCE, Found, train

NORMS = (2 * FEW_BLOCKS.blocks + 1) * FEW_BLOCKS.width
"""Scales of the norms, which ModelParallel replicates."""
BYTES = 4 * FEW_BLOCKS.parameters

pytestmark = pytest.mark.slow


@cache
def alone(backend: str) -> Found:
    (found,) = train("language", backend, 1)
    return found


def assert_the_same(found: Found, backend: str) -> None:
    """Check losses, weights and quality, all of which a wrongly clipped gradient changes."""
    for part in ("loss", "weights", "predicted"):
        seen, expected = ((one["history"] if part == "loss" else one)[part] for one in (found, alone(backend)))
        if part == "predicted":
            seen = {name: seen[name] for name in expected}
        assert seen == pytest.approx(expected, rel=TOLERANCE), part


@pytest.mark.parametrize(
    ("backend", "strategy"),
    [
        # Covered elsewhere: two processes with another model, and this model on two devices and in two processes.
        pytest.param("tensorflow", "multiworker", marks=pytest.mark.exhaustive),
        pytest.param("jax", "data-parallel", marks=pytest.mark.exhaustive),
        pytest.param("torch", "ddp", marks=pytest.mark.needs("torch")),
    ],
)
def test_two_processes_train_as_one(backend: str, strategy: str) -> None:
    first, second = train("language", backend, 2)
    assert first["layout"]["strategy"] == strategy
    assert first["weights"] == second["weights"]
    assert_the_same(first, backend)


def test_two_devices_of_one_process_clip_the_summed_gradients() -> None:
    (found,) = train("language", "tensorflow", 1, devices=2)
    assert found["layout"]["strategy"] == "mirrored"
    assert_the_same(found, "tensorflow")


@pytest.mark.parametrize(
    ("backend", "strategy", "options", "held"),
    [
        ("jax", "model-parallel", {}, BYTES / 2 + 4 * NORMS / 2),
        pytest.param("torch", "fsdp", {"recompute": "on"}, BYTES / 2, marks=pytest.mark.needs("torch")),
    ],
)
def test_two_processes_store_half_of_the_parameters_each_and_train_as_one(
    backend: str, strategy: str, options: dict[str, str], held: float
) -> None:
    ranks = train("language", backend, 2, strategy=strategy, **options)
    assert ranks[0]["weights"] == ranks[1]["weights"]
    for rank in ranks:
        assert rank["layout"]["strategy"] == strategy
        assert rank["predicted"]["held_parameters"] == held
        # Adam's two moments of each parameter, and a few scalars.
        assert 2 * held <= rank["optimizer_bytes"] < 2 * held + 64
        assert_the_same(rank, backend)


def test_an_indivisible_number_of_heads_is_skipped() -> None:
    from accelbench.workloads.language.decoder import sharding

    sharding(SIZES["tiny"]).require(2)
    with pytest.raises(Skip, match=r"^4 heads .*\b3 devices"):
        sharding(SIZES["tiny"]).require(3)


@pytest.mark.parametrize(
    ("backend", "params", "reason"),
    [
        ("torch", {"strategy": "fsdp", "batch": 9}, r"batch=9\b.*\b2 replicas"),
        ("jax", {"strategy": "fsdp"}, "strategy=fsdp only with backend=torch"),
        ("torch", {"strategy": "fsdp", "precision": "mixed_float16"}, "precision=float32,mixed_bfloat16"),
        ("torch", {"strategy": "model-parallel"}, "strategy=model-parallel only with backend=jax"),
    ],
)
def test_unsupported_sharding_is_skipped_with_the_reason(
    backend: str, params: dict[str, str | int], reason: str
) -> None:
    join(World(rank=0, size=2))
    try:
        with pytest.raises(Skip, match=reason):
            assert strategy_of(Point("transformer", "cpu", {"batch": 8} | params, backend)).batch
    finally:
        join(World())
