"""Building blocks of detection and segmentation: anchors, boxes, matching, pyramid, RoIAlign, scenes, COCO metrics."""
