"""Generating text with the decoder and a key-value cache: the prompt in one go, then token by token, on any backend.

The blocks, and so the weights, are those of the model that is trained: `Block.cached`. The cache has its whole length
from the beginning, so that every step has the same shapes and is compiled once. The next token is the likeliest, and is
chosen on the device: nothing waits for it before the last.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import keras
from keras import ops

from accelbench.workloads.language.decoder import Pair, turns
from accelbench.workloads.language.generation import SHARPNESS, Generation
from accelbench.workloads.language.sizes import VOCABULARY

Cache = list[Pair]
"""The keys and values of each block, (batch, shared heads, length, head)."""


class GenerationStep(NamedTuple):
    """What a phase gives: the likeliest tokens, their scores, and the cache with all tokens that were read."""

    tokens: Any
    """The tokens, (batch, new); of a prompt the one behind it, (batch, 1)."""
    scores: Any
    """The scores by which they were chosen, (batch, new or 1, vocabulary)."""
    cache: Cache


Phase = Callable[[Any, Cache], GenerationStep]
"""A function of tokens and the cache of those before."""


class Generator:
    """The phases of generating with the weights of a decoder, each compiled as its framework does.

    Both give up the cache that they are given: JAX and PyTorch write into it.
    """

    def __init__(self, model: Any, of: Generation) -> None:
        """Take the layers of a `decoder`, and with them its weights."""
        self.of = of
        self.embedding, self.norm, self.scores = (model.get_layer(name) for name in ("embedding", "norm", "scores"))
        self.blocks = [model.get_layer(f"block_{number}") for number in range(of.size.blocks)]
        self.turns = [ops.convert_to_tensor(each) for each in turns(of.length, of.size.head)]
        self.prefill = compiled(model, self._prefill)
        self.decode = compiled(model, self._decode)

    def cache(self, value: float = 0.0) -> Cache:
        """Return a cache full of that value."""
        shape, dtype = self.of.cache_shape, self.blocks[0].compute_dtype
        return [(ops.full(shape, value, dtype), ops.full(shape, value, dtype)) for _ in self.blocks]

    def _prefill(self, prompt: Any, cache: Cache) -> GenerationStep:
        """Return what follows on prompts (batch, context)."""
        scores, cache = self._read(prompt, cache, 0, self.of.context)
        return GenerationStep(likeliest(scores)[:, None], scores[:, None], cache)

    def _decode(self, token: Any, cache: Cache) -> GenerationStep:
        """Return what follows on the token (batch, 1) behind the context, so many tokens as are to be new."""
        of = self.of

        def step(number: Any, state: tuple[Any, Any, Any, Cache]) -> tuple[Any, Any, Any, Cache]:
            token, tokens, scores, cache = state
            found, cache = self._read(token[:, None], cache, of.context + number, of.length)
            token = likeliest(found)
            here = ops.arange(of.new) == number
            tokens = ops.where(here, token[:, None], tokens)
            return token, tokens, ops.where(here[:, None], found[:, None], scores), cache

        nothing = ops.zeros((of.batch, of.new), "int32"), ops.zeros((of.batch, of.new, VOCABULARY), "float32")
        _, tokens, scores, cache = ops.fori_loop(0, of.new, step, (token[:, 0], *nothing, cache))
        return GenerationStep(tokens, scores, cache)

    def _read(self, tokens: Any, cache: Cache, begin: Any, length: int) -> tuple[Any, Cache]:
        """Return the scores (batch, vocabulary) of what follows on the last of the tokens from `begin` on.

        `length` is that of the part of the cache which may be seen.
        """
        positions = begin + ops.arange(tokens.shape[1])
        by = ops.take(self.turns[0], positions, axis=0), ops.take(self.turns[1], positions, axis=0)
        seen = ops.arange(length)[None, :] <= positions[:, None]
        x, new = self.embedding(tokens), list[Pair]()

        def keep(kept: Pair, key: Any, value: Any) -> Pair:
            keys, values = written(kept[0], key, begin), written(kept[1], value, begin)
            new.append((keys, values))
            return keys[:, :, :length], values[:, :, :length]

        for block, kept in zip(self.blocks, cache, strict=True):
            x = block.cached(x, by, seen, partial(keep, kept))
        return self.scores(self.norm(x[:, -1:]))[:, 0], new


def likeliest(scores: Any) -> Any:
    return ops.cast(ops.argmax(scores, axis=-1), "int32")


def compiled(model: Any, phase: Phase) -> Phase:
    """Return the phase as the framework runs it fast: by XLA on TensorFlow and JAX, without gradients on PyTorch.

    A loop of many small operations takes TensorFlow ten times as long without XLA, which Keras leaves out on CPUs.
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
        # As arguments the weights stay what they are; as constants XLA would copy and fold them.
        with keras.StatelessScope(state_mapping=list(zip(model.variables, weights, strict=True))):
            return phase(tokens, cache)

    run = jax.jit(pure, donate_argnums=2)
    return lambda tokens, cache: run([variable.value for variable in model.variables], tokens, cache)


def written(cache: Any, new: Any, begin: Any) -> Any:
    """Return the cache with new keys or values in it from token `begin` on; the old one is given up."""
    if keras.backend.backend() == "torch":
        cache[:, :, begin : begin + new.shape[2]] = new  # Keras's own copies the whole cache
        return cache
    return ops.slice_update(cache, (0, 0, begin, 0), new)


def spread_weights(model: Any) -> None:
    """Scale the random weights so that every part of the model shows in the scores, whose deviation is then about 1.

    Each matrix keeps the size of what it is multiplied with; with the small weights that a training begins from, all
    scores would be nearly alike, and so would right and wrong ones.
    """
    for variable in model.trainable_variables:
        if len(variable.shape) == 2:
            inputs = variable.shape[1 if "embedding" in variable.path else 0]
            deviation = float(ops.convert_to_numpy(ops.std(ops.cast(variable, "float32"))))
            sharper = SHARPNESS if variable.path.endswith("query/kernel") else 1.0
            variable.assign(ops.cast(variable, "float32") * (sharper / (deviation * inputs**0.5)))
