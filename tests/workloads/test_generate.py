"""Generation with a cache agrees with the model without one; faults in the cache fail verification."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from accelbench.profiling.benchmark import REGISTRY, Skip
from accelbench.profiling.records.point import Point, Scalar
from accelbench.workloads.generate import ITEMSIZE, require_room, tolerance, verify_generated
from accelbench.workloads.language.generation import Generation
from accelbench.workloads.language.sizes import SIZES, Size
from accelbench.workloads.training.keras_model import use_backend
from tests.conftest import Run, records
from tests.fixtures import warm
from tests.requirements import BACKENDS

SIZE = Size(width=64, blocks=2, heads=4, shared_heads=2, hidden=96, rate=1e-3)
DEFAULTS: dict[str, Scalar] = {"phase": "decode", "size": "tiny", "batch": 2, "context": 16, "new": 6}


def point(precision: str = "float32", backend: str = "tensorflow", **params: Scalar) -> Point:
    return Point("generate", "cpu", {**DEFAULTS, "precision": precision, **params}, backend, seed=5)


GENERATE = """
import json, os, sys
from dataclasses import replace
from accelbench.profiling.records.point import Point
from accelbench.workloads.generate import generate
from accelbench.workloads.language.sizes import SIZES
SIZES["tiny"] = replace(SIZES["tiny"], blocks=2)  # further blocks add seconds of compilation, and no coverage
found = {}
for params in json.loads(sys.argv[1]):
    task = generate(Point("generate", "cpu", params, os.environ["KERAS_BACKEND"], seed=5))
    task.run(), task.run()  # the second run starts with the cache of the first
    checked = task.verify()
    task.run()
    metrics = {metric: found.value for metric, found in task.metrics(1.0).items()}
    name = f"{params['phase']} {params['precision']}"
    found[name] = [bool(checked.passed), checked.error, checked.tolerance, metrics, task.work.items]
print(json.dumps(found))
"""
"""Program that generates at several points, one after the other, on one backend."""


@pytest.fixture(scope="module")
def generated() -> dict[str, dict[str, Any]]:
    """Return the results of every phase and precision on each installed backend, from one process each."""
    points = [dict(point(precision).params) for precision in ITEMSIZE] + [dict(point(phase="prefill", batch=3).params)]
    found: dict[str, dict[str, Any]] = warm.run_on_all(GENERATE, json.dumps(points))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_agrees_with_the_model_without_a_cache(
    generated: dict[str, dict[str, Any]], backend: str
) -> None:
    found = generated[backend]
    times = {"decode": {"time_per_token": 1 / 6}, "prefill": {"time_to_first_token": 1.0}}
    assert set(found) == {"decode float32", "decode float16", "decode bfloat16", "prefill float32"}
    for name, (passed, error, tolerated, metrics, items) in found.items():
        assert passed, (name, error, tolerated)
        assert metrics.keys() == {"cache", "weights", *times[name.split()[0]]}
        assert metrics.items() > times[name.split()[0]].items()
        assert items == {"decode": 2 * 6, "prefill": 3 * 16}[name.split()[0]]


@pytest.fixture
def policy() -> Iterator[None]:
    """Restore Keras's precision."""
    yield
    import keras

    keras.config.set_dtype_policy("float32")


def keys_a_position_late(patch: pytest.MonkeyPatch, generator: Any) -> None:
    from accelbench.workloads.language import cached

    own = cached.update_cache
    patch.setattr(cached, "update_cache", lambda cache, new, begin: own(cache, new, begin + (new.shape[2] == 1)))


def keys_of_heads_permuted(patch: pytest.MonkeyPatch, generator: Any) -> None:
    from keras import ops

    from accelbench.workloads.language import cached

    own = cached.update_cache
    patch.setattr(
        cached,
        "update_cache",
        lambda cache, new, begin: own(cache, ops.flip(new, 1) if new.shape[2] == 1 else new, begin),
    )


def turned_a_position_too_far(patch: pytest.MonkeyPatch, generator: Any) -> None:
    reading(patch, generator, rotations=lambda rotations: [np.roll(each, -1, axis=0) for each in rotations])


def a_token_of_another_sequence(patch: pytest.MonkeyPatch, generator: Any) -> None:
    """Swap one cached token of one block between the sequences of the batch."""
    from keras import ops

    here = (np.arange(generator.generation.length) == 20)[None, None, :, None]

    def stale(cache: Any) -> Any:
        first, *rest = cache
        return [tuple(ops.where(here, ops.flip(each, 0), each) for each in first), *rest]

    reading(patch, generator, cache=stale)


def a_token_too_many_seen(patch: pytest.MonkeyPatch, generator: Any) -> None:
    looking(patch, lambda mask, ops: ops.logical_or(mask, ops.roll(mask, 1, axis=-1)))


def the_own_token_not_seen(patch: pytest.MonkeyPatch, generator: Any) -> None:
    looking(patch, lambda mask, ops: ops.logical_and(mask, ops.roll(mask, -1, axis=-1)))


def the_second_likeliest_token(patch: pytest.MonkeyPatch, generator: Any) -> None:
    from keras import ops

    from accelbench.workloads.language import cached

    patch.setattr(cached, "most_likely", lambda scores: ops.cast(ops.argsort(scores, axis=-1)[:, -2], "int32"))


def looking(patch: pytest.MonkeyPatch, change: Callable[[Any, Any], Any]) -> None:
    """Change the attention mask of a decoded token."""
    from keras import ops

    from accelbench.workloads.language.decoder import DecoderBlock

    own = DecoderBlock.cached

    def cached(self: Any, x: Any, rotation: Any, mask: Any, keep: Any) -> Any:
        return own(self, x, rotation, change(mask, ops) if mask.shape[0] == 1 else mask, keep)

    patch.setattr(DecoderBlock, "cached", cached)


def reading(patch: pytest.MonkeyPatch, generator: Any, rotations: Any = None, cache: Any = None) -> None:
    """Change the rotary angles or the cache used for a decoded token."""
    own, right = generator._read, generator.rotations

    def read(tokens: Any, kept: Any, begin: Any, length: int) -> Any:
        decoding = tokens.shape[1] == 1
        generator.rotations = rotations(right) if rotations and decoding else right
        return own(tokens, cache(kept) if cache and decoding else kept, begin, length)

    patch.setattr(generator, "_read", read)


FAULTS = (
    keys_a_position_late,
    keys_of_heads_permuted,
    turned_a_position_too_far,
    a_token_of_another_sequence,
    a_token_too_many_seen,
    the_own_token_not_seen,
    the_second_likeliest_token,
)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_faulty_cache_fails_verification(precision: str, policy: None) -> None:
    use_backend(point(precision))
    from accelbench.workloads.language.cached import Generator, spread_weights, without_cache
    from accelbench.workloads.language.decoder import decoder

    generation = Generation(SIZE, batch=2, context=24, new=8, itemsize=ITEMSIZE[precision])
    model = decoder(SIZE, generation.length)
    spread_weights(model)
    prompt = np.random.default_rng(6).integers(0, 256, (generation.batch, generation.context)).astype(np.int32)
    reference = without_cache(model)
    right = verify_generated(reference, Generator(model, generation), prompt, precision)
    assert right.passed, right
    assert right.error is not None
    assert right.error < 0.5 * tolerance(SIZE, precision), "the tolerance is close to the rounding error"
    for fault in FAULTS:
        with pytest.MonkeyPatch.context() as patch:
            generator = Generator(model, generation)
            # Not compiled: compilation takes longer than the run.
            generator.prefill, generator.decode = generator._prefill, generator._decode
            fault(patch, generator)
            found = verify_generated(reference, generator, prompt, precision)
        assert found.error is not None
        assert found.error > 3 * tolerance(SIZE, precision), fault.__name__
        assert not found.passed, fault.__name__


@pytest.mark.slow
def test_a_run_records_the_time_per_token_and_the_bound(accelbench: Run, tmp_path: Any) -> None:
    small = ("--param", "phase=decode", "--param", "context=16", "--param", "new=4", "--param", "batch=2")
    done = accelbench("run", "generate", *small, "--no-ceilings", "--out", "run")
    assert done.returncode == 0, done.stderr
    (decode,) = records(tmp_path / "run")
    assert decode["verification"]["passed"]
    assert decode["metrics"]["time_per_token"]["value"] == decode["timing"]["summary"]["median"] / 4
    assert decode["bound"]["resource"] == "memory"
    assert decode["work"]["items"] == 2 * 4


def test_the_bound_depends_on_the_phase() -> None:
    prefill, decode = (REGISTRY["generate"].declared(point(phase=phase)) for phase in ("prefill", "decode"))
    assert (prefill["bound"].resource, decode["bound"].resource) == ("arithmetic", "memory")


def test_a_point_that_does_not_fit_in_memory_is_skipped_with_sizes() -> None:
    generation = Generation(SIZES["1b"], batch=4096, context=1 << 17, new=128, itemsize=4)
    with pytest.raises(Skip, match=r"[\d.]+ PiB"):
        require_room(point(), generation)
    require_room(point(), Generation(SIZES["tiny"], batch=8, context=512, new=32, itemsize=4))


@pytest.mark.parametrize("size", SIZES)
def test_the_tolerance_is_smaller_than_differences_of_scores(size: str) -> None:
    errors = {precision: tolerance(SIZES[size], precision) for precision in ITEMSIZE}
    assert errors["float32"] < 1e-3
    assert errors["float16"] < errors["bfloat16"] < 0.5


def test_every_precision_has_a_roundoff_and_a_size() -> None:
    assert set(REGISTRY["generate"].choices["precision"]) == set(ITEMSIZE)
