"""Size of a batch: examples and bytes, without knowledge of its type."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_DEPTH = 4


def first_array(batch: Any, depth: int = 0) -> tuple[tuple[Any, ...], int]:
    """Return the keys that lead to the batch's first array with examples, and its first dimension; 0 without one."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return (), examples_of(shape)
    if depth < MAX_DEPTH:
        for key, part in _parts(batch):
            keys, examples = first_array(part, depth + 1)
            if examples:
                return (key, *keys), examples
    return (), 0


def examples_of(shape: Any) -> int:
    """Return the first dimension of a shape; 0 if there is none or if it is unknown."""
    try:
        return int(shape[0] or 0)
    except (IndexError, TypeError, ValueError):
        return 0


def bytes_of(batch: Any, depth: int = 0) -> int:
    """Return the size of the batch's arrays in bytes."""
    size = getattr(batch, "nbytes", None)
    if isinstance(size, int):
        return size
    item_bytes = getattr(getattr(batch, "dtype", None), "size", None)
    if isinstance(item_bytes, int):  # TensorFlow
        return int(batch.shape.num_elements() or 0) * item_bytes
    return sum(bytes_of(part, depth + 1) for _, part in _parts(batch)) if depth < MAX_DEPTH else 0


def _parts(batch: Any) -> list[tuple[Any, Any]]:
    """Return the keys and values of a sequence or mapping; none of other objects."""
    if isinstance(batch, (list, tuple)):
        return list(enumerate(batch))
    items = getattr(batch, "items", None)
    return list(items()) if callable(items) else []
