"""Setup of Keras before a model is built: backend, device, strategy, seeds and log level."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.devices import device_kind, gpu_backends
from accelbench.profiling.devices.cpu import split_for_xla
from accelbench.profiling.machine.environment.cpu import count_usable
from accelbench.profiling.machine.packages import not_installed
from accelbench.profiling.records.point import Point
from accelbench.workloads.distribution.find import strategy_of
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.training.given import give

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
"""Environment for TensorFlow: no informational log messages, and GPU memory allocated on demand."""


def use_backend(point: Point) -> Strategy:
    """Configure Keras for the point's backend, device and seed, and return the started strategy.

    Keras reads its backend, and frameworks detect their devices, once per process. Skip if the framework is not
    installed, or lacks the device or the strategy.
    """
    backend = str(point.backend)
    if find_spec(backend) is None:
        hint = not_installed(backend, device_kind(point.device).framework_install(backend))
        raise Skip(f"{hint}, or choose another --backend")
    os.environ["KERAS_BACKEND"] = backend
    for variable, value in QUIET.items():
        os.environ.setdefault(variable, value)
    if point.device == "cpu":
        _hide_gpus()
        _divide_cpu(backend, int(point.params.get("devices", 1)))
    give(point)
    import keras

    if keras.backend.backend() != backend:
        raise RuntimeError(f"this process already runs Keras on {keras.backend.backend()}")
    strategy = strategy_of(point)
    strategy.start()
    if strategy.serving:
        return strategy
    found = _default_device(backend)
    if found != point.device:
        raise Skip(f"{backend} uses the device {found}: this build or this process has no {point.device}")
    _set_seeds(point.seed)
    _draw_weights_alike(point.seed)
    precision = str(point.params.get("precision", "float32"))
    keras.config.set_dtype_policy(precision)
    if precision == "float32":
        _require_strict_float32(backend)
    return strategy


def jit_compile(point: Point) -> bool | str:
    """Return the `jit_compile` argument of `model.compile`; `auto` is left to Keras."""
    chosen = str(point.params.get("jit_compile", "auto"))
    return {"on": True, "off": False}.get(chosen, chosen)


def _draw_weights_alike(seed: int) -> None:
    """Draw initial weights with NumPy, so that all frameworks start from the same weights for a given seed.

    Keras has no setting for this; its initialisers take random numbers from a module, which is replaced in this
    process.
    """
    import numpy as np
    from keras import ops
    from keras.src.initializers import random_initializers
    from scipy.stats import truncnorm

    generator = np.random.default_rng([seed, 0])

    def normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None) -> Any:
        return ops.convert_to_tensor(generator.normal(mean, stddev, shape), dtype)

    def uniform(shape: Any, minval: float = 0.0, maxval: float = 1.0, dtype: Any = None, seed: Any = None) -> Any:
        return ops.convert_to_tensor(generator.uniform(minval, maxval, shape), dtype)

    def truncated_normal(
        shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None
    ) -> Any:
        drawn = truncnorm.rvs(-2, 2, loc=mean, scale=stddev, size=shape, random_state=generator)
        return ops.convert_to_tensor(drawn, dtype)

    own = {"normal": normal, "uniform": uniform, "truncated_normal": truncated_normal}
    random_initializers.random = SimpleNamespace(**vars(random_initializers.random) | own)


def _set_seeds(seed: int) -> None:
    """Set the seeds of Python, NumPy and imported frameworks. Keras would import TensorFlow, which takes seconds."""
    import keras
    from keras.src.utils.module_utils import tensorflow

    available = tensorflow._available
    if "tensorflow" not in sys.modules:
        tensorflow._available = False
    keras.utils.set_random_seed(seed)
    tensorflow._available = available


def _hide_gpus() -> None:
    """Hide every vendor's GPUs from the frameworks, which would train on one in place of the CPU."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    for backend in gpu_backends():
        os.environ[backend.visible_devices] = "-1"


def _divide_cpu(backend: str, devices: int) -> None:
    """Split the CPU into several logical devices that share its cores, to run multi-device strategies without GPUs.

    Skip if the point has more devices than the process has CPUs.
    """
    if devices == 1:
        return
    if devices > (cores := count_usable()):
        raise Skip(f"devices={devices} exceeds the {cores} CPUs available to this process")
    if backend == "tensorflow":
        import tensorflow as tf

        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices)
    elif backend == "jax":
        split_for_xla(devices)


def embedding(words: int, size: int, **options: Any) -> Any:
    """Return an embedding layer that all frameworks train identically.

    TensorFlow keeps one gradient slice per occurrence of a word, and Keras's optimizers square each slice instead of
    their sum. A regulariser of weight 0 makes the gradient dense, as on JAX and PyTorch.
    """
    import keras

    return keras.layers.Embedding(words, size, embeddings_regularizer=keras.regularizers.L2(0.0), **options)


def _require_strict_float32(backend: str) -> None:
    """Disable TF32, in which TensorFlow and JAX multiply float32 by default on GPUs that have it."""
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
    """Return the framework's default device: cpu, gpu or tpu.

    The names are the same for every vendor: PyTorch's `cuda` may be a GPU of AMD, and so may JAX's and TensorFlow's
    `gpu`.
    """
    if backend == "torch":
        import torch

        return "gpu" if torch.cuda.is_available() else "cpu"
    if backend == "jax":
        import jax

        return str(jax.default_backend())
    import tensorflow as tf

    # A TPU is listed only after its strategy has initialised it.
    kinds = {device.device_type for device in tf.config.list_logical_devices()}
    return next((kind.lower() for kind in ("TPU", "GPU") if kind in kinds), "cpu")
