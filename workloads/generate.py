"""What follows on a prompt, by the language model of `transformer`: the prompt in one go, then token by token.

Serving a model has two phases that differ in what bounds them (R. Pope et al., "Efficiently Scaling Transformer
Inference", 2022). `prefill` reads all prompts at once, as training does, and is bound by arithmetic: its time is that
to the first token. `decode` reads all weights and the whole key-value cache for one token of each sequence, and is
bound by memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from accelbench.profiling.benchmark import Task, Values, axis, benchmark
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Resource
from accelbench.workloads.language.generation import SHARPNESS, Generation
from accelbench.workloads.language.sizes import SIZES, VOCABULARY, Size
from accelbench.workloads.training.declare import BACKENDS

DEVIATIONS = 6.0
"""The standard deviations of a rounding error that are allowed: of millions of scores the worst is at 5 or 6."""
ROUNDINGS = 12
"""The numbers that follow on each other in a block and are each rounded to the precision: norms, products, shares."""
UNITS = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""The unit roundoff u of each precision: half the distance from 1 to the next number."""
ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2}
POISON = 1e4
"""What the cache is full of before the answer is checked: it can be told from any key, and float16 holds it."""
PHASES: Mapping[str, Resource] = {"prefill": "arithmetic", "decode": "memory"}
"""What bounds each phase."""
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
    figure="items",
    bound=lambda point: PHASES[point["phase"]],
    dtype=axis("precision"),
    backends=BACKENDS,
    time_limit_s=1800.0,
)
def generate(point: Point) -> Task:
    """Generate text with a key-value cache: tokens read per second (prefill), and tokens written per second (decode).

    The model is `transformer`'s with random weights. A prefill takes the time to the first token; a decoding writes
    `new` tokens behind the `context`, the likeliest each time.
    """
    from accelbench.workloads.training.keras_model import use_backend

    size, precision = SIZES[point["size"]], point["precision"]
    of = Generation(size, point["batch"], point["context"], point["new"], ITEMSIZE[precision])
    use_backend(point)
    require_room(point, of)

    from keras import ops

    from accelbench.workloads.language.cached import Generator, spread_weights
    from accelbench.workloads.language.decoder import decoder

    model = decoder(size, of.length)
    spread_weights(model)
    generator = Generator(model, of)
    rng = point.rng()

    def draw() -> Any:
        return rng.integers(0, VOCABULARY, (of.batch, of.context)).astype("int32")

    def verify() -> Verification:
        return verify_generated(model, generator, draw(), precision)

    prompt = ops.convert_to_tensor(draw())
    first = generator.prefill(prompt, generator.cache())
    token, cache = first.tokens, first.cache

    def run() -> None:
        nonlocal cache
        found = generator.prefill(prompt, cache) if point["phase"] == "prefill" else generator.decode(token, cache)
        cache = found.cache
        ops.convert_to_numpy(found.tokens)  # waits for the device

    def metrics(seconds: float) -> dict[str, Metric]:
        time = {"prefill": ("time_to_first_token", seconds), "decode": ("time_per_token", seconds / of.new)}
        name, value = time[point["phase"]]
        cached, weights = (Metric(count / 2**20, "MiB") for count in (of.cache_bytes, of.weight_bytes))
        return {name: Metric(value, "s"), "cache": cached, "weights": weights}

    work = of.prefill if point["phase"] == "prefill" else of.decode
    return Task(run=run, verify=verify, work=work, timer="host", metrics=metrics)


def require_room(point: Point, of: Generation) -> None:
    """Skip the point if generating takes more than half of the host's memory, or more than the GPU has left."""
    from accelbench.profiling.machine.devices import gpu_backend
    from accelbench.profiling.machine.free_memory import SHARE, require_memory

    if point.device == "cpu":
        require_memory(of.bytes)
    else:
        require_memory(of.bytes * SHARE, gpu_backend().free_memory())


def verify_generated(model: Any, generator: Any, prompt: Any, precision: str) -> Verification:
    """Generate behind prompts (batch, context), and check every score against the model without a cache.

    That is given the prompts and the tokens behind them. As another token is rightly chosen where two score nearly the
    same, the model's score of each token that was chosen must be near its highest.
    """
    import numpy as np
    from keras import ops

    from accelbench.profiling.timing.verification import verify_close

    first = generator.prefill(ops.convert_to_tensor(prompt), generator.cache(POISON))
    parts = first, generator.decode(first.tokens, first.cache)
    tokens, scores = (np.concatenate([ops.convert_to_numpy(part[of]) for part in parts], axis=1) for of in (0, 1))
    whole = np.concatenate([prompt, tokens[:, :-1]], axis=1)
    expected = model.predict(whole, batch_size=1, verbose=0)[:, prompt.shape[1] - 1 :]
    chosen = np.take_along_axis(expected, tokens[:, :, None], axis=-1)
    found = np.concatenate([scores, chosen], axis=-1)
    spread = float(expected.std())
    return verify_close(
        found,
        np.concatenate([expected, expected.max(axis=-1, keepdims=True)], axis=-1),
        tolerance(generator.of.size, precision),
        f"every score, and last that of the token chosen beside the highest, over their deviation of {spread:.3g}, "
        "by the model without a cache",
        scale=np.full(found.shape, spread),
    )


def tolerance(size: Size, precision: str) -> float:
    """Return the largest error of a score that rounding explains, over the deviation of all scores.

    A block's contribution errs by u/√3 for each of its `ROUNDINGS`. Where products are added up in float32 itself, a
    sum of n terms of random sign errs by u·√n, too (each addition by u of the sum so far, at most); half precision adds
    up in float32. The stream is the sum of all blocks' contributions, so that block l's counts for 1/l of the squares,
    and each addition to it rounds once more. Attention turns an error of its scores, whose deviation is `SHARPNESS`,
    into one of its shares. The squares add up, and both models err. Measured on CPUs: at most half of it.
    """
    sums = 6 * size.width + size.hidden if precision == "float32" else 0.0
    shares = sum(1 / number for number in range(1, size.blocks + 1))
    squares = (ROUNDINGS / 3 + sums) * shares + size.blocks / 3
    return DEVIATIONS * UNITS[precision] * math.sqrt(2 * (1 + SHARPNESS**2) * squares)
