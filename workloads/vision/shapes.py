"""Synthetic scenes of plain discs, striped squares and chequered triangles, with exact boxes, classes and masks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelbench.workloads.vision.scenes import Scene, SceneData

CORNERS = {"disc": 0, "square": 4, "triangle": 3}
STRIPES = {"disc": 0, "square": 1, "triangle": 2}
"""Number of stripe directions per shape."""
MOST = 4
RADII = (0.12, 0.22)
"""Radius range of a disc, as shares of the image's side; other shapes have the area of such a disc."""
SEEN = 0.7
"""Minimum share of a shape that later ones leave visible."""
TRIES = 20
"""Number of positions tried for a shape, which is omitted if none fits."""
CONTRAST = 90
"""Minimum colour distance of shape and background, at most 255·√3; also the contrast of dark and bright stripes."""
PERIODS = 14
"""Number of stripe periods per image side."""
WAVES, GRAIN = 25, 8
"""Amplitude of the background's waves, and standard deviation of the pixel noise."""
TRAIN, HELD_OUT = 1_000, 100


@dataclass(frozen=True)
class Shapes:
    """Scenes generated from (seed, index) alone: identical in any order, on any machine."""

    size: int
    seed: int
    first: int
    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Scene:
        if not 0 <= index < self.count:
            raise IndexError(index)
        return draw(np.random.default_rng([self.seed, self.first + index]), self.size)


def drawn_shapes(size: int, seed: int, train: int = TRAIN, held_out: int = HELD_OUT) -> SceneData:
    return SceneData(
        source=f"synthetic: {train + held_out:,} drawn scenes of 1 to {MOST} shapes, seed {seed}",
        synthetic=True,
        classes=tuple(CORNERS),
        most=MOST,
        train=Shapes(size, seed, 0, train),
        held_out=Shapes(size, seed, train, held_out),
    )


def draw(rng: np.random.Generator, size: int) -> Scene:
    """Return a scene of 1 to `MOST` shapes; later shapes cover earlier ones."""
    ground = rng.uniform(0, 255, 3)
    image = ground + WAVES * _wave(rng, size, rng.uniform(1, 4), rng.uniform(0, 2 * math.pi))
    masks = np.zeros((0, size, size), bool)
    classes: list[int] = []
    for _ in range(int(rng.integers(1, MOST + 1))):
        kind = int(rng.integers(len(CORNERS)))
        placed = _place(rng, size, list(CORNERS.values())[kind], masks)
        if placed is not None:
            masks = np.concatenate([masks & ~placed, placed[None]])
            classes.append(kind)
            pattern = _stripes(rng, size, list(STRIPES.values())[kind])
            image[placed] = _colour(rng, ground) + pattern[placed]
    return Scene(
        image=np.clip(image + rng.normal(0, GRAIN, image.shape), 0, 255).astype(np.uint8),
        boxes=np.stack([bounds(mask) for mask in masks]),
        classes=np.array(classes, np.int32),
        masks=masks.astype(np.uint8),
    )


def bounds(mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the bounding box of a non-empty mask (H, W)."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1], np.float32)


def _place(rng: np.random.Generator, size: int, corners: int, others: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """Return a shape within the image that covers none of the others too much; None if no position is found.

    `others` (n, S, S) are the visible parts of earlier shapes.
    """
    whole = others.sum(axis=(1, 2))
    for _ in range(TRIES):
        radius = rng.uniform(*RADII) * size
        reach = _circumradius(corners, radius)
        x, y = rng.uniform(reach, size - reach, 2)
        mask = _shape(size, corners, radius, x, y, rng.uniform(0, 2 * math.pi))
        if not others.size or ((others & ~mask).sum(axis=(1, 2)) >= SEEN * whole).all():
            return mask
    return None


def _circumradius(corners: int, radius: float) -> float:
    """Return R of the regular polygon with the area of a disc of that radius: n/2·R²·sin(2π/n) = π·r²."""
    if corners == 0:
        return radius
    return radius * math.sqrt(2 * math.pi / (corners * math.sin(2 * math.pi / corners)))


def _shape(size: int, corners: int, radius: float, x: float, y: float, turn: float) -> NDArray[np.bool_]:
    """Return the mask of pixels with their centre in the shape: within the circle, or inside of all edges."""
    across, down = np.arange(size) + 0.5 - x, (np.arange(size) + 0.5 - y)[:, None]
    if corners == 0:
        return np.asarray(across**2 + down**2 <= radius**2)
    apothem = _circumradius(corners, radius) * math.cos(math.pi / corners)
    angles = turn + 2 * math.pi * np.arange(corners) / corners
    distances = [math.cos(angle) * across + math.sin(angle) * down for angle in angles]
    return np.asarray(np.max(distances, axis=0) <= apothem)


def _colour(rng: np.random.Generator, ground: NDArray[np.float64]) -> NDArray[np.float64]:
    while True:
        colour = rng.uniform(0, 255, 3)
        if np.linalg.norm(colour - ground) >= CONTRAST:
            return colour


def _stripes(rng: np.random.Generator, size: int, directions: int) -> NDArray[np.float64]:
    """Return the brightness offset (S, S, 1): uniform, striped, or a chequerboard of two stripe directions."""
    if directions == 0:
        return np.zeros((size, size, 1))
    turn = rng.uniform(0, 2 * math.pi)
    waves = [_wave(rng, size, PERIODS, turn + i * math.pi / 2) for i in range(directions)]
    return np.asarray(CONTRAST / 2 * np.sign(np.prod(waves, axis=0)))


def _wave(rng: np.random.Generator, size: int, periods: float, angle: float) -> NDArray[np.float64]:
    """Return a sine from -1 to 1 with `periods` periods across the image, (S, S, 1)."""
    places = np.arange(size) / size
    along = math.cos(angle) * places + math.sin(angle) * places[:, None]
    return np.sin(2 * math.pi * periods * along + rng.uniform(0, 2 * math.pi))[..., None]
