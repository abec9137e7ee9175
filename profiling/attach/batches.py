"""Size of a batch: examples and bytes, without knowledge of its type."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_DEPTH = 4


def examples_of(batch: Any, depth: int = 0) -> int:
    """Return the first dimension of the batch's first array; 0 without an array."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0] or 0) if len(shape) else 0
    if depth < MAX_DEPTH:
        for part in _parts(batch):
            if found := examples_of(part, depth + 1):
                return found
    return 0


def bytes_of(batch: Any, depth: int = 0) -> int:
    """Return the size of the batch's arrays in bytes."""
    size = getattr(batch, "nbytes", None)
    if isinstance(size, int):
        return size
    item_bytes = getattr(getattr(batch, "dtype", None), "size", None)
    if isinstance(item_bytes, int):  # TensorFlow
        return int(batch.shape.num_elements() or 0) * item_bytes
    return sum(bytes_of(part, depth + 1) for part in _parts(batch)) if depth < MAX_DEPTH else 0


def _parts(batch: Any) -> list[Any]:
    if isinstance(batch, (list, tuple)):
        return list(batch)
    values = getattr(batch, "values", None)
    return list(values()) if callable(values) else []
