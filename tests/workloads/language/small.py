"""A small decoder with fixed weights, on the backend in KERAS_BACKEND; also a program that prints its results.

`python -m tests.workloads.language.small` prints, as JSON, the token scores, the loss and the first gradient with and
without recomputation, and the ratio of the framework's operation count to the model's.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.workloads.language.sizes import VOCABULARY, Size

SIZE = Size(width=16, blocks=2, heads=4, shared_heads=2, hidden=24, rate=1e-3)
SEQUENCE, BATCH = 12, 3
TOKENS = np.random.default_rng(3).integers(0, VOCABULARY, (BATCH, SEQUENCE + 1)).astype(np.int32)


def weights() -> dict[str, NDArray[np.float32]]:
    """Return a value for each weight by path, large enough that every part of the model affects the scores."""
    draw = np.random.default_rng(4)
    shapes: dict[str, tuple[int, ...]] = {"embedding/embeddings": (VOCABULARY, SIZE.width), "norm/scale": (SIZE.width,)}
    for block in range(SIZE.blocks):
        shared = SIZE.shared_heads * SIZE.head
        kernels = {
            "query": (SIZE.width, SIZE.width),
            "key": (SIZE.width, shared),
            "value": (SIZE.width, shared),
            "out": (SIZE.width, SIZE.width),
            "gate": (SIZE.width, SIZE.hidden),
            "up": (SIZE.width, SIZE.hidden),
            "down": (SIZE.hidden, SIZE.width),
        }
        shapes |= {f"block_{block}/{name}/kernel": shape for name, shape in kernels.items()}
        shapes |= {f"block_{block}/{norm}/scale": (SIZE.width,) for norm in ("norm_attention", "norm_network")}
    return {path: draw.normal(len(shape) == 1, 0.4, shape).astype(np.float32) for path, shape in shapes.items()}


def build(**options: Any) -> Any:
    """Return the model with those weights."""
    from accelbench.workloads.language.decoder import decoder

    model, given = decoder(SIZE, SEQUENCE, **options), weights()
    assert {variable.path for variable in model.weights} == set(given)
    for variable in model.weights:
        variable.assign(given[variable.path])
    return model


def step(model: Any) -> tuple[float, list[float]]:
    """Return the loss of one batch, and the first query matrix after a step of plain gradient descent."""
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # JAX takes longer without compilation.
    model.compile(keras.optimizers.SGD(1.0), loss, jit_compile=keras.backend.backend() == "jax")
    found = model.train_on_batch(TOKENS[:, :-1], TOKENS[:, 1:])
    after = keras.ops.convert_to_numpy(model.get_layer("block_0").query.kernel)
    return float(np.ravel(found)[0]), after.ravel().tolist()


def main() -> None:
    from accelbench.profiling.measure.flop_counts.framework import framework_flops
    from accelbench.profiling.measure.flop_counts.layers import model_flops

    model = build()
    found = {
        "scores": np.asarray(model.predict(TOKENS[:, :-1], verbose=0)).tolist(),
        "flops": framework_flops(model) / model_flops(model, 1).training,
        "step": step(model),
        "recomputed": step(build(recomputed=True)),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
