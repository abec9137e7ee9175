"""Detection of objects by RetinaNet: ResNet-50, a feature pyramid, and two small networks on each of its levels.

T.-Y. Lin, P. Goyal, R. Girshick, K. He and P. Dollár, "Focal Loss for Dense Object Detection", ICCV 2017; object
detection is one of the experiments of T. Carneiro et al., IEEE Access 6 (2018). Trained from random weights, with group
in place of batch normalisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiling.benchmark import Training, benchmark
from profiling.records.point import Point
from profiling.records.quality import Data, Metric, Verification
from profiling.records.work import Work
from workloads.training.keras_model import TRAINING_AXES, TRAINING_CHOICES, arithmetic

TARGET = 0.7
"""mAP at an IoU of 0.5."""


@benchmark(
    "detection",
    devices=("cpu", "gpu", "tpu"),
    axes={
        "image": {"cpu": (96,), "gpu": (512,), "tpu": (512,)},
        "batch": (8,),
        "epochs": (5,),
        "channels": {"cpu": (64,), "gpu": (256,), "tpu": (256,)},
        "workers": (2,),
        "prefetch": (2,),
        **TRAINING_AXES,
    },
    choices=TRAINING_CHOICES,
    limits={"image": (1, 2048), "channels": (1, 1024)},
    figure="items",
    bound="arithmetic",
    dtype=arithmetic,
    backends=("tensorflow", "jax", "torch"),
    time_limit_s=7200,
)
def detection(point: Point) -> Training:
    """Train RetinaNet to find cats' and dogs' heads, or drawn shapes; the paper's pyramid has 256 channels."""
    from workloads.training.keras_model import jit_compile, train, use_backend

    use_backend(point)
    import keras

    from profiling.flop_counts.layers import model_flops
    from workloads.training.pipeline import feed
    from workloads.vision.coco import mean_average_precision
    from workloads.vision.pyramid import require_size, resnet50
    from workloads.vision.retinanet import OVERLAP, retinanet
    from workloads.vision.scenes import Examples, load_scenes
    from workloads.vision.training import find, largest_overlap, optimizer, verify_detector

    size, batch, epochs, channels = point["image"], point["batch"], point["epochs"], point["channels"]
    require_size(size)
    scenes = load_scenes(size, point.seed, masks=False)
    classes = len(scenes.classes)
    batches = feed(point, Examples(scenes.train, scenes.most), batch=batch, epochs=epochs)

    image = keras.Input((size, size, 3), dtype="uint8", name="image")
    model, detector = retinanet(image, resnet50(image)[1:], classes, channels)
    model.compile(optimizer(epochs * batches.steps), jit_compile=jit_compile(point))

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        return train(model, batches, epochs, callbacks)

    def evaluate() -> dict[str, Metric]:
        held_out, found = find(detector, scenes.held_out, batch)
        average, at_half = mean_average_precision(held_out, found, classes, "bbox")
        return {
            "test_map": Metric(average),
            "test_map50": Metric(at_half),
            "largest_overlap": Metric(largest_overlap(found)),
        }

    def verify(history: Mapping[str, list[float]], qualities: dict[str, Metric]) -> Verification:
        return verify_detector(
            history,
            qualities,
            quality="test_map50",
            floor=floor(epochs * batches.steps * batch) if scenes.synthetic else 0.0,
            overlap=OVERLAP,
            parameters=(model.count_params(), parameters(classes, channels)),
            data=scenes,
        )

    work = Work(flops=model_flops(model, batch).training, items=batch, item="images")
    data = Data(scenes.source, len(scenes.train), len(scenes.held_out), scenes.synthetic)
    return Training(fit, evaluate, verify, work, data, model, target=("test_map50", TARGET))


BACKBONE = 23_534_592
"""Parameters of ResNet-50 without its last layer: a scale and a shift for each normalised channel."""


def parameters(classes: int, channels: int) -> int:
    """Of backbone, pyramid (three laterals, five levels) and two heads of five convolutions, with nine anchors each."""
    convolution = 9 * channels * channels + channels
    laterals = (512 + 1024 + 2048) * channels + 3 * channels
    levels = 3 * convolution + (9 * 2048 * channels + channels) + convolution
    heads = 2 * 4 * convolution + (9 * channels + 1) * 9 * (classes + 4)
    return BACKBONE + laterals + levels + heads


FLOORS = ((5_000, 0.5), (2_500, 0.2), (0, 0.0))
"""mAP at an IoU of 0.5 that a model trained on so many drawn images exceeds; measured: 0.92 after 5,000 in 5 epochs."""


def floor(images: int) -> float:
    """The mAP at an IoU of 0.5 that so many drawn images must have brought."""
    return next(quality for least, quality in FLOORS if images >= least)
