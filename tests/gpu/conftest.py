from __future__ import annotations

import importlib

import pytest

from profiling.cuda import compute_capability


@pytest.fixture(autouse=True)
def device() -> tuple[int, int]:
    """The device's compute capability. Whoever asks for GPU tests has one: a missing library or device fails them."""
    for module in ("cupy", "numba.cuda", "cuda.bench"):
        importlib.import_module(module)
    return compute_capability()
