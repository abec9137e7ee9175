"""Instance segmentation with Mask R-CNN: region proposals on a ResNet-50 feature pyramid, classes, boxes and masks.

K. He, G. Gkioxari, P. Dollár and R. Girshick, "Mask R-CNN", ICCV 2017; the segmentation experiment of T. Carneiro et
al., IEEE Access 6 (2018). Trained from random weights, with group normalisation instead of batch normalisation.
"""

from __future__ import annotations

from accelbench.profiling.benchmark import Training
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Quality
from accelbench.workloads.detection import AXES, BACKBONE, LIMITS
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.training.declare import training

TARGET = 0.7
"""Mean IoU of the background and the classes."""
FLOORS = ((5_000, 0.5), (2_500, 0.3), (0, 0.0))
"""(synthetic images trained on, minimum mean IoU). The background alone gives 0.2. Measured: 0.76 after 5,000 images in
5 epochs."""


@training("segmentation", axes=AXES, limits=LIMITS)
def segmentation(point: Point, strategy: Strategy) -> Training:
    """Train Mask R-CNN to segment cats and dogs, or synthetic shapes; the paper's pyramid has 256 channels."""
    import keras

    from accelbench.workloads.training.keras_model import jit_compile
    from accelbench.workloads.vision.coco import mean_average_precision, mean_iou
    from accelbench.workloads.vision.load import load_scenes
    from accelbench.workloads.vision.mask_rcnn import mask_rcnn
    from accelbench.workloads.vision.pyramid import require_size, resnet50
    from accelbench.workloads.vision.regions import OBJECT_OVERLAP
    from accelbench.workloads.vision.scenes import MaskExamples
    from accelbench.workloads.vision.training import confident, detector_training, find, largest_overlap, optimizer

    size, channels = point["image"], point["channels"]
    require_size(size)
    scenes = load_scenes(size, point.seed, masks=True)
    classes = len(scenes.classes)
    batches = strategy.feed(MaskExamples(scenes.train, scenes.most))

    image = keras.Input((size, size, 3), dtype="uint8", name="image")
    truth = keras.Input((scenes.most, 4), dtype="float32", name="truth")
    model, segmenter = mask_rcnn(image, truth, resnet50(image), classes, channels)
    model.compile(optimizer(point["epochs"] * batches.steps), jit_compile=jit_compile(point))

    def evaluate() -> dict[str, Metric]:
        held_out, found = find(segmenter, scenes.held_out, strategy.batch)
        average, at_half = mean_average_precision(held_out, found, classes, "segm")
        return {
            "test_mask_map": Metric(average),
            "test_mask_map50": Metric(at_half),
            "test_mean_iou": Metric(mean_iou(held_out, confident(found), classes)),
            "largest_overlap": Metric(largest_overlap(found)),
        }

    return detector_training(
        strategy,
        model,
        batches,
        scenes,
        evaluate=evaluate,
        qualities=(Quality("test_mean_iou", headline=True), Quality("test_mask_map"), Quality("test_mask_map50")),
        overlap=OBJECT_OVERLAP,
        parameters=parameters(classes, channels),
        floors=FLOORS,
        target=TARGET,
    )


def parameters(classes: int, channels: int) -> int:
    """Return the number of parameters in the backbone, the pyramid, the proposal network and both heads.

    The pyramid has four levels; each position has three anchors.
    """
    convolution = 9 * channels * channels + channels
    pyramid = (256 + 512 + 1024 + 2048) * channels + 4 * channels + 4 * convolution
    proposals = convolution + (channels + 1) * 3 * (1 + 4)
    boxes = (49 * channels + 1) * 1024 + (1024 + 1) * 1024 + (1024 + 1) * (1 + classes + 4 * classes)
    masks = 4 * convolution + (4 * channels * channels + channels) + (channels + 1) * classes
    return BACKBONE + pyramid + proposals + boxes + masks
