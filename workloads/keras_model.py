"""What every Keras workload needs before its model: the backend asked for, the seeds, and quiet logs."""

from __future__ import annotations

import os
from importlib.util import find_spec

from profiling.benchmark import Point, Skip

INSTALL = {"tensorflow": "the set cpu, gpu or tpu", "jax": "the extra jax", "torch": "the extra torch"}


def use_backend(point: Point) -> None:
    """Make Keras run on the point's backend with its seed; Skip if that framework is not installed.

    Keras reads its backend once, when it is imported: one process serves one backend.
    """
    backend = str(point.backend)
    if find_spec(backend) is None:
        raise Skip(f"{backend} is not installed: install {INSTALL[backend]}, or choose another --backend")
    os.environ["KERAS_BACKEND"] = backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import keras

    if keras.backend.backend() != backend:
        raise RuntimeError(f"this process already runs Keras on {keras.backend.backend()}")
    keras.utils.set_random_seed(point.seed)
