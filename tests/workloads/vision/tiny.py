"""The two detectors on a small backbone, trained for a few steps on one batch; also a program.

`python -m tests.workloads.vision.tiny NAME FOLDER` prints the losses as JSON, starting from the weights in the folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

MODELS = ("retinanet", "mask_rcnn")
SIZE, BATCH, CHANNELS, CLASSES = 64, 2, 8, 3


def backbone(image: Any) -> list[Any]:
    """Return features of strides 4, 8, 16 and 32 from five convolutions."""
    from keras import layers

    features = layers.Rescaling(1 / 127.5, offset=-1)(image)
    levels = []
    for channels in (8, 16, 16, 24, 32):
        features = layers.Conv2D(channels, 3, strides=2, padding="same", activation="relu")(features)
        levels.append(features)
    return levels[1:]


def build(name: str) -> tuple[Any, Any]:
    """Return the model to train and its detector."""
    import keras

    from accelbench.workloads.vision.mask_rcnn import mask_rcnn
    from accelbench.workloads.vision.retinanet import retinanet
    from accelbench.workloads.vision.shapes import MOST

    image = keras.Input((SIZE, SIZE, 3), dtype="uint8")
    if name == "retinanet":
        return retinanet(image, backbone(image)[1:], CLASSES, CHANNELS)
    truth = keras.Input((MOST, 4), dtype="float32")
    return mask_rcnn(image, truth, backbone(image), CLASSES, CHANNELS)


def batch_of(name: str) -> Any:
    """Return one batch of synthetic scenes, as NumPy arrays."""
    import numpy as np
    from keras import tree

    from accelbench.workloads.vision.scenes import DetectionExamples, MaskExamples
    from accelbench.workloads.vision.shapes import MOST, drawn_shapes

    kind = DetectionExamples if name == "retinanet" else MaskExamples
    examples = kind(drawn_shapes(SIZE, seed=1).train, MOST)
    return tree.map_structure(lambda *parts: np.stack(parts), *(examples[i] for i in range(BATCH)))


def losses(name: str, weights: list[Any] | None = None, steps: int = 4, **options: Any) -> list[float]:
    """Return the losses of `steps` steps with Adam; `options` go to `compile`."""
    import keras

    keras.utils.set_random_seed(5)
    model, _ = build(name)
    if weights is not None:
        model.set_weights(weights)
    model.compile(keras.optimizers.Adam(1e-3), **options)
    x, y = batch_of(name)
    found = []
    for _ in range(steps):
        found.append(float(model.train_on_batch(x, y, return_dict=True)["loss"]))
        model.reset_metrics()
    return found


def weights_of(file: Path) -> list[Any]:
    import numpy as np

    with np.load(file) as arrays:
        return [arrays[f"arr_{i}"] for i in range(len(arrays.files))]


if __name__ == "__main__":
    import keras

    given = weights_of(Path(sys.argv[2], f"{sys.argv[1]}.npz"))
    # JAX takes longer without compilation.
    print(json.dumps(losses(sys.argv[1], given, jit_compile=keras.backend.backend() == "jax")))
