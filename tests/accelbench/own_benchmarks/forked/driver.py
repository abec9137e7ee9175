"""Initialises CUDA's driver as it is imported."""

import ctypes

from forked.plain import prepare

__all__ = ["prepare"]

ctypes.CDLL("libcuda.so.1").cuInit(0)
