"""Stand-in for CuPy's cuBLAS: checks the number of arguments and computes nothing."""

from __future__ import annotations

from typing import Any


def setMathMode(handle: int, mode: int) -> None: ...


def gemmEx(*arguments: Any) -> None:
    if len(arguments) != 19:
        raise TypeError(f"gemmEx takes 19 arguments, not {len(arguments)}")


def gemmStridedBatchedEx(*arguments: Any) -> None:
    if len(arguments) != 23:
        raise TypeError(f"gemmStridedBatchedEx takes 23 arguments, not {len(arguments)}")
