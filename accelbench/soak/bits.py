"""Comparison of the bits of arrays of NumPy or CuPy, and a flipped bit to test it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

AT_ONCE = 1 << 20
"""Number of elements compared at a time, which limits the extra memory to 1 MiB."""


@dataclass(frozen=True)
class BitDifference:
    """Elements of an array that differ in their bits."""

    array: int
    """Number of the array, from 0."""
    element: int
    """Flat index of the first element that differs."""
    elements: int
    """Number of elements that differ."""
    first_byte: int
    """Offset in the array of the first byte of the first element."""
    last_byte: int
    """Offset in the array of the last byte of the last element."""
    bytes: int
    """Size of the array in bytes."""
    expected: str
    """Bits of the first element as a hexadecimal number."""
    found: str

    @property
    def flipped(self) -> int:
        """Return the number of bits of the first element that differ."""
        return (int(self.expected, 16) ^ int(self.found, 16)).bit_count()


def first_difference(expected: Sequence[Any], found: Sequence[Any]) -> BitDifference | None:
    """Return the difference of the first arrays that differ in a bit, else None; raise ValueError if shapes differ."""
    if len(expected) != len(found):
        raise ValueError(f"{len(found)} arrays, {len(expected)} expected")
    for number, (right, wrong) in enumerate(zip(expected, found, strict=True)):
        if difference := _difference(number, right, wrong):
            return difference
    return None


def _difference(number: int, expected: Any, found: Any) -> BitDifference | None:
    if expected.shape != found.shape or expected.dtype != found.dtype:
        raise ValueError(f"{found.dtype}{found.shape} found, {expected.dtype}{expected.shape} expected")
    right, wrong = bits_of(expected), bits_of(found)
    first, last, count = 0, 0, 0
    for begin in range(0, len(right), AT_ONCE):
        different = right[begin : begin + AT_ONCE] != wrong[begin : begin + AT_ONCE]
        if bool(different.any()):
            places = different.nonzero()[0]
            first = first if count else begin + int(places[0])
            last, count = begin + int(places[-1]), count + len(places)
    if not count:
        return None
    size = right.dtype.itemsize
    return BitDifference(
        array=number,
        element=first,
        elements=count,
        first_byte=first * size,
        last_byte=(last + 1) * size - 1,
        bytes=len(right) * size,
        expected=f"{int(right[first]):#0{2 * size + 2}x}",
        found=f"{int(wrong[first]):#0{2 * size + 2}x}",
    )


def bits_of(array: Any) -> Any:
    """Return the elements of an array as unsigned integers of the same size, flat; a view of a contiguous array."""
    size = array.dtype.itemsize
    return array.reshape(-1).view(f"u{size}" if size in (1, 2, 4, 8) else "u1")


def flip_bit(arrays: Sequence[Any], rng: np.random.Generator) -> tuple[int, int, int]:
    """Flip a random bit of contiguous arrays; return the number of the array, the element and the bit."""
    views = [bits_of(array) for array in arrays]
    sizes = np.array([view.nbytes for view in views], dtype=np.float64)
    number = int(rng.choice(len(views), p=sizes / sizes.sum()))
    view = views[number]
    element, bit = int(rng.integers(len(view))), int(rng.integers(8 * view.dtype.itemsize))
    view[element] ^= view.dtype.type(1 << bit)
    return number, element, bit
