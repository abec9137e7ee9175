"""RetinaNet: a single network that predicts a class and a box at every anchor.

T.-Y. Lin, P. Goyal, R. Girshick, K. He and P. Dollár, "Focal Loss for Dense Object Detection", ICCV 2017, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import layers, ops

from accelbench.workloads.vision.anchors import RATIOS, anchors
from accelbench.workloads.vision.boxes import clip, decode, encode
from accelbench.workloads.vision.losses import focal, mean_where, smooth_l1
from accelbench.workloads.vision.matching import match, rows
from accelbench.workloads.vision.nms import non_maximum_suppression
from accelbench.workloads.vision.pyramid import feature_pyramid, over_levels

STRIDES = (8, 16, 32, 64, 128)
SIDE = 4
"""Side of the smallest anchors in strides: 32 pixels on the finest level."""
SCALES = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))
PER_POSITION = len(SCALES) * len(RATIOS)
DEPTH = 4
"""Number of convolutions of each head before the last."""
PRIOR = 0.01
"""Initial object probability, low so that the many background anchors do not dominate the first steps."""
POSITIVE, NEGATIVE = 0.5, 0.4
"""Minimum overlap of a positive anchor, and maximum overlap of a negative one."""
CANDIDATES, DETECTIONS, OVERLAP, SCORE = 1000, 100, 0.5, 0.05
"""At inference: candidates by score, detections kept, their maximum overlap, and their minimum score."""


def retinanet(image: Any, features: Sequence[Any], classes: int, channels: int) -> tuple[RetinaNet, Any]:
    """Return the model to train, and the detector with the same weights, from images of bytes to `Detections`' outputs.

    `features`, of strides 8, 16 and 32, are computed from `image`, an input of fixed size.
    """
    levels = feature_pyramid(features, channels)
    for number, source in ((6, features[-1]), (7, None)):
        source = layers.ReLU()(levels[-1]) if source is None else source
        levels.append(layers.Conv2D(channels, 3, strides=2, padding="same", name=f"level{number}")(source))
    bias = keras.initializers.Constant(-math.log((1 - PRIOR) / PRIOR))
    outputs = {
        "classes": over_levels(_head("class", channels, classes, bias), levels, classes),
        "boxes": over_levels(_head("box", channels, 4, "zeros"), levels, 4),
    }
    places = anchors(image.shape[1], STRIDES, SIDE, SCALES)
    model = RetinaNet(places, inputs=image, outputs=outputs, name="retinanet")
    return model, keras.Model(image, Detections(places, image.shape[1])(outputs))


class RetinaNet(keras.Model):  # type: ignore[misc]
    """Model from images (B, S, S, 3) of bytes to class logits (B, A, K) and box codes (B, A, 4) of all A anchors."""

    def __init__(self, places: Any, **graph: Any) -> None:
        super().__init__(**graph)
        self.places = places
        self.class_loss = keras.metrics.Mean(name="class_loss")
        self.box_loss = keras.metrics.Mean(name="box_loss")

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """Return focal loss (undecided anchors excluded, per positive anchor) plus smooth L1 of positive anchors."""
        places = ops.convert_to_tensor(self.places)
        found = match(places, y["boxes"], positive=POSITIVE, negative=NEGATIVE, rescue=True)
        classes = ops.where(found.positive, rows(y["classes"], found.truth), -1)
        targets = ops.one_hot(classes, y_pred["classes"].shape[-1], dtype="float32")
        decided = ops.cast(ops.logical_or(found.positive, found.negative), "float32")
        count = ops.maximum(ops.sum(ops.cast(found.positive, "float32")), 1.0)
        class_loss = ops.sum(decided[..., None] * focal(y_pred["classes"], targets)) / count
        box_targets = encode(rows(y["boxes"], found.truth), places)
        box_loss = mean_where(found.positive, smooth_l1(y_pred["boxes"], box_targets))
        self.class_loss.update_state(class_loss)
        self.box_loss.update_state(box_loss)
        return class_loss + box_loss


def _head(name: str, channels: int, width: int, bias: Any) -> list[Any]:
    """Return layers, shared by all levels, with `width` outputs per anchor."""
    stack = [
        layers.Conv2D(channels, 3, padding="same", activation="relu", kernel_initializer="he_normal", name=f"{name}{i}")
        for i in range(1, DEPTH + 1)
    ]
    small = keras.initializers.RandomNormal(stddev=0.01)
    last = layers.Conv2D(
        PER_POSITION * width, 3, padding="same", kernel_initializer=small, bias_initializer=bias, name=name
    )
    return [*stack, last]


class Detections(layers.Layer):  # type: ignore[misc]
    """Detected objects, best first: boxes (B, D, 4), scores (B, D) and classes (B, D).

    D is fixed; padding has score 0.
    """

    def __init__(self, places: Any, image: int) -> None:
        super().__init__(dtype="float32")
        self.places, self.image = places, image

    def call(self, outputs: dict[str, Any]) -> dict[str, Any]:
        anchors, classes = outputs["classes"].shape[1:]
        scores = ops.reshape(ops.sigmoid(outputs["classes"]), (-1, anchors * classes))
        best, index = ops.top_k(scores, min(CANDIDATES, anchors * classes))
        boxes = clip(decode(outputs["boxes"], ops.convert_to_tensor(self.places)), self.image)
        boxes, kinds = rows(boxes, index // classes), ops.cast(index % classes, "int32")
        best = ops.where(best >= SCORE, best, 0.0)
        kept, scores = non_maximum_suppression(boxes, best, threshold=OVERLAP, count=DETECTIONS, groups=kinds)
        return {"boxes": rows(boxes, kept), "scores": scores, "classes": rows(kinds, kept)}
