"""What detection and segmentation share: anchors, boxes, matching, pyramid, RoIAlign, drawn scenes, COCO's measures."""
