"""A language model as people train it today: a decoder-only transformer, on text as bytes.

A. Vaswani et al., "Attention Is All You Need" (2017), with the parts that models of this decade share
(`accelbench.workloads.language.decoder`), trained by AdamW with a warm-up and a cosine (Loshchilov and Hutter, 2019).
Tokens are bytes of whatever text is here (`accelbench.workloads.data.texts`): no vocabulary must be fetched, and the
quality, held-out bits per byte, compares with any other model of that text.
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
"""The tokens and steps after which a model must be better than one that knows only the byte before.

The same tokens in fewer steps teach less: 262,000 in 128 steps brought `tiny` to 3.3 bits where the bar was 3.6, and
330,000 in 40 steps to 4.2.
"""
HELD_OUT = 128
"""The sequences that the quality is measured on."""
WARM_UP, LAST_RATE = 0.1, 0.1
"""The share of the steps in which the rate rises, and the share of the highest rate that the last step has."""
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
    """Train a decoder-only transformer on the text of Python's own library, or on a folder of text: tokens per second.

    An epoch is so many `steps` on sequences from all over the text. With `recompute` a block keeps only what comes in.
    """
    import keras

    from accelbench.workloads.data.texts import bits_per_byte, load_text
    from accelbench.workloads.language.decoder import decoder, sharding
    from accelbench.workloads.training.experiment import experiment, seen
    from accelbench.workloads.training.keras_model import jit_compile
    from accelbench.workloads.training.quality import fell

    size, sequence, text = SIZES[str(point["size"])], int(point["sequence"]), load_text()
    require_room(strategy, size)
    require_flash(point)
    strategy.shard(sharding(size))
    if (shortest := min(len(text.train), len(text.held_out))) <= sequence:
        raise Skip(
            f"a sequence of {sequence:,} and its next byte are more than the {shortest:,} bytes of {text.source}"
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
        examples = seen(strategy, batches, history)
        enough = examples * sequence >= LEARNT_TOKENS and examples >= LEARNT_STEPS * strategy.batch
        return Verification(
            passed=parameters == size.parameters and fell(losses) and (bits < bar or not enough),
            method=f"parameters, loss and held-out bits per byte on {text.source}",
            expected=f"{size.parameters:,} parameters, falling loss, bits per byte"
            + (f" below the {bar:.3f} of a model that knows the byte before" if enough else ""),
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
    """Skip the point if the replicas here take more than half of the host's memory, or one more than its GPU has left.

    Replicas on CPUs share the memory of their host. Where parameters are sharded each device has a share of everything.
    """
    from accelbench.profiling.machine.devices import gpu_backend
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
    """Skip the point if it asks for flash attention where the framework has none."""
    if point.params.get("attention") != "flash":
        return
    if point.backend == "tensorflow":
        raise Skip("attention=flash: Keras on TensorFlow has no fused attention; it has on JAX and PyTorch")
    if point.device == "cpu":
        raise Skip("attention=flash: Keras has fused attention on GPUs and TPUs only")
    if point["precision"] == "float32":
        raise Skip("attention=flash takes half precision: --param precision=mixed_bfloat16")


def sequences(text: NDArray[np.uint8], count: int, length: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return so many sequences from all over the text, (count, length), and the byte after each of their bytes."""
    import numpy as np

    begins = np.linspace(0, len(text) - length - 1, count).astype(np.int64)
    found = text[begins[:, None] + np.arange(length + 1)].astype(np.int32)
    return found[:, :-1], found[:, 1:]


def optimizer(rate: float, steps: int) -> Any:
    """Return AdamW, whose rate rises to `rate` and then falls by a cosine, for a training of so many steps."""
    import keras

    rise = max(1, round(WARM_UP * steps))
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, max(1, steps - rise), alpha=LAST_RATE, warmup_target=rate, warmup_steps=rise
    )
    adam = keras.optimizers.AdamW(schedule, weight_decay=0.1, beta_2=0.95, global_clipnorm=1.0)
    adam.exclude_from_weight_decay(var_names=["scale"])  # a norm's
    return adam


def quality(scores: Any, truth: Any) -> dict[str, Metric]:
    """Return the cross-entropy in bits, and the share of bytes that were thought the likeliest.

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
