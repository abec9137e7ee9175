"""Mask R-CNN: proposes regions, then predicts a class, a refined box and a mask for each.

K. He, G. Gkioxari, P. Dollár and R. Girshick, "Mask R-CNN", ICCV 2017, on a feature pyramid (its figure 4, right). The
paper's numbers of regions are for images of about 1,024 pixels; for smaller images they scale with the side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers, ops

from accelbench.workloads.vision.anchors import RATIOS, anchors
from accelbench.workloads.vision.boxes import encode
from accelbench.workloads.vision.losses import binary_cross_entropy, mean_where, smooth_l1
from accelbench.workloads.vision.matching import match, rows
from accelbench.workloads.vision.pyramid import feature_pyramid, over_levels
from accelbench.workloads.vision.regions import BOX_SCALE, REGION_OVERLAP, Objects, Proposals, TrainingRegions
from accelbench.workloads.vision.roi_align import RoIAlign, bilinear, sample_points

STRIDES = (4, 8, 16, 32, 64)
SIDE = 8
"""Side of the anchors in strides: 32 pixels on the finest level."""
POSITIVE, NEGATIVE = 0.7, 0.3
"""Minimum overlap of a positive anchor, and maximum overlap of a negative one."""
SAMPLE = 256
"""Number of anchors per image that the paper samples for the loss, at most half of them positive."""
UNITS, BOX_SIZE, MASK_SIZE, DEPTH = 1024, 7, 14, 4
"""Units of the box head, sides of the features of both heads, and number of convolutions of the mask head."""


def mask_rcnn(image: Any, truth: Any, features: Sequence[Any], classes: int, channels: int) -> tuple[MaskRCNN, Any]:
    """Return the model to train, and the segmenter with the same weights.

    `image` and the true boxes `truth` (B, M, 4) are inputs of fixed size; `features`, of strides 4, 8, 16 and 32, are
    computed from the image. The segmenter maps images of bytes to the output of `Objects` and `masks` (B, D, 28, 28).
    """
    size = image.shape[1]
    levels = feature_pyramid(features, channels)
    coarser = layers.MaxPooling2D(1, strides=2, name="level5")(levels[-1])
    shared = layers.Conv2D(channels, 3, padding="same", activation="relu", name="rpn")
    hidden = [shared(level) for level in (*levels, coarser)]
    logits = over_levels([layers.Conv2D(len(RATIOS), 1, name="rpn_class")], hidden, 1)
    codes = over_levels([layers.Conv2D(4 * len(RATIOS), 1, name="rpn_box")], hidden, 4)
    places = anchors(size, STRIDES, SIDE)
    proposals = Proposals(places, image=size, count=size)(logits, codes)

    box_head, mask_head = _box_head(classes, levels, size), _mask_head(classes, channels, levels, size)
    regions, inner = TrainingRegions(count=size // 2)(proposals, truth)
    region_logits, region_codes = box_head(regions)
    outputs = {
        "anchor_logits": logits,
        "anchor_codes": codes,
        "regions": regions,
        "region_logits": region_logits,
        "region_codes": region_codes,
        "masks": mask_head(inner),
    }
    model = MaskRCNN(places, inputs=[image, truth], outputs=outputs, name="mask_rcnn")

    objects = Objects(image=size, count=size // 8)(proposals, *box_head(proposals))
    masks = OwnMask()(mask_head(objects["boxes"]), objects["classes"])
    return model, keras.Model(image, {**objects, "masks": masks})


class MaskRCNN(keras.Model):  # type: ignore[misc]
    """Model from images of bytes and true boxes to the inputs of the losses, as returned by `mask_rcnn`."""

    def __init__(self, places: Any, **graph: Any) -> None:
        super().__init__(**graph)
        self.places = places
        names = ("anchor_class", "anchor_box", "region_class", "region_box", "mask")
        self.parts = [keras.metrics.Mean(name=f"{name}_loss") for name in names]

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """Return the sum of five losses: objectness and box of anchors, and class, box and mask of regions."""
        losses = (*self._anchor_losses(y, y_pred), *self._region_losses(y, y_pred))
        for part, loss in zip(self.parts, losses, strict=True):
            part.update_state(loss)
        return sum(losses)

    def _anchor_losses(self, y: Any, y_pred: Any) -> tuple[Any, Any]:
        """Return the cross-entropy of the paper's sample of anchors, and the smooth L1 loss of the positive ones.

        The expectation over random samples replaces a sample: each positive and each negative anchor is weighted with
        its expected number of occurrences.
        """
        places = ops.convert_to_tensor(self.places)
        found = match(places, y["boxes"], positive=POSITIVE, negative=NEGATIVE, rescue=True)
        positive, negative = ops.cast(found.positive, "float32"), ops.cast(found.negative, "float32")
        count = ops.sum(positive, axis=1, keepdims=True)
        drawn = ops.minimum(count, SAMPLE / 2)
        others = ops.maximum(ops.sum(negative, axis=1, keepdims=True), 1.0)
        weight = positive * drawn / ops.maximum(count, 1.0) + negative * (SAMPLE - drawn) / others
        entropy = binary_cross_entropy(y_pred["anchor_logits"][..., 0], positive)
        codes = encode(rows(y["boxes"], found.truth), places)
        return (
            ops.mean(ops.sum(weight * entropy, axis=1)) / SAMPLE,
            mean_where(found.positive, smooth_l1(y_pred["anchor_codes"], codes)),
        )

    def _region_losses(self, y: Any, y_pred: Any) -> tuple[Any, Any, Any]:
        regions, logits = y_pred["regions"], y_pred["region_logits"]
        found = match(regions, y["boxes"], positive=REGION_OVERLAP, negative=REGION_OVERLAP)
        kinds = ops.where(found.positive, rows(y["classes"], found.truth), -1)
        own = ops.one_hot(kinds, logits.shape[-1] - 1, dtype="float32")  # (B, R, K), zeros for the background
        log_probability = ops.log_softmax(logits, axis=-1)
        entropy = -ops.where(found.positive, ops.sum(own * log_probability[..., 1:], axis=-1), log_probability[..., 0])
        code = ops.sum(own[..., None] * y_pred["region_codes"], axis=2)
        target = encode(rows(y["boxes"], found.truth), regions, BOX_SCALE)

        inner = y_pred["masks"].shape[1]
        own, positive = own[:, :inner], found.positive[:, :inner]
        mask_logits = ops.sum(own[:, :, None, None] * y_pred["masks"], axis=-1)
        masks = mask_targets(y["masks"], regions[:, :inner], found.truth[:, :inner], mask_logits.shape[2])
        mask_entropy = ops.mean(binary_cross_entropy(mask_logits, masks), axis=(2, 3))
        return (
            ops.mean(entropy),
            mean_where(found.positive, smooth_l1(code, target)),
            mean_where(positive, mask_entropy),
        )


def mask_targets(masks: Any, regions: Any, truth: Any, size: int) -> Any:
    """Return the mask (B, N, size, size) of each region's object within the region, 0 or 1.

    `masks` (B, M, S, S) are the masks of all objects, and `truth` (B, N) is the index of each region's object.
    """
    objects, side = masks.shape[1], masks.shape[2]
    maps = ops.reshape(ops.cast(masks, "float32"), (-1, objects * side * side, 1))
    truth = ops.cast(truth, "int32")
    values = bilinear(maps, truth * side * side, ops.full_like(truth, side), *sample_points(regions, size))
    return ops.cast(values[..., 0] >= 0.5, "float32")


def _box_head(classes: int, levels: Sequence[Any], size: int) -> Any:
    """Return the head from regions (B, R, 4) to logits (B, R, 1 + K), background first, and codes (B, R, K, 4)."""
    align = RoIAlign(BOX_SIZE, size)
    dense = [layers.Dense(UNITS, activation="relu", name=f"box_hidden{i}") for i in (1, 2)]
    logits, codes = layers.Dense(1 + classes, name="class"), layers.Dense(4 * classes, name="box")

    def call(regions: Any) -> tuple[Any, Any]:
        aligned = align(regions, levels)
        hidden = layers.Reshape((regions.shape[1], -1))(aligned)
        for layer in dense:
            hidden = layer(hidden)
        by_class = layers.Reshape((regions.shape[1], classes, 4), dtype="float32")(codes(hidden))
        return layers.Activation("linear", dtype="float32")(logits(hidden)), by_class

    return call


def _mask_head(classes: int, channels: int, levels: Sequence[Any], size: int) -> Any:
    """Return the head from regions (B, R, 4) to mask logits (B, R, 28, 28, K)."""
    align, draw = RoIAlign(MASK_SIZE, size), MaskHead(classes, channels)
    return lambda regions: layers.Activation("linear", dtype="float32")(draw(align(regions, levels)))


class MaskHead(layers.Layer):  # type: ignore[misc]
    """Layer from region features (B, R, s, s, C) to mask logits of every class, (B, R, 2s, 2s, K)."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__(name="mask_head")
        self.classes, self.channels = classes, channels
        self.convolutions = [
            layers.Conv2D(channels, 3, padding="same", activation="relu", name=f"mask{i}") for i in range(1, DEPTH + 1)
        ]
        self.larger = layers.Conv2DTranspose(channels, 2, strides=2, activation="relu", name="mask_larger")
        self.logits = layers.Conv2D(classes, 1, name="mask")

    def build(self, shape: tuple[Any, ...]) -> None:
        self.regions, self.side = shape[1:3]
        inner = (None, *shape[2:])
        for layer in (*self.convolutions, self.larger, self.logits):
            layer.build(inner)
            inner = layer.compute_output_shape(inner)

    def call(self, features: Any) -> Any:
        values = ops.reshape(features, (-1, *features.shape[2:]))
        for layer in (*self.convolutions, self.larger, self.logits):
            values = layer(values)
        return ops.reshape(values, (-1, features.shape[1], *values.shape[1:]))

    def products(self) -> int:
        """Return the multiply-adds per image: 3×3 convolutions; 2s × 2s pixels from one input pixel each; and 1×1."""
        area = int(self.side) ** 2
        convolutions = area * 9 * self.channels * self.channels * DEPTH
        return int(self.regions * (convolutions + 4 * area * self.channels * (self.channels + self.classes)))


class OwnMask(layers.Layer):  # type: ignore[misc]
    """Layer that selects each object's class (B, D) from mask logits (B, D, s, s, K): probabilities (B, D, s, s)."""

    def __init__(self) -> None:
        super().__init__(dtype="float32")

    def call(self, logits: Any, kinds: Any) -> Any:
        own = ops.one_hot(kinds, logits.shape[-1], dtype="float32")
        return ops.sigmoid(ops.sum(logits * own[:, :, None, None], axis=-1))
