"""CUDA C++ that the tensor-core kernels share: the 16-bit types, and the instructions of a warp."""

from __future__ import annotations

from pathlib import Path

HALF, WARP = (Path(__file__).with_name(f"{name}.cu").read_text(encoding="utf-8") for name in ("half", "warp"))
"""Source text: the 16-bit type that `OPTIONS` selects, and `ldmatrix`, `mma.sync` and asynchronous copies."""
OPTIONS = {"float16": ("--std=c++17",), "bfloat16": ("--std=c++17", "-DBFLOAT16")}
"""The compiler options of each type."""
