"""What every Keras workload needs before its model: the backend asked for, its device, the seeds, and quiet logs."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

from profiling.benchmark import Point, Scalar, Skip, Values
from workloads.pipeline import Feed

TRAINING_AXES: dict[str, Values] = {"precision": ("float32",), "jit_compile": ("auto",)}
"""What every training experiment varies over besides its own axes."""
TRAINING_CHOICES: dict[str, tuple[Scalar, ...]] = {
    "precision": ("float32", "mixed_float16", "mixed_bfloat16"),
    "jit_compile": ("auto", "on", "off"),
}

INSTALL = {"tensorflow": "the set cpu, gpu or tpu", "jax": "the extra jax", "torch": "the extra torch"}
ONLY_CPU = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
"""Frameworks take a GPU wherever they see one, and would train there in the CPU's name."""
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
"""TensorFlow without its start-up chatter, and taking of the GPU's memory what it needs, not all there is."""


def use_backend(point: Point) -> None:
    """Make Keras run on the point's backend, device and seed; Skip if that framework is not here or lacks the device.

    Keras reads its backend once, when it is imported, and the frameworks their devices: one process serves one of each.
    """
    backend = str(point.backend)
    if find_spec(backend) is None:
        raise Skip(f"{backend} is not installed: install {INSTALL[backend]}, or choose another --backend")
    os.environ["KERAS_BACKEND"] = backend
    for variable, value in QUIET.items():
        os.environ.setdefault(variable, value)
    if point.device == "cpu":
        os.environ.update(ONLY_CPU)
    import keras

    if keras.backend.backend() != backend:
        raise RuntimeError(f"this process already runs Keras on {keras.backend.backend()}")
    found = _default_device(backend)
    if found != point.device:
        raise Skip(f"{backend} would train on the {found}: this build of it, or this process, sees no {point.device}")
    keras.utils.set_random_seed(point.seed)
    precision = str(point.params.get("precision", "float32"))
    keras.config.set_dtype_policy(precision)
    if precision == "float32":
        _require_strict_float32(backend)


def jit_compile(point: Point) -> bool | str:
    """What `model.compile` takes for the axis `jit_compile`; `auto` leaves it to Keras."""
    chosen = str(point.params.get("jit_compile", "auto"))
    return {"on": True, "off": False}.get(chosen, chosen)


def train(model: Any, batches: Feed, epochs: int, callbacks: list[Any]) -> dict[str, list[float]]:
    """Fit the compiled model for so many epochs; the history, one list of numbers per name."""
    history = model.fit(
        batches.data, steps_per_epoch=batches.steps, epochs=epochs, shuffle=False, callbacks=callbacks, verbose=0
    )
    return {name: [float(value) for value in values] for name, values in history.history.items()}


def _require_strict_float32(backend: str) -> None:
    """No TF32: on NVIDIA's cards TensorFlow and JAX multiply with 10 bits of mantissa unless they are told not to."""
    if backend == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_tensor_float_32_execution(False)
    elif backend == "jax":
        import jax

        jax.config.update("jax_default_matmul_precision", "highest")
    else:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def _default_device(backend: str) -> str:
    """Where the framework puts a model unless told otherwise: cpu, gpu or tpu."""
    if backend == "torch":
        import torch

        return "gpu" if torch.cuda.is_available() else "cpu"
    if backend == "jax":
        import jax

        return str(jax.default_backend())
    import tensorflow as tf

    # A TPU that TensorFlow sees is used through its TPUStrategy only.
    return "gpu" if tf.config.list_physical_devices("GPU") else "cpu"
