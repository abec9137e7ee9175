"""Input pipeline: batches in the same order on every backend, prefetched by worker threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


WORKERS, PREFETCH = "workers", "prefetch"
"""Axes of workloads whose batches are prefetched by threads."""


class Examples(Protocol):
    """Examples produced one by one (decoded, augmented, generated), possibly from several threads."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Any:
        """Return one example (x, y), each an array or a dict or tuple of arrays; shapes are equal for all examples."""


@dataclass(frozen=True)
class Feed:
    """Batches for `model.fit(feed.data, steps_per_epoch=feed.steps, epochs=…)`."""

    make: Callable[[], Any]
    steps: int
    """Full batches per epoch; a partial last batch is dropped, so that all batches have one shape."""

    @property
    def data(self) -> Any:
        """Batches of all epochs from the start: a `tf.data.Dataset` on TensorFlow, else a generator.

        Within `batches_from_memory` it is endless.
        """
        kept = _kept.get()
        return kept.repeated(self) if kept else self.make()


class _Kept:
    """First batches of each feed in memory."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._of: dict[Feed, Any] = {}

    def repeated(self, feed: Feed) -> Any:
        """Return an endless repetition of the feed's first batches."""
        if feed not in self._of:
            made = feed.make()
            if isinstance(made, Iterator):
                self._of[feed] = list(islice(made, self._count))
                getattr(made, "close", lambda: None)()  # ends the workers of a generator
            else:
                self._of[feed] = made.take(self._count).cache().repeat().prefetch(1)
        batches = self._of[feed]
        return _endless(batches) if isinstance(batches, list) else batches


def _endless(batches: list[Any]) -> Iterator[Any]:
    """Yield the batches again and again; a generator, since Keras takes no other iterator."""
    while True:
        yield from batches


_kept: ContextVar[_Kept | None] = ContextVar("_kept", default=None)


@contextmanager
def batches_from_memory(count: int) -> Iterator[None]:
    """Let every feed repeat its first `count` batches from memory in this block, so that no step waits for input."""
    token = _kept.set(_Kept(count))
    try:
        yield
    finally:
        _kept.reset(token)


def feed(
    point: Point,
    examples: Examples | tuple[Any, ...],
    *,
    batch: int,
    epochs: int,
    passes: int = 1,
    shuffle: bool = True,
    share: slice = slice(None),
) -> Feed:
    """Return the examples in batches for `epochs` epochs; Skip if they do not fill one batch.

    `examples` are arrays in memory, (x, y), or produced one by one. An epoch has `passes` passes over them, each in its
    own order, which depends only on the point's seed. This process loads only its `share` of each batch. The point's
    axes `workers` and `prefetch` set the number of threads, and of batches prefetched.
    """
    from keras import tree

    from accelbench.profiling.host.rules import count_as_input
    from accelbench.profiling.trace.frameworks import FRAMEWORKS
    from accelbench.profiling.trace.parts import INPUT_MADE

    count_as_input(__package__)
    arrays = examples if isinstance(examples, tuple) else None
    count = len(tree.flatten(arrays)[0]) if arrays is not None else len(examples)
    if batch > count:
        raise Skip(f"batch={batch:,} exceeds the {count:,} training examples")
    order = _order(count, batch, epochs * passes, point.seed, shuffle)[:, share]
    workers, prefetch = int(point.params.get(WORKERS, 1)), int(point.params.get(PREFETCH, 2))
    load = _gather(arrays) if arrays is not None else _stack(examples)
    steps = passes * (count // batch)
    if point.backend == "tensorflow":
        dataset = _tensorflow(arrays, load, order, workers, prefetch)
        return Feed(lambda: dataset, steps)
    mark = FRAMEWORKS[str(point.backend)]().mark

    def marked(indices: Any) -> Any:
        with mark(INPUT_MADE):
            return load(indices)

    return Feed(lambda: _ahead(marked, order, workers, prefetch), steps)


def _order(count: int, batch: int, passes: int, seed: int, shuffle: bool) -> NDArray[np.int64]:
    """Return the indices of the examples in every step, (passes × steps, batch)."""
    import numpy as np

    used = count // batch * batch
    orders = (
        np.random.default_rng([seed, number]).permutation(count)[:used] if shuffle else np.arange(used)
        for number in range(passes)
    )
    return np.concatenate([order.reshape(-1, batch) for order in orders])


def _gather(arrays: tuple[Any, ...]) -> Callable[[Any], Any]:
    from keras import tree

    return lambda indices: tree.map_structure(lambda array: array[indices], arrays)


def _stack(examples: Any) -> Callable[[Any], Any]:
    import numpy as np
    from keras import tree

    return lambda indices: tree.map_structure(lambda *parts: np.stack(parts), *(examples[int(i)] for i in indices))


def _ahead(load: Callable[[Any], Any], order: NDArray[np.int64], workers: int, prefetch: int) -> Iterator[Any]:
    """Yield the batches in order, each produced by a worker, with at most `prefetch` of them ready in advance."""
    with ThreadPoolExecutor(workers, "input") as pool:
        made: deque[Future[Any]] = deque()
        for indices in order:
            made.append(pool.submit(load, indices))
            if len(made) > prefetch:
                yield made.popleft().result()
        while made:
            yield made.popleft().result()


def _tensorflow(
    arrays: tuple[Any, ...] | None, load: Callable[[Any], Any], order: NDArray[np.int64], workers: int, prefetch: int
) -> Any:
    import tensorflow as tf
    from keras import tree

    steps = tf.data.Dataset.from_tensor_slices(order)
    if arrays is not None:
        with tf.device("CPU"):
            tensors = tree.map_structure(tf.convert_to_tensor, arrays)
        batches = steps.map(
            lambda indices: tree.map_structure(lambda tensor: tf.gather(tensor, indices), tensors),
            num_parallel_calls=workers,
        )
        return batches.prefetch(prefetch)
    first = load(order[0])
    types = [tf.as_dtype(part.dtype) for part in tree.flatten(first)]

    def make(indices: Any) -> Any:
        flat = tf.numpy_function(lambda chosen: tree.flatten(load(chosen)), [indices], types)
        for part, like in zip(flat, tree.flatten(first), strict=True):
            part.set_shape(like.shape)
        return tree.pack_sequence_as(first, flat)

    return steps.map(make, num_parallel_calls=workers).prefetch(prefetch)
