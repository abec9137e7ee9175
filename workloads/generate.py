"""Text generation with the `transformer` model: prefill and decode.

The two phases of inference have different limits (R. Pope et al., "Efficiently Scaling Transformer Inference", 2022).
`prefill` reads all prompts at once, as training does, and is compute-bound: its duration is the time to first token.
`decode` reads all weights and the whole key-value cache for one token of each sequence, and is memory-bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from accelbench.profiling.benchmark import Task, Values, axis, benchmark
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Resource
from accelbench.workloads.language.generation import SHARPNESS, Generation
from accelbench.workloads.language.sizes import SIZES, VOCABULARY, Size
from accelbench.workloads.training.declare import BACKENDS

DEVIATIONS = 6.0
"""Tolerance in standard deviations of the rounding error: the maximum of millions of scores is at 5 to 6."""
ROUNDINGS = 12
"""Number of successive roundings to the compute precision in a block: normalisations, products, attention weights."""
UNITS = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Unit roundoff u of each precision: half the distance from 1 to the next larger number."""
ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2}
POISON = 1e4
"""Initial value of the cache during verification: larger than any key, and representable in float16."""
PHASES: Mapping[str, Resource] = {"prefill": "arithmetic", "decode": "memory"}
"""Resource that bounds each phase."""
AXES: Mapping[str, Values | Mapping[str, Values]] = {
    "phase": tuple(PHASES),
    "size": {"cpu": ("tiny",), "gpu": ("125m",)},
    "batch": (1, 8),
    "context": {"cpu": (64, 512), "gpu": (512, 2048)},
    "new": {"cpu": (32,), "gpu": (128,)},
    "precision": {"cpu": ("float32",), "gpu": ("bfloat16",)},
}


@benchmark(
    "generate",
    devices=("cpu", "gpu"),
    axes=AXES,
    choices={"size": tuple(SIZES), "precision": tuple(UNITS)},
    limits={"context": (1, 1 << 17), "new": (1, 1 << 17)},
    metric="items",
    bound=lambda point: PHASES[point["phase"]],
    dtype=axis("precision"),
    backends=BACKENDS,
    time_limit_s=1800.0,
)
def generate(point: Point) -> Task:
    """Generate text with a key-value cache: tokens per second of reading a prompt (prefill) or of generating (decode).

    The model is that of `transformer`, with random weights. `prefill` measures the time to first token; `decode`
    generates `new` tokens after `context` tokens, by greedy decoding.
    """
    from accelbench.workloads.training.keras_model import use_backend

    size, precision = SIZES[point["size"]], point["precision"]
    generation = Generation(size, point["batch"], point["context"], point["new"], ITEMSIZE[precision])
    use_backend(point)
    require_room(point, generation)

    from keras import ops

    from accelbench.workloads.language.cached import Generator, spread_weights, without_cache
    from accelbench.workloads.language.decoder import decoder

    model = decoder(size, generation.length)
    spread_weights(model)
    generator, reference = Generator(model, generation), without_cache(model)
    rng = point.rng()

    def draw() -> Any:
        return rng.integers(0, VOCABULARY, (generation.batch, generation.context)).astype("int32")

    def verify() -> Verification:
        return verify_generated(reference, generator, draw(), precision)

    prompt = ops.convert_to_tensor(draw())
    first = generator.prefill(prompt, generator.cache())
    token, cache = first.tokens, first.cache

    def run() -> None:
        nonlocal cache
        found = generator.prefill(prompt, cache) if point["phase"] == "prefill" else generator.decode(token, cache)
        cache = found.cache
        ops.convert_to_numpy(found.tokens)  # waits for the device

    def metrics(seconds: float) -> dict[str, Metric]:
        time = {"prefill": ("time_to_first_token", seconds), "decode": ("time_per_token", seconds / generation.new)}
        name, value = time[point["phase"]]
        cached, weights = (Metric(count / 2**20, "MiB") for count in (generation.cache_bytes, generation.weight_bytes))
        return {name: Metric(value, "s"), "cache": cached, "weights": weights}

    work = generation.prefill if point["phase"] == "prefill" else generation.decode
    return Task(run=run, verify=verify, work=work, timer="host", metrics=metrics)


def require_room(point: Point, generation: Generation) -> None:
    """Skip the point if generation needs more than half of the host's memory, or more than the free GPU memory."""
    from accelbench.profiling.devices import gpu_backend
    from accelbench.profiling.machine.free_memory import SHARE, require_memory

    if point.device == "cpu":
        require_memory(generation.bytes)
    else:
        require_memory(generation.bytes * SHARE, gpu_backend().free_memory())


def verify_generated(reference: Callable[[Any], Any], generator: Any, prompt: Any, precision: str) -> Verification:
    """Generate from prompts (batch, context), and compare all scores with `reference`, the model without a cache.

    The reference receives the prompts and the generated tokens, one sequence at a time. Rounding may swap two tokens of
    nearly equal score, so a chosen token passes if its score is close to the highest one.
    """
    import numpy as np
    from keras import ops

    from accelbench.profiling.timing.verification import verify_close

    first = generator.prefill(ops.convert_to_tensor(prompt), generator.cache(POISON))
    parts = first, generator.decode(first.tokens, first.cache)
    tokens, scores = (np.concatenate([ops.convert_to_numpy(part[index]) for part in parts], axis=1) for index in (0, 1))
    whole = np.concatenate([prompt, tokens[:, :-1]], axis=1)
    sequences = np.split(whole, len(whole))
    scored = [ops.convert_to_numpy(reference(ops.convert_to_tensor(sequence))) for sequence in sequences]
    expected = np.concatenate(scored)[:, prompt.shape[1] - 1 :]
    chosen = np.take_along_axis(expected, tokens[:, :, None], axis=-1)
    found = np.concatenate([scores, chosen], axis=-1)
    spread = float(expected.std())
    return verify_close(
        found,
        np.concatenate([expected, expected.max(axis=-1, keepdims=True)], axis=-1),
        tolerance(generator.generation.size, precision),
        "all scores, and the chosen token's score against the highest, relative to their standard deviation of "
        f"{spread:.3g}; reference: the model without a cache",
        scale=np.full(found.shape, spread),
    )


def tolerance(size: Size, precision: str) -> float:
    """Return the maximum error of a score that rounding explains, relative to the standard deviation of all scores.

    Each of the `ROUNDINGS` adds an error of u/√3 to a block's contribution. Sums of products accumulated in float32 add
    u·√n for n terms of random sign (each addition errs by at most u times the partial sum); half-precision products
    also accumulate in float32. The residual stream is the sum of all blocks' contributions, so block l contributes 1/l
    of the squares, and each addition to the stream rounds once more. Attention converts an error of its scores, of
    standard deviation `SHARPNESS`, into an error of its weights. The squares add up, for each of the two models.
    Measured on CPUs: at most half of this tolerance.
    """
    sums = 6 * size.width + size.hidden if precision == "float32" else 0.0
    shares = sum(1 / number for number in range(1, size.blocks + 1))
    squares = (ROUNDINGS / 3 + sums) * shares + size.blocks / 3
    return DEVIATIONS * UNITS[precision] * math.sqrt(2 * (1 + SHARPNESS**2) * squares)
