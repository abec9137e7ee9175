"""FLOPs of a training step and device memory of a model, as counted by Keras's backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from accelbench.profiling.measure.flop_counts.layers import model_bytes
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.work import Work


def with_bytes(work: Work, model: Any, batch: int) -> Work:
    """Return the work of a training step with the memory traffic of its model, if that can be counted."""
    if work.bytes is not None or not batch or not getattr(model, "inputs", None):
        return work
    try:
        return replace(work, bytes=model_bytes(model, batch))
    except TypeError:  # `model_bytes` does not support a layer of this model
        return work


def framework_metrics(model: Any, work: Work, batch: int) -> dict[str, Metric]:
    """Return the framework's FLOPs of a step, their ratio to the model FLOPs, and the peak device memory.

    `batch` is the number of examples in a step. The number of items may be larger, such as the words of sequences.
    """
    metrics = {}
    if work.flops and batch and getattr(model, "inputs", None):
        counted = framework_flops(model)
        if counted is not None:
            metrics["framework_flops"] = Metric(counted * batch, "FLOP")
            metrics["framework_flops_ratio"] = Metric(counted * batch / work.flops)
    peak = device_memory_peak()
    if peak is not None:
        metrics["device_memory_peak"] = Metric(peak, "B")
    return metrics


def framework_flops(model: Any) -> float | None:
    """Return the FLOPs of the forward and backward pass of one example; None if the framework cannot count them.

    TensorFlow counts the registered operations of the graph (`tf.compat.v1.profiler`), JAX uses XLA's cost analysis
    before optimisation, and PyTorch counts executed operations (`FlopCounterMode`). The counts differ by design: the
    first two count a loop body once, and include small operations such as activations and normalisation. The loss is
    replaced by the sum of the outputs, at negligible cost.
    """
    import keras

    counts: dict[str, Callable[[Any], float | None]] = {
        "tensorflow": _tensorflow_flops,
        "jax": _jax_flops,
        "torch": _torch_flops,
    }
    return counts[keras.backend.backend()](model)


def _inputs(model: Any, make: Any) -> Any:
    """Return one example for each input of the model, by `make(shape, dtype)`."""
    made = [make((1, *like.shape[1:]), like.dtype) for like in model.inputs]
    return made if len(made) > 1 else made[0]


def _tensorflow_flops(model: Any) -> float:
    import tensorflow as tf
    from keras import ops, tree

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(example: Any) -> Any:
        with tf.GradientTape() as tape:
            outputs = tree.flatten(model(example, training=True))
            loss = sum(ops.sum(ops.cast(output, "float32")) for output in outputs)
        return tape.gradient(loss, [variable.value for variable in model.trainable_variables])

    graph = step.get_concrete_function(_inputs(model, lambda shape, dtype: tf.TensorSpec(shape, dtype))).graph
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    return float(tf.compat.v1.profiler.profile(graph, options=options).total_float_ops)


def _jax_flops(model: Any) -> float | None:
    import jax
    from keras import ops, tree

    def loss(trainable: Any, fixed: Any, example: Any) -> Any:
        outputs, _ = model.stateless_call(trainable, fixed, example, training=True)
        return sum(ops.sum(ops.cast(output, "float32")) for output in tree.flatten(outputs))

    def shapes(variables: Any) -> list[Any]:
        return [jax.ShapeDtypeStruct(variable.shape, variable.dtype) for variable in variables]

    trainable, fixed = shapes(model.trainable_variables), shapes(model.non_trainable_variables)
    example = _inputs(model, jax.ShapeDtypeStruct)
    try:
        cpu = jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return None  # JAX was started without its CPU backend
    try:
        # XLA analyses operations before optimisation only on a CPU.
        with jax.default_device(cpu):
            analysis = jax.jit(jax.grad(loss)).lower(trainable, fixed, example).cost_analysis()
    except NotImplementedError:
        return None  # an operation of the model has no implementation for a CPU
    return None if analysis is None else float(analysis["flops"])


def _torch_flops(model: Any) -> float:
    from keras import ops, tree
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter:
        outputs = tree.flatten(model(_inputs(model, lambda shape, dtype: ops.zeros(shape, dtype)), training=True))
        sum(ops.sum(ops.cast(output, "float32")) for output in outputs).backward()
    model.zero_grad()
    return float(counter.get_total_flops())


def device_memory_peak() -> int | None:
    """Return the peak device memory of the framework in bytes; None on a CPU, or if the framework reports none."""
    import keras

    backend = keras.backend.backend()
    if backend == "torch":
        import torch

        return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
    if backend == "jax":
        import jax

        found = jax.local_devices()[0].memory_stats() or {}
        return found.get("peak_bytes_in_use")
    import tensorflow as tf

    for kind in ("GPU", "TPU"):
        if tf.config.list_logical_devices(kind):
            return int(tf.config.experimental.get_memory_info(f"{kind}:0")["peak"])
    return None
