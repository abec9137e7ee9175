"""Segmentation of objects by Mask R-CNN: regions proposed on a feature pyramid of ResNet-50, classified and outlined.

K. He, G. Gkioxari, P. Dollár and R. Girshick, "Mask R-CNN", ICCV 2017; it is the segmentation experiment of T. Carneiro
et al., IEEE Access 6 (2018). Trained from random weights, with group in place of batch normalisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiling.benchmark import Training, benchmark
from profiling.records.point import Point
from profiling.records.quality import Data, Metric, Verification
from profiling.records.work import Work
from workloads.detection import BACKBONE
from workloads.training.keras_model import TRAINING_AXES, TRAINING_CHOICES, arithmetic

TARGET = 0.7
"""Mean IoU of the ground and the classes."""


@benchmark(
    "segmentation",
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
def segmentation(point: Point) -> Training:
    """Train Mask R-CNN to outline cats and dogs, or drawn shapes; the paper's pyramid has 256 channels."""
    from workloads.training.keras_model import jit_compile, train, use_backend

    use_backend(point)
    import keras

    from profiling.flop_counts.layers import model_flops
    from workloads.training.pipeline import feed
    from workloads.vision.coco import mean_average_precision, mean_iou
    from workloads.vision.mask_rcnn import mask_rcnn
    from workloads.vision.pyramid import require_size, resnet50
    from workloads.vision.regions import OBJECT_OVERLAP
    from workloads.vision.scenes import MaskExamples, load_scenes
    from workloads.vision.training import confident, find, largest_overlap, optimizer, verify_detector

    size, batch, epochs, channels = point["image"], point["batch"], point["epochs"], point["channels"]
    require_size(size)
    scenes = load_scenes(size, point.seed, masks=True)
    classes = len(scenes.classes)
    batches = feed(point, MaskExamples(scenes.train, scenes.most), batch=batch, epochs=epochs)

    image = keras.Input((size, size, 3), dtype="uint8", name="image")
    truth = keras.Input((scenes.most, 4), dtype="float32", name="truth")
    model, segmenter = mask_rcnn(image, truth, resnet50(image), classes, channels)
    model.compile(optimizer(epochs * batches.steps), jit_compile=jit_compile(point))

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        return train(model, batches, epochs, callbacks)

    def evaluate() -> dict[str, Metric]:
        held_out, found = find(segmenter, scenes.held_out, batch)
        average, at_half = mean_average_precision(held_out, found, classes, "segm")
        return {
            "test_mask_map": Metric(average),
            "test_mask_map50": Metric(at_half),
            "test_mean_iou": Metric(mean_iou(held_out, confident(found), classes)),
            "largest_overlap": Metric(largest_overlap(found)),
        }

    def verify(history: Mapping[str, list[float]], qualities: dict[str, Metric]) -> Verification:
        return verify_detector(
            history,
            qualities,
            quality="test_mean_iou",
            floor=floor(epochs * batches.steps * batch) if scenes.synthetic else 0.0,
            overlap=OBJECT_OVERLAP,
            parameters=(model.count_params(), parameters(classes, channels)),
            data=scenes,
        )

    work = Work(flops=model_flops(model, batch).training, items=batch, item="images")
    data = Data(scenes.source, len(scenes.train), len(scenes.held_out), scenes.synthetic)
    return Training(fit, evaluate, verify, work, data, model, target=("test_mean_iou", TARGET))


def parameters(classes: int, channels: int) -> int:
    """Of backbone, pyramid of four levels, proposals by three anchors at each position, box head and mask head."""
    convolution = 9 * channels * channels + channels
    pyramid = (256 + 512 + 1024 + 2048) * channels + 4 * channels + 4 * convolution
    proposals = convolution + (channels + 1) * 3 * (1 + 4)
    boxes = (49 * channels + 1) * 1024 + (1024 + 1) * 1024 + (1024 + 1) * (1 + classes + 4 * classes)
    masks = 4 * convolution + (4 * channels * channels + channels) + (channels + 1) * classes
    return BACKBONE + pyramid + proposals + boxes + masks


FLOORS = ((5_000, 0.5), (2_500, 0.3), (0, 0.0))
"""Mean IoU that a model trained on so many drawn images exceeds; the ground alone is worth 0.2. Measured: 0.76 after
5,000 in 5 epochs."""


def floor(images: int) -> float:
    """The mean IoU that so many drawn images must have brought."""
    return next(quality for least, quality in FLOORS if images >= least)
