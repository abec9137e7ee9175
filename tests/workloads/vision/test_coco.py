"""Perfect detections score 1, and wrong ones their known share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accelbench.workloads.vision.coco import ImageDetections, mean_average_precision, mean_iou, paste
from accelbench.workloads.vision.scenes import Scene
from accelbench.workloads.vision.shapes import drawn_shapes
from accelbench.workloads.vision.training import confident, largest_overlap

CLASSES = 3


def scenes(count: int = 12) -> list[Scene]:
    held_out = drawn_shapes(64, seed=4).held_out
    return [held_out[i] for i in range(count)]


def perfect(scene: Scene) -> ImageDetections:
    return ImageDetections(
        scene.boxes, np.linspace(1, 0.6, len(scene.boxes), dtype=np.float32), scene.classes, scene.masks
    )


def shifted(found: ImageDetections, share: float) -> ImageDetections:
    """Move every box to the right by that share of its width."""
    width = found.boxes[:, 2] - found.boxes[:, 0]
    step = np.stack([width, 0 * width, width, 0 * width], axis=1) * np.float32(share)
    return replace(found, boxes=found.boxes + step)


def test_perfect_detections_score_1() -> None:
    true = scenes()
    found = [perfect(scene) for scene in true]
    assert mean_average_precision(true, found, CLASSES, "bbox") == (1.0, 1.0)
    assert mean_average_precision(true, found, CLASSES, "segm") == (1.0, 1.0)
    assert mean_iou(true, found, CLASSES) == 1.0
    assert largest_overlap([replace(one, classes=np.arange(len(one.classes), dtype=np.int32)) for one in found]) == 0


def test_no_detections_score_0() -> None:
    true = scenes()
    nothing = [
        ImageDetections.above(2.0, scene.boxes, np.ones(len(scene.boxes)), scene.classes, scene.masks) for scene in true
    ]
    assert mean_average_precision(true, nothing, CLASSES, "segm") == (0.0, 0.0)
    ground = np.mean([(scene.masks.sum(axis=0) == 0).mean() for scene in true])
    assert mean_iou(true, nothing, CLASSES) == pytest.approx(ground / 4)


def test_the_wrong_class_everywhere_scores_0() -> None:
    true = scenes()
    wrong = [replace(perfect(scene), classes=(scene.classes + 1) % CLASSES) for scene in true]
    assert mean_average_precision([replace(s, classes=s.classes * 0) for s in true], wrong, CLASSES, "bbox")[1] < 0.8
    alone = [replace(s, boxes=s.boxes[:1], classes=s.classes[:1], masks=s.masks[:1]) for s in true]
    wrong = [replace(perfect(scene), classes=(scene.classes + 1) % CLASSES) for scene in alone]
    assert mean_average_precision(alone, wrong, CLASSES, "bbox") == (0.0, 0.0)


def test_shifted_boxes_count_at_the_thresholds_that_they_reach() -> None:
    """A box shifted by about a quarter of its width has an IoU near 0.58: correct at 0.5 and 0.55 of ten thresholds."""
    alone = [replace(s, boxes=s.boxes[:1], classes=s.classes[:1] * 0) for s in scenes()]
    average, at_half = mean_average_precision(alone, [shifted(perfect(s), 0.27) for s in alone], CLASSES, "bbox")
    assert (average, at_half) == pytest.approx((0.2, 1.0))
    assert mean_average_precision(alone, [shifted(perfect(s), 0.5) for s in alone], CLASSES, "bbox") == (0.0, 0.0)


def test_half_of_the_objects_found_is_half_the_average_precision() -> None:
    alone = [replace(s, boxes=s.boxes[:1], classes=s.classes[:1] * 0) for s in scenes(20)]
    nothing = ImageDetections(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int32))
    half = [perfect(s) if i % 2 else nothing for i, s in enumerate(alone)]
    # COCO averages over 101 recall values, of which 0.00 to 0.50 are reached.
    assert mean_average_precision(alone, half, CLASSES, "bbox") == pytest.approx((51 / 101, 51 / 101))


def test_mean_iou_counts_pixels_of_each_class() -> None:
    """Two of four columns are class 0, three are predicted. IoU of background: 1 of 2; of the class: 2 of 3."""
    mask = np.zeros((1, 4, 4), np.uint8)
    mask[0, :, :2] = 1
    more = np.zeros((1, 4, 4), np.uint8)
    more[0, :, :3] = 1
    box, kind = np.array([[0, 0, 2, 4]], np.float32), np.zeros(1, np.int32)
    scene = Scene(np.zeros((4, 4, 3), np.uint8), box, kind, mask)
    said = ImageDetections(box, np.ones(1, np.float32), kind, more)
    assert mean_iou([scene], [said], CLASSES) == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_the_mask_with_the_higher_score_determines_a_pixel() -> None:
    mask = np.ones((1, 4, 4), np.uint8)
    box, scene_class = np.array([[0, 0, 4, 4]], np.float32), np.array([1], np.int32)
    scene = Scene(np.zeros((4, 4, 3), np.uint8), box, scene_class, mask)
    both = ImageDetections(
        box.repeat(2, 0), np.array([0.9, 0.8], np.float32), np.array([1, 2], np.int32), mask.repeat(2, 0)
    )
    assert mean_iou([scene], [both], CLASSES) == pytest.approx(1.0)
    assert len(confident([replace(both, scores=both.scores - np.float32(0.35))])[0].scores) == 1


def test_a_mask_is_scaled_to_its_box() -> None:
    mask = np.zeros((1, 2, 2), np.float32)
    mask[0, :, 1] = 1
    pasted = paste(mask, np.array([[2, 3, 10, 7]], np.float32), 12)[0]
    expected = np.zeros((12, 12), np.uint8)
    expected[3:7, 6:10] = 1
    assert pasted.tolist() == expected.tolist()


def test_the_largest_overlap_compares_objects_of_one_class() -> None:
    boxes = np.array([[0, 0, 10, 10], [5, 0, 15, 10], [0, 0, 10, 10]], np.float32)
    found = ImageDetections(boxes, np.ones(3, np.float32), np.array([0, 0, 1], np.int32))
    assert largest_overlap([found]) == pytest.approx(1 / 3)
    assert largest_overlap([replace(found, classes=np.array([0, 0, 0], np.int32))]) == pytest.approx(1.0)
