"""Regions of Mask R-CNN: proposals from anchors, samples for training, and final objects.

S. Ren et al., "Faster R-CNN", 2015; hyperparameters from He et al., "Mask R-CNN", ICCV 2017, section 3.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import layers, ops

from accelbench.workloads.vision.boxes import clip, decode
from accelbench.workloads.vision.matching import match, rows
from accelbench.workloads.vision.nms import non_maximum_suppression

PROPOSAL_OVERLAP, OBJECT_OVERLAP = 0.7, 0.5
"""Maximum overlap of two proposals, and of two detected objects."""
REGION_OVERLAP = 0.5
"""Minimum overlap of a positive region with its object."""
POSITIVE_PART = 4
"""One in `POSITIVE_PART` training regions is positive."""
CANDIDATES = 4
"""Number of anchors considered per proposal."""
BOX_SCALE = (10.0, 10.0, 5.0, 5.0)
"""Scale of the regions' box codes, which brings them to about 1 (Girshick, "Fast R-CNN", 2015)."""
SCORE = 0.05
"""Minimum score of a detected object."""
LOT = 7
"""Seed of the sampling order, which is constant; the proposals it applies to change from step to step."""


class Proposals(layers.Layer):  # type: ignore[misc]
    """Boxes (B, N, 4) with the highest objectness, best first, from logits (B, A, 1) and codes (B, A, 4).

    Padded with empty boxes; gradients are stopped.
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
    """Regions (B, R, 4) to train on, and their first quarter, which holds the positive ones.

    They are sampled from the proposals (B, N, 4) and the true boxes (B, M, 4). With too few positive regions the
    quarter is filled with others.
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
    """Detected objects, best first: `boxes` (B, D, 4), `scores` (B, D) and `classes` (B, D).

    Computed from regions (B, N, 4), their logits (B, N, 1 + K) and box codes (B, N, K, 4). D is fixed; padding has
    score 0.
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
