"""Regions of Mask R-CNN: proposed from anchors, drawn by lot to train on, and in the end the objects found.

S. Ren et al., "Faster R-CNN", 2015; the numbers are those of He et al., "Mask R-CNN", ICCV 2017, section 3.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import layers, ops

from accelbench.workloads.vision.boxes import clip, decode
from accelbench.workloads.vision.matching import match, rows
from accelbench.workloads.vision.nms import non_maximum_suppression

PROPOSAL_OVERLAP, OBJECT_OVERLAP = 0.7, 0.5
"""The overlaps that two proposals, and two objects found, may have at most."""
REGION_OVERLAP = 0.5
"""The overlap with an object from which on a region has to find it."""
POSITIVE_PART = 4
"""One in so many regions trained on is positive."""
CANDIDATES = 4
"""The number of anchors considered, per proposal."""
BOX_SCALE = (10.0, 10.0, 5.0, 5.0)
"""The factor of the box codes of regions, which are small: it brings them to about 1 (Girshick, "Fast R-CNN", 2015)."""
SCORE = 0.05
"""The least score of an object found."""
LOT = 7
"""The seed of the lots. They are drawn once: which proposals hold the lots changes from step to step."""


class Proposals(layers.Layer):  # type: ignore[misc]
    """The boxes (B, N, 4) that most probably hold an object, best first, from logits (B, A, 1) and codes (B, A, 4).

    Where fewer than N are left, empty boxes fill up. They are constants to the gradient.
    """

    def __init__(self, places: Any, *, image: int, count: int) -> None:
        super().__init__(dtype="float32")
        self.places, self.image, self.count = places, image, count

    def call(self, logits: Any, codes: Any) -> Any:
        scores, best = ops.top_k(ops.sigmoid(logits[..., 0]), min(CANDIDATES * self.count, len(self.places)))
        boxes = clip(decode(codes, ops.convert_to_tensor(self.places)), self.image)
        boxes = ops.stop_gradient(rows(boxes, best))
        kept, scores = non_maximum_suppression(boxes, scores, threshold=PROPOSAL_OVERLAP, count=self.count)
        return ops.where(scores[..., None] > 0, rows(boxes, kept), 0.0)

    def products(self) -> int:
        return 0


class TrainingRegions(layers.Layer):  # type: ignore[misc]
    """The regions (B, R, 4) to train on, and their first quarter, which is positive as far as positive ones are there.

    They are drawn by lot from the proposals (B, N, 4) and the true boxes (B, M, 4).
    """

    def __init__(self, *, count: int) -> None:
        super().__init__(dtype="float32")
        self.count = count

    def call(self, proposals: Any, truth: Any) -> tuple[Any, Any]:
        regions = ops.concatenate([proposals, truth], axis=1)
        lots = np.random.default_rng(LOT).random(regions.shape[1], np.float32)
        found = match(regions, truth, positive=REGION_OVERLAP, negative=REGION_OVERLAP)
        inner = self.count // POSITIVE_PART
        _, positive = ops.top_k(ops.cast(found.positive, "float32") + lots, inner)
        _, negative = ops.top_k(ops.cast(found.negative, "float32") + lots, self.count - inner)
        drawn = ops.stop_gradient(rows(regions, ops.concatenate([positive, negative], axis=1)))
        return drawn, drawn[:, :inner]

    def products(self) -> int:
        return 0


class Objects(layers.Layer):  # type: ignore[misc]
    """The objects found, best first: `boxes` (B, D, 4), `scores` (B, D) and `classes` (B, D).

    Made of regions (B, N, 4), their logits (B, N, 1 + K) and box codes (B, N, K, 4). There are always D of them; those
    that are none have score 0.
    """

    def __init__(self, *, image: int, count: int) -> None:
        super().__init__(dtype="float32")
        self.image, self.count = image, count

    def call(self, regions: Any, logits: Any, codes: Any) -> dict[str, Any]:
        count, classes = codes.shape[1:3]
        scores = ops.reshape(ops.softmax(logits, axis=-1)[..., 1:], (-1, count * classes))
        boxes = clip(decode(codes, ops.expand_dims(regions, 2), BOX_SCALE), self.image)
        boxes = ops.reshape(boxes, (-1, count * classes, 4))
        kinds = ops.broadcast_to(ops.arange(count * classes, dtype="int32") % classes, ops.shape(scores))
        scores = ops.where(scores >= SCORE, scores, 0.0)
        kept, best = non_maximum_suppression(boxes, scores, threshold=OBJECT_OVERLAP, count=self.count, groups=kinds)
        return {"boxes": rows(boxes, kept), "scores": best, "classes": rows(kinds, kept)}
