"""CUDA C++ source shared by the tensor-core kernels: 16-bit types and warp-level instructions."""

from __future__ import annotations

from pathlib import Path

HALF, WARP = (Path(__file__).with_name(f"{name}.cu").read_text(encoding="utf-8") for name in ("half", "warp"))
"""Source texts: `HALF`, the 16-bit type selected by `OPTIONS`; `WARP`, ldmatrix, mma.sync and asynchronous copies."""
OPTIONS = {"float16": ("--std=c++17",), "bfloat16": ("--std=c++17", "-DBFLOAT16")}
"""Compiler options by type."""
