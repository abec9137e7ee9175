"""Text generation with the decoder and a key-value cache: prefill, then token by token, on any backend.

The blocks and weights of the trained model are used (`DecoderBlock.cached`). The cache has its full length from the
start, so all shapes are static and each phase is one compiled program. Tokens are chosen on the device: the host waits
only for the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import keras
from keras import ops

from accelbench.workloads.language.decoder import Pair, rotations
from accelbench.workloads.language.generation import SHARPNESS, Generation
from accelbench.workloads.language.sizes import VOCABULARY

Cache = list[Pair]
"""Keys and values of each block, (batch, shared heads, length, head)."""


class GenerationStep(NamedTuple):
    """Result of a phase: the most likely tokens, their scores, and the updated cache."""

    tokens: Any
    """Tokens (batch, new); after prefill the first new token, (batch, 1)."""
    scores: Any
    """Scores from which the tokens were chosen, (batch, new or 1, vocabulary)."""
    cache: Cache


Phase = Callable[[Any, Cache], GenerationStep]
"""Function of tokens and the cache of the preceding ones."""


class Generator:
    """Prefill and decode with the weights of a decoder, each compiled for its framework.

    Both phases invalidate the cache passed to them: JAX and PyTorch update it in place.
    """

    def __init__(self, model: Any, generation: Generation) -> None:
        """Use the layers of `model`, a `decoder`, and their weights."""
        self.generation = generation
        self.embedding, self.norm, self.scores = (model.get_layer(name) for name in ("embedding", "norm", "scores"))
        self.blocks = [model.get_layer(f"block_{number}") for number in range(generation.size.blocks)]
        self.rotations = [ops.convert_to_tensor(each) for each in rotations(generation.length, generation.size.head)]
        self.prefill = compiled(model, self._prefill)
        self.decode = compiled(model, self._decode)

    def cache(self, value: float = 0.0) -> Cache:
        """Return a cache filled with `value`."""
        shape, dtype = self.generation.cache_shape, self.blocks[0].compute_dtype
        return [(ops.full(shape, value, dtype), ops.full(shape, value, dtype)) for _ in self.blocks]

    def _prefill(self, prompt: Any, cache: Cache) -> GenerationStep:
        """Return the first token after prompts (batch, context)."""
        scores, cache = self._read(prompt, cache, 0, self.generation.context)
        return GenerationStep(most_likely(scores)[:, None], scores[:, None], cache)

    def _decode(self, token: Any, cache: Cache) -> GenerationStep:
        """Return the `new` tokens after the context and `token` (batch, 1)."""
        generation = self.generation

        def step(number: Any, state: tuple[Any, Any, Any, Cache]) -> tuple[Any, Any, Any, Cache]:
            token, tokens, scores, cache = state
            found, cache = self._read(token[:, None], cache, generation.context + number, generation.length)
            token = most_likely(found)
            here = ops.arange(generation.new) == number
            tokens = ops.where(here, token[:, None], tokens)
            return token, tokens, ops.where(here[:, None], found[:, None], scores), cache

        nothing = (
            ops.zeros((generation.batch, generation.new), "int32"),
            ops.zeros((generation.batch, generation.new, VOCABULARY), "float32"),
        )
        _, tokens, scores, cache = ops.fori_loop(0, generation.new, step, (token[:, 0], *nothing, cache))
        return GenerationStep(tokens, scores, cache)

    def _read(self, tokens: Any, cache: Cache, begin: Any, length: int) -> tuple[Any, Cache]:
        """Return the scores (batch, vocabulary) of the token after `tokens`, the first of which has index `begin`.

        Attention reads the first `length` entries of the cache.
        """
        positions = begin + ops.arange(tokens.shape[1])
        rotation = ops.take(self.rotations[0], positions, axis=0), ops.take(self.rotations[1], positions, axis=0)
        mask = ops.arange(length)[None, :] <= positions[:, None]
        x, new = self.embedding(tokens), list[Pair]()

        def keep(kept: Pair, key: Any, value: Any) -> Pair:
            keys, values = update_cache(kept[0], key, begin), update_cache(kept[1], value, begin)
            new.append((keys, values))
            return keys[:, :, :length], values[:, :, :length]

        for block, kept in zip(self.blocks, cache, strict=True):
            x = block.cached(x, rotation, mask, partial(keep, kept))
        return self.scores(self.norm(x[:, -1:]))[:, 0], new


def most_likely(scores: Any) -> Any:
    return ops.cast(ops.argmax(scores, axis=-1), "int32")


def compiled(model: Any, phase: Phase) -> Phase:
    """Compile the phase for its framework: XLA on TensorFlow and JAX, inference mode on PyTorch.

    Keras does not use XLA on CPUs, where a loop of many small operations takes TensorFlow ten times as long without it.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        by_xla: Phase = tf.function(phase, jit_compile=True)
        return by_xla
    if backend == "torch":
        import torch

        without_gradients: Phase = torch.inference_mode()(phase)
        return without_gradients
    import jax

    def pure(weights: list[Any], tokens: Any, cache: Cache) -> GenerationStep:
        # Weights are arguments: XLA would copy and fold constants.
        with keras.StatelessScope(state_mapping=list(zip(model.variables, weights, strict=True))):
            return phase(tokens, cache)

    run = jax.jit(pure, donate_argnums=2)
    return lambda tokens, cache: run([variable.value for variable in model.variables], tokens, cache)


def without_cache(model: Any) -> Callable[[Any], Any]:
    """Compile the model without a cache as a phase is compiled: a function from tokens (batch, length) to all scores.

    Without XLA, TensorFlow sums half-precision attention in half precision on CPUs without such instructions.
    """

    def score(tokens: Any, cache: Cache) -> GenerationStep:
        return GenerationStep(tokens, model(tokens), cache)

    run = compiled(model, score)
    return lambda tokens: run(tokens, []).scores


def update_cache(cache: Any, new: Any, begin: Any) -> Any:
    """Write new keys or values into the cache from token `begin` on; the old cache becomes invalid."""
    if keras.backend.backend() == "torch":
        cache[:, :, begin : begin + new.shape[2]] = new  # Keras's operation copies the whole cache
        return cache
    return ops.slice_update(cache, (0, 0, begin, 0), new)


def spread_weights(model: Any) -> None:
    """Scale the random weights so that the scores depend on every part of the model, with a standard deviation near 1.

    Each matrix preserves the scale of its input. With the small initial weights of a training run all scores would be
    nearly equal, and errors would not show.
    """
    for variable in model.trainable_variables:
        if len(variable.shape) == 2:
            inputs = variable.shape[1 if "embedding" in variable.path else 0]
            deviation = float(ops.convert_to_numpy(ops.std(ops.cast(variable, "float32"))))
            sharper = SHARPNESS if variable.path.endswith("query/kernel") else 1.0
            variable.assign(ops.cast(variable, "float32") * (sharper / (deviation * inputs**0.5)))
