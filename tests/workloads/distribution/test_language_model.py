"""The language model learns in several processes what it learns in one, on every framework."""

from __future__ import annotations

from functools import cache

import pytest

from tests.workloads.distribution.engines import TOLERANCE, Found, train

pytestmark = pytest.mark.slow


@cache
def alone(backend: str) -> Found:
    (found,) = train("language", backend, 1)
    return found


def assert_the_same(found: Found, backend: str) -> None:
    """Check the losses, the weights and what they predict: a gradient that is clipped by a wrong norm changes all."""
    for part in ("loss", "weights", "predicted"):
        seen, expected = ((one["history"] if part == "loss" else one)[part] for one in (found, alone(backend)))
        assert seen == pytest.approx(expected, rel=TOLERANCE), part


@pytest.mark.parametrize(
    ("backend", "strategy"), [("tensorflow", "multiworker"), ("jax", "data-parallel"), ("torch", "ddp")]
)
def test_two_processes_learn_what_one_does(backend: str, strategy: str) -> None:
    pytest.importorskip(backend)
    first, second = train("language", backend, 2)
    assert first["layout"]["strategy"] == strategy
    assert first["weights"] == second["weights"]
    assert_the_same(first, backend)


def test_two_devices_of_one_process_clip_their_gradients_together() -> None:
    pytest.importorskip("tensorflow")
    (found,) = train("language", "tensorflow", 1, devices=2)
    assert found["layout"]["strategy"] == "mirrored"
    assert_the_same(found, "tensorflow")
