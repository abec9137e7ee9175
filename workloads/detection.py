"""Object detection with RetinaNet: ResNet-50, a feature pyramid, and two small networks on each of its levels.

T.-Y. Lin, P. Goyal, R. Girshick, K. He and P. Dollár, "Focal Loss for Dense Object Detection", ICCV 2017; object
detection is one of the experiments of T. Carneiro et al., IEEE Access 6 (2018). Trained from random weights, with group
normalisation instead of batch normalisation.
"""

from __future__ import annotations

from collections.abc import Mapping

from accelbench.profiling.benchmark import Training, Values
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Quality
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.training.declare import by_device, training

TARGET = 0.7
"""mAP at an IoU of 0.5."""
FLOORS = ((5_000, 0.5), (2_500, 0.2), (0, 0.0))
"""(synthetic images trained on, minimum mAP at an IoU of 0.5). Measured: 0.92 after 5,000 images in 5 epochs."""
AXES: Mapping[str, Values | Mapping[str, Values]] = {
    "image": by_device(96, 512),
    "batch": (8,),
    "epochs": (5,),
    "channels": by_device(64, 256),
    "workers": (2,),
    "prefetch": (2,),
}
LIMITS = {"image": (1, 2048), "channels": (1, 1024)}


@training("detection", axes=AXES, limits=LIMITS)
def detection(point: Point, strategy: Strategy) -> Training:
    """Train RetinaNet to detect heads of cats and dogs, or synthetic shapes; the paper's pyramid has 256 channels."""
    import keras

    from accelbench.workloads.training.keras_model import jit_compile
    from accelbench.workloads.vision.coco import mean_average_precision
    from accelbench.workloads.vision.load import load_scenes
    from accelbench.workloads.vision.pyramid import require_size, resnet50
    from accelbench.workloads.vision.retinanet import OVERLAP, retinanet
    from accelbench.workloads.vision.scenes import DetectionExamples
    from accelbench.workloads.vision.training import detector_training, find, largest_overlap, optimizer

    size, channels = point["image"], point["channels"]
    require_size(size)
    scenes = load_scenes(size, point.seed, masks=False)
    classes = len(scenes.classes)
    batches = strategy.feed(DetectionExamples(scenes.train, scenes.most))

    image = keras.Input((size, size, 3), dtype="uint8", name="image")
    model, detector = retinanet(image, resnet50(image)[1:], classes, channels)
    model.compile(optimizer(point["epochs"] * batches.steps), jit_compile=jit_compile(point))

    def evaluate() -> dict[str, Metric]:
        held_out, found = find(detector, scenes.held_out, strategy.batch)
        average, at_half = mean_average_precision(held_out, found, classes, "bbox")
        return {
            "test_map": Metric(average),
            "test_map50": Metric(at_half),
            "largest_overlap": Metric(largest_overlap(found)),
        }

    return detector_training(
        strategy,
        model,
        batches,
        scenes,
        evaluate=evaluate,
        qualities=(Quality("test_map50", headline=True), Quality("test_map")),
        overlap=OVERLAP,
        parameters=parameters(classes, channels),
        floors=FLOORS,
        target=TARGET,
    )


BACKBONE = 23_534_592
"""Parameters of ResNet-50 without its last layer; each normalised channel has a scale and an offset."""


def parameters(classes: int, channels: int) -> int:
    """Return the number of parameters in the backbone, the pyramid and both heads.

    The pyramid has three lateral connections and five levels; a head has five convolutions and nine anchors per
    position.
    """
    convolution = 9 * channels * channels + channels
    laterals = (512 + 1024 + 2048) * channels + 3 * channels
    levels = 3 * convolution + (9 * 2048 * channels + channels) + convolution
    heads = 2 * 4 * convolution + (9 * channels + 1) * 9 * (classes + 4)
    return BACKBONE + laterals + levels + heads
