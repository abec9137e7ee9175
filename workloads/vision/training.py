"""Training of detectors from random weights, detection on held-out scenes, and verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from accelbench.profiling.benchmark import Training
from accelbench.profiling.records.quality import Data, Metric, Quality, Verification
from accelbench.workloads.data.pipeline import Feed
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.training.experiment import Evaluate, examples_seen, experiment
from accelbench.workloads.training.quality import Floors, fell, floor
from accelbench.workloads.vision.coco import ImageDetections, paste
from accelbench.workloads.vision.scenes import Scene, SceneData, Scenes, image_batches

LEARNING_RATE, WARM_UP = 5e-4, 0.1
"""Maximum learning rate, and the share of the steps with rising rate."""
LARGEST_GRADIENT = 1.0
"""Maximum global gradient norm; larger gradients are clipped."""
OVERLAP_TOLERANCE = 1e-3
"""Tolerance of the overlap check: suppression computes in float32, the check from boxes rounded once more."""


def optimizer(steps: int) -> Any:
    """Return Adam with a learning rate that rises for a tenth of the steps and falls to 0 along a cosine.

    The papers use SGD from pre-trained weights, which takes ten times longer from random ones (He, Girshick & Dollár
    2019).
    """
    warm_up = max(1, round(WARM_UP * steps))
    rate = keras.optimizers.schedules.CosineDecay(
        LEARNING_RATE / warm_up, max(1, steps - warm_up), warmup_target=LEARNING_RATE, warmup_steps=warm_up
    )
    return keras.optimizers.Adam(rate, global_clipnorm=LARGEST_GRADIENT)


def find(detector: Any, scenes: Scenes, batch: int) -> tuple[list[Scene], list[ImageDetections]]:
    """Return the scenes and the objects detected on each, with masks, if any, scaled to the image."""
    seen: list[Scene] = []
    found: list[ImageDetections] = []
    for some, images in image_batches(scenes, batch):
        outputs = {name: np.asarray(values) for name, values in detector.predict_on_batch(images).items()}
        for i, scene in enumerate(some):
            boxes, masks = outputs["boxes"][i], outputs.get("masks")
            pasted = None if masks is None else paste(masks[i], boxes, len(scene.image))
            found.append(ImageDetections.above(0.0, boxes, outputs["scores"][i], outputs["classes"][i], pasted))
        seen += some
    return seen, found


def confident(found: Sequence[ImageDetections]) -> list[ImageDetections]:
    """Return the objects with a score above 0.5, for metrics without scores."""
    return [ImageDetections.above(0.5, one.boxes, one.scores, one.classes, one.masks) for one in found]


def largest_overlap(found: Sequence[ImageDetections]) -> float:
    """Return the largest IoU of two objects of the same class and image; 0 without such a pair."""
    largest = 0.0
    for one in found:
        for kind in np.unique(one.classes):
            boxes = one.boxes[one.classes == kind].astype(np.float64)
            corner = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:]) - np.maximum(
                boxes[:, None, :2], boxes[None, :, :2]
            )
            shared = corner.clip(0).prod(axis=-1)
            area = (boxes[:, 2:] - boxes[:, :2]).prod(axis=-1)
            union = np.maximum(area[:, None] + area[None] - shared, 1e-6)
            largest = max(largest, float((shared / union)[~np.eye(len(boxes), dtype=bool)].max(initial=0.0)))
    return largest


def detector_training(
    strategy: Strategy,
    model: Any,
    batches: Feed,
    scenes: SceneData,
    *,
    evaluate: Evaluate,
    qualities: tuple[Quality, ...],
    overlap: float,
    parameters: int,
    floors: Floors,
    target: float,
) -> Training:
    """Return the training of a detector on `scenes`.

    `evaluate` returns the `qualities` and the largest overlap of two objects of one class, which must not exceed
    `overlap`; `parameters` is the expected number of parameters. `floors` and `target` apply to the first quality: the
    minimum by number of synthetic training scenes (others may be harder), and the value to reach.
    """
    quality = qualities[0].name

    def verify(history: Mapping[str, list[float]], qualities: dict[str, Metric]) -> Verification:
        return verify_detector(
            history,
            qualities,
            quality=quality,
            floor=floor(floors, examples_seen(strategy, batches, history)) if scenes.synthetic else 0.0,
            overlap=overlap,
            parameters=(model.count_params(), parameters),
            data=scenes,
        )

    data = Data(scenes.source, len(scenes.train), len(scenes.held_out), scenes.synthetic)
    return experiment(
        strategy,
        model,
        batches,
        data,
        evaluate=evaluate,
        verify=verify,
        qualities=qualities,
        item="images",
        target=(quality, target),
    )


def verify_detector(
    history: Mapping[str, Sequence[float]],
    qualities: Mapping[str, Metric],
    *,
    quality: str,
    floor: float,
    overlap: float,
    parameters: tuple[int, int],
    data: SceneData,
) -> Verification:
    """Verify a trained detector: number of parameters, falling loss, quality, and no duplicate detections.

    `parameters` are the actual and the expected number; `floor` is the minimum of the `quality` on held-out scenes, and
    `overlap` the maximum overlap of two objects of one class. After a single epoch the loss only needs to be finite.
    """
    losses, reached, twice = history["loss"], qualities[quality].value, qualities["largest_overlap"].value
    has, expected = parameters
    name = quality.removeprefix("test_")
    return Verification(
        passed=has == expected and fell(losses) and reached >= floor and twice <= overlap + OVERLAP_TOLERANCE,
        method=f"parameters, loss, overlap of the objects found and {name} on {data.source}",
        expected=f"{expected:,} parameters, falling loss, overlap ≤ {overlap:.3g}, {name} ≥ {floor:.3g}",
        found=f"{has:,} parameters, loss {losses[0]:.3g} to {losses[-1]:.3g}, overlap {twice:.3g}, "
        f"{name} {reached:.4f}",
    )
