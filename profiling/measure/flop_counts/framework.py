"""Operations of a step and device memory of a model, as counted by the framework under Keras."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from accelbench.profiling.measure.flop_counts.layers import model_bytes
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.work import Work


def with_bytes(work: Work, model: Any, batch: int) -> Work:
    """Return the work of a training step with the memory traffic of its model, where that can be counted."""
    if work.bytes is not None or not batch or not getattr(model, "inputs", None):
        return work
    try:
        return replace(work, bytes=model_bytes(model, batch))
    except TypeError:  # a layer that is not known there; its work was counted by other means
        return work


def framework_metrics(model: Any, work: Work, batch: int) -> dict[str, Metric]:
    """Return the framework's count of a step's operations, its ratio to the model's, and the peak of device memory.

    A step is of `batch` examples; the items of its work may be more, as the words of sequences are.
    """
    metrics = {}
    if work.flops and batch and getattr(model, "inputs", None):
        counted = framework_flops(model) * batch
        metrics["framework_flops"] = Metric(counted, "FLOP")
        metrics["framework_flops_ratio"] = Metric(counted / work.flops)
    peak = device_memory_peak()
    if peak is not None:
        metrics["device_memory_peak"] = Metric(peak, "B")
    return metrics


def framework_flops(model: Any) -> float:
    """Return the operations of one example's forward and backward pass as the framework counts them.

    TensorFlow adds up the registered operations of the graph (`tf.compat.v1.profiler`), JAX those that XLA's cost
    analysis finds before optimisation, PyTorch those that its FlopCounterMode sees executed. They differ by design:
    the body of a loop counts once on the first two, which also count what is small (activations, normalisation). The
    loss is replaced by the sum of the outputs, which costs next to nothing.
    """
    import keras

    counts = {"tensorflow": _tensorflow_flops, "jax": _jax_flops, "torch": _torch_flops}
    return counts[keras.backend.backend()](model)


def _inputs(model: Any, make: Any) -> Any:
    """Make one example for each input of the model, by `make(shape, dtype)`."""
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


def _jax_flops(model: Any) -> float:
    import jax
    from keras import ops, tree

    def loss(trainable: Any, fixed: Any, example: Any) -> Any:
        outputs, _ = model.stateless_call(trainable, fixed, example, training=True)
        return sum(ops.sum(ops.cast(output, "float32")) for output in tree.flatten(outputs))

    trainable = [variable.value for variable in model.trainable_variables]
    fixed = [variable.value for variable in model.non_trainable_variables]
    example = _inputs(model, lambda shape, dtype: jax.ShapeDtypeStruct(shape, dtype))
    analysis = jax.jit(jax.grad(loss)).lower(trainable, fixed, example).cost_analysis()
    return float(analysis["flops"])


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
    """Return the most bytes the framework held on the GPU or TPU so far; None on a CPU, or where it does not say."""
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
