"""Parts of detection and segmentation: anchors, boxes, matching, pyramid, RoIAlign, drawn scenes, COCO's measures."""
