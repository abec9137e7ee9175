"""Language model: a decoder-only transformer on text as bytes.

A. Vaswani et al., "Attention Is All You Need" (2017), with the components of current models
(`accelbench.workloads.language.decoder`), trained by AdamW with warm-up and cosine decay (Loshchilov and Hutter, 2019).
Tokens are bytes of any text (`accelbench.workloads.data.texts`): no vocabulary has to be downloaded, and the quality,
held-out bits per byte, is comparable with other models on the same text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from accelbench.profiling.benchmark import Skip, Training, Values
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Data, Metric, Quality, Verification
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.language.sizes import SIZES, VOCABULARY, Size
from accelbench.workloads.training.declare import by_device, training

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TARGET = 3.0
"""Held-out bits per byte."""
LEARNT_TOKENS, LEARNT_STEPS = 250_000, 120
"""Number of tokens and steps after which the model must be better than a bigram model of bytes.

The same tokens in fewer steps teach less: `tiny` reached 3.3 bits after 262,000 tokens in 128 steps, where the bigram
model has 3.6, and 4.2 after 330,000 tokens in 40 steps.
"""
HELD_OUT = 128
"""Number of held-out sequences on which the quality is measured."""
WARM_UP, LAST_RATE = 0.1, 0.1
"""Share of the steps with rising learning rate, and the last learning rate as a share of the maximum."""
AXES: Mapping[str, Values | Mapping[str, Values]] = {
    "size": {"cpu": ("tiny",), "gpu": ("125m",), "tpu": ("125m",)},
    "sequence": by_device(128, 1024),
    "batch": by_device(16, 8),
    "steps": (100,),
    "epochs": (3,),
}
QUALITIES = (
    Quality("test_bits_per_byte", headline=True, better="lower"),
    Quality("test_accuracy"),
)


@training(
    "transformer",
    axes=AXES,
    choices={"size": tuple(SIZES), "attention": ("math", "flash"), "recompute": ("off", "on")},
    limits={"sequence": (2, 1 << 17), "steps": (1, 1 << 20)},
    optional={"attention": ("math",), "recompute": ("off",)},
    distributed=True,
    sharded=True,
)
def transformer(point: Point, strategy: Strategy) -> Training:
    """Train a decoder-only transformer on the source of Python's library, or on a folder of text.

    An epoch has `steps` batches of sequences from all over the text. With `recompute=on` a block stores only its input.
    """
    import keras

    from accelbench.workloads.data.texts import bits_per_byte, load_text
    from accelbench.workloads.language.decoder import decoder, sharding
    from accelbench.workloads.training.experiment import examples_seen, experiment
    from accelbench.workloads.training.keras_model import jit_compile
    from accelbench.workloads.training.quality import fell

    size, sequence, text = SIZES[str(point["size"])], int(point["sequence"]), load_text()
    require_room(strategy, size)
    require_flash(point)
    strategy.shard(sharding(size))
    if (shortest := min(len(text.train), len(text.held_out))) <= sequence:
        raise Skip(
            f"sequence={sequence:,} is too long: {text.source} has only {shortest:,} bytes to train on or hold out"
        )
    count = int(point["steps"]) * strategy.batch
    x, y = sequences(text.train, count, sequence)
    x_test, y_test = sequences(text.held_out, HELD_OUT, sequence)
    batches = strategy.feed((x, y))

    model = decoder(size, sequence, str(point.params.get("attention", "math")), point.params.get("recompute") == "on")
    model.compile(
        optimizer(size.rate, int(point["epochs"]) * batches.steps),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=jit_compile(point),
    )
    bar = bits_per_byte(*(tokens.reshape(-1).astype("uint8") for tokens in (x, x_test)))

    def evaluate() -> dict[str, Metric]:
        scores = strategy.predict(model, x_test, batch_size=min(strategy.batch, HELD_OUT))
        held = strategy.held_bytes(model)
        return quality(scores, y_test) | ({} if held is None else {"held_parameters": Metric(held, "B")})

    def verify(history: Mapping[str, list[float]], found: dict[str, Metric]) -> Verification:
        losses, bits, parameters = history["loss"], found["test_bits_per_byte"].value, model.count_params()
        examples = examples_seen(strategy, batches, history)
        enough = examples * sequence >= LEARNT_TOKENS and examples >= LEARNT_STEPS * strategy.batch
        return Verification(
            passed=parameters == size.parameters and fell(losses) and (bits < bar or not enough),
            method=f"parameters, loss and held-out bits per byte on {text.source}",
            expected=f"{size.parameters:,} parameters, falling loss, bits per byte"
            + (f" below the {bar:.3f} of a bigram model of bytes" if enough else ""),
            found=f"{parameters:,} parameters, loss {losses[0]:.3g} to {losses[-1]:.3g}, bits per byte {bits:.3f}",
        )

    return experiment(
        strategy,
        model,
        batches,
        Data(text.source, count, HELD_OUT),
        evaluate=evaluate,
        verify=verify,
        qualities=QUALITIES,
        item="tokens",
        items_each=sequence,
        target=("test_bits_per_byte", TARGET),
    )


def require_room(strategy: Strategy, size: Size) -> None:
    """Skip the point if a replica needs more memory than its GPU has free, or all replicas over half of the host's.

    Replicas on CPUs share the memory of their host. With sharded parameters each device holds an equal part.
    """
    from accelbench.profiling.devices import gpu_backend
    from accelbench.profiling.machine.free_memory import SHARE, require_memory

    point = strategy.point
    half, recomputed = point["precision"] != "float32", point.params.get("recompute") == "on"
    shared = strategy.devices * strategy.world.size if strategy.sharded else 1
    batch = strategy.batch // (1 if strategy.sharded else strategy.replicas)
    needed = size.bytes(batch, int(point["sequence"]), half, recomputed) / shared
    if point.device == "cpu":
        require_memory(needed * strategy.devices * strategy.world.local_size)
    elif point.device == "gpu":
        require_memory(needed * SHARE, gpu_backend().free_memory())


def require_flash(point: Point) -> None:
    """Skip `attention=flash` where the framework has no fused kernel."""
    if point.params.get("attention") != "flash":
        return
    if point.backend == "tensorflow":
        raise Skip("attention=flash: Keras on TensorFlow has no fused attention (use --backend jax or torch)")
    if point.device == "cpu":
        raise Skip("attention=flash: Keras has fused attention on GPUs and TPUs only")
    if point["precision"] == "float32":
        raise Skip("attention=flash needs half precision: --param precision=mixed_bfloat16")


def sequences(text: NDArray[np.uint8], count: int, length: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return `count` evenly spaced sequences (count, length) of the text, and the byte after each of their bytes."""
    import numpy as np

    begins = np.linspace(0, len(text) - length - 1, count).astype(np.int64)
    found = text[begins[:, None] + np.arange(length + 1)].astype(np.int32)
    return found[:, :-1], found[:, 1:]


def optimizer(rate: float, steps: int) -> Any:
    """Return AdamW with a learning rate that rises to `rate` and then follows a cosine, over `steps` steps."""
    import keras

    rise = max(1, round(WARM_UP * steps))
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, max(1, steps - rise), alpha=LAST_RATE, warmup_target=rate, warmup_steps=rise
    )
    adam = keras.optimizers.AdamW(schedule, weight_decay=0.1, beta_2=0.95, global_clipnorm=1.0)
    adam.exclude_from_weight_decay(var_names=["scale"])  # of normalisations
    return adam


def quality(scores: Any, truth: Any) -> dict[str, Metric]:
    """Return the cross-entropy in bits per byte, and the accuracy of the most likely byte.

    `scores` are (sequences, length, tokens), and `truth` is (sequences, length).
    """
    import numpy as np
    from scipy.special import log_softmax

    scores = np.asarray(scores, np.float64).reshape(-1, VOCABULARY)
    likely = log_softmax(scores, axis=-1)[np.arange(len(scores)), truth.reshape(-1)]
    return {
        "test_bits_per_byte": Metric(float(-likely.mean() / np.log(2))),
        "test_accuracy": Metric(float((scores.argmax(axis=-1) == truth.reshape(-1)).mean())),
    }
