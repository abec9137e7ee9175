"""Memory of a script: statistics of its device's allocator, and its largest variables if it ends out of memory."""

from __future__ import annotations

import sys

from .batches import bytes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Any

MAX_DEPTH = 6
LARGEST = 5
"""Number of variables that are reported."""
NAMES = ("OutOfMemoryError", "ResourceExhaustedError", "MemoryError", "_ArrayMemoryError")
TEXTS = ("RESOURCE_EXHAUSTED", "out of memory", "can't allocate memory", "not enough memory")
"""Names of exceptions, and parts of their messages, by which Python and the frameworks report exhausted memory."""


def device_memory(framework: str | None) -> dict[str, int]:
    """Return the peak, the peak reservation and the limit of the first device in bytes, as far as they are known."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        limit = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        return {
            "peak": torch.cuda.max_memory_allocated(),
            "reserved": torch.cuda.max_memory_reserved(),
            "limit": int(limit),
        }
    if framework == "jax":
        found = sys.modules["jax"].local_devices()[0].memory_stats() or {}
        keys = {"peak": "peak_bytes_in_use", "reserved": "peak_bytes_reserved", "limit": "bytes_limit"}
        return {name: int(found[key]) for name, key in keys.items() if found.get(key)}
    if framework == "tensorflow":
        tensorflow = sys.modules["tensorflow"]
        for kind in ("GPU", "TPU"):
            if tensorflow.config.list_logical_devices(kind):
                return {"peak": int(tensorflow.config.experimental.get_memory_info(f"{kind}:0")["peak"])}
    return {}


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the exception reports that memory is exhausted."""
    return type(error).__name__ in NAMES or any(text in str(error) for text in TEXTS)


def largest_variables(traceback: TracebackType | None) -> list[tuple[str, int, int]]:
    """Return the variables with the largest arrays: name, bytes and number of arrays.

    The variables are those of the script's main module and of the functions in the traceback. An array belongs to the
    first of them. The intermediate results that a framework keeps for gradients are in no variable.
    """
    seen: set[int] = set()
    found = []
    for name, value in _variables(traceback):
        sizes = list(_sizes(value, seen))
        if sum(sizes):
            found.append((name, sum(sizes), len(sizes)))
    return sorted(found, key=lambda each: -each[1])[:LARGEST]


def _variables(traceback: TracebackType | None) -> Iterator[tuple[str, Any]]:
    yield from list(vars(sys.modules["__main__"]).items())
    while traceback is not None:
        for name, value in list(traceback.tb_frame.f_locals.items()):
            yield f"{name} in {traceback.tb_frame.f_code.co_name}", value
        traceback = traceback.tb_next


def _sizes(value: Any, seen: set[int], depth: int = 0) -> Iterator[int]:
    """Yield the sizes of the arrays in a value in bytes, each array once."""
    if id(value) in seen or depth > MAX_DEPTH or isinstance(value, (type, type(sys), str, bytes)):
        return
    seen.add(id(value))
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        yield bytes_of(value)
        if getattr(value, "is_leaf", False):  # PyTorch warns of the gradient of another tensor
            yield from _sizes(value.grad, seen, depth + 1)
    elif isinstance(value, dict):
        for part in list(value.values()):
            yield from _sizes(part, seen, depth + 1)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _sizes(part, seen, depth + 1)
    elif (attributes := getattr(value, "__dict__", None)) is not None and not callable(getattr(value, "__code__", 0)):
        yield from _sizes(attributes, seen, depth)
