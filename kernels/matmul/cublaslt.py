"""Products of int8, fp8 and block-scaled types by NVIDIA's cuBLASLt, through ctypes.

Enumerators are from library_types.h, cublas_api.h and cublasLt.h of CUDA 12.9, with their names. cuBLASLt is
column-major and requires the first matrix transposed and the second one not for these types ("TN", cuBLAS manual,
cublasLtMatmul). A row-major product with B stored by columns has this form: Cᵀ = Bᵀ·Aᵀ.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from accelbench.kernels.matmul.gpu_task import MatmulOperands
from accelbench.kernels.matmul.shapes import Product
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.nvidia.cuda import library

CUBLAS_STATUS_SUCCESS = 0
CUBLAS_STATUS_NOT_SUPPORTED = 15
CUBLAS_OP_N, CUBLAS_OP_T = 0, 1
CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB = 3, 4
CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 17, 18
CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE = 31, 32
CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 = 1, 2
CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 5, 6
CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1
WORKSPACE = 32 << 20
"""Workspace size in bytes: recommended by the cuBLAS manual for Hopper and later (cublasSetWorkspace)."""


@dataclass(frozen=True)
class CublasLtTypes:
    """Enumerators of a type for cuBLASLt."""

    data_type: int
    result_type: int
    compute_type: int
    scale_type: int
    scalar: Any
    scale_mode: int | None = None
    """Mode of the scales of A and B; None for types without scales."""


ARITHMETIC = {
    # CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, CUDA_R_32I
    "int8": CublasLtTypes(3, 10, 72, 10, c_int32),
    # CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F; without "fast accumulation"
    "fp8": CublasLtTypes(28, 14, 68, 0, c_float),
    "mxfp8": CublasLtTypes(28, 14, 68, 0, c_float, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0),
    # CUDA_R_4F_E2M1
    "nvfp4": CublasLtTypes(33, 14, 68, 0, c_float, CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3),
}
BLOCK_SCALED_VERSION = 120800
"""First version of cuBLASLt with block-scaled types, as `cublasLtGetVersion` returns it: 12.8."""


class Algorithm(ctypes.Structure):
    """cublasLtMatmulAlgo_t."""

    _fields_ = [("data", c_uint64 * 8)]


class HeuristicResult(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = [
        ("algo", Algorithm),
        ("workspace_size", c_size_t),
        ("state", c_int),
        ("waves_count", c_float),
        ("reserved", c_int * 4),
    ]


class Library:
    """Functions of cuBLASLt; errors are raised as RuntimeError with the name of the status."""

    def __init__(self, path: str) -> None:
        self._functions = ctypes.CDLL(path)
        self._functions.cublasLtGetStatusName.restype = ctypes.c_char_p
        self._functions.cublasLtGetVersion.restype = c_size_t

    def version(self) -> int:
        """Return the version: 120804 for 12.8.4."""
        return int(self._functions.cublasLtGetVersion())

    def status(self, name: str, *args: Any) -> int:
        """Call `cublasLt<name>` and return its status."""
        status: int = getattr(self._functions, f"cublasLt{name}")(*args)
        return status

    def call(self, name: str, *args: Any) -> None:
        """Call `cublasLt<name>`; RuntimeError unless it succeeds."""
        status = self.status(name, *args)
        if status != CUBLAS_STATUS_SUCCESS:
            raise RuntimeError(f"cublasLt{name}: {self._functions.cublasLtGetStatusName(status).decode()}")

    def create(self, owner: Any, kind: str, *args: Any) -> c_void_p:
        """Return a new handle or descriptor, `cublasLt<kind>Create`, which is destroyed with its owner."""
        made = c_void_p()
        self.call(f"{kind}Create", byref(made), *args)
        # Not at interpreter exit, when the CUDA context may already be destroyed.
        weakref.finalize(owner, self.call, f"{kind}Destroy", made).atexit = False
        return made

    def set(self, kind: str, made: c_void_p, attribute: int, value: Any) -> None:
        """Set an attribute to a ctypes value, by `cublasLt<kind>SetAttribute`."""
        self.call(f"{kind}SetAttribute", made, attribute, byref(value), c_size_t(ctypes.sizeof(value)))


class Multiplication:
    """Descriptors of one product, and the algorithm that cuBLASLt's heuristic prefers for it.

    `scales` are the addresses of the scales of A and B, for a block-scaled type.
    """

    def __init__(self, lt: Library, dtype: str, sizes: Product, scales: tuple[int, int] | None = None) -> None:
        how = ARITHMETIC[dtype]
        self.lt, self.scalar = lt, how.scalar
        self.operation = lt.create(self, "MatmulDesc", how.compute_type, how.scale_type)
        attributes: dict[int, Any] = {
            CUBLASLT_MATMUL_DESC_TRANSA: c_int32(CUBLAS_OP_T),
            CUBLASLT_MATMUL_DESC_TRANSB: c_int32(CUBLAS_OP_N),
        }
        if scales is not None and how.scale_mode is not None:
            attributes |= {
                CUBLASLT_MATMUL_DESC_A_SCALE_MODE: c_int32(how.scale_mode),
                CUBLASLT_MATMUL_DESC_B_SCALE_MODE: c_int32(how.scale_mode),
                CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: c_void_p(scales[1]),
                CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: c_void_p(scales[0]),
            }
        for attribute, value in attributes.items():
            lt.set("MatmulDesc", self.operation, attribute, value)
        self.first = self._layout(how.data_type, sizes.k, sizes.n, sizes.batch)
        self.second = self._layout(how.data_type, sizes.k, sizes.m, sizes.batch)
        self.result = self._layout(how.result_type, sizes.n, sizes.m, sizes.batch)
        self.algorithm = Algorithm()
        """Algorithm, set by `choose`, which must be called before `enqueue`."""

    def choose(self, handle: c_void_p) -> bool:
        """Select the algorithm for the device of the handle by the heuristic; return False if there is none."""
        preference = self.lt.create(self, "MatmulPreference")
        self.lt.set("MatmulPreference", preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, c_uint64(WORKSPACE))
        found, count = HeuristicResult(), c_int(0)
        arguments = (
            handle, self.operation, self.first, self.second, self.result, self.result, preference,
            1, byref(found), byref(count),
        )  # fmt: skip
        status = self.lt.status("MatmulAlgoGetHeuristic", *arguments)
        if status == CUBLAS_STATUS_NOT_SUPPORTED or (status == CUBLAS_STATUS_SUCCESS and count.value == 0):
            return False
        if status != CUBLAS_STATUS_SUCCESS:
            self.lt.call("MatmulAlgoGetHeuristic", *arguments)
        self.algorithm = found.algo
        return True

    def enqueue(self, handle: c_void_p, a: int, b: int, c: int, workspace: int, stream: int) -> None:
        """Enqueue C = A·B on a stream, given the addresses of the matrices (B by columns) and of the workspace."""
        self.lt.call(
            "Matmul", handle, self.operation, byref(self.scalar(1)), c_void_p(b), self.first, c_void_p(a), self.second,
            byref(self.scalar(0)), c_void_p(c), self.result, c_void_p(c), self.result,
            byref(self.algorithm), c_void_p(workspace), c_size_t(WORKSPACE), c_void_p(stream),
        )  # fmt: skip

    def _layout(self, data_type: int, rows: int, columns: int, batch: int) -> c_void_p:
        """Return the layout descriptor of contiguous column-major matrices, consecutive in a batch."""
        sizes = c_uint64(rows), c_uint64(columns), c_int64(rows)
        layout = self.lt.create(self, "MatrixLayout", data_type, *sizes)
        self.lt.set("MatrixLayout", layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, c_int32(batch))
        self.lt.set("MatrixLayout", layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, c_int64(rows * columns))
        return layout


@cache
def _library() -> Library:
    return Library(library("cuda.pathfinder").load_nvidia_dynamic_lib("cublasLt").abs_path)


def require_block_scaled(dtype: str) -> None:
    """Raise Skip if cuBLASLt is older than the block-scaled types."""
    version = _library().version()
    if version < BLOCK_SCALED_VERSION:
        found = ".".join(map(str, divmod(version // 100, 100)))
        raise Skip(f"{dtype} needs cuBLASLt 12.8 or newer, and this is {found}: update the package nvidia-cublas")


def bind(operands: MatmulOperands) -> Callable[[int], None]:
    """Return `run(stream)`, which enqueues the product; Skip if cuBLASLt has no algorithm for it on this device."""
    product = Multiplication(_library(), operands.dtype, operands.padded)
    return enqueued(product, operands.dtype, operands.a, operands.b, operands.c)


def bind_block_scaled(
    dtype: str, sizes: Product, a: Any, b: Any, scales: tuple[Any, Any], c: Any
) -> Callable[[int], None]:
    """Return `run(stream)` as `bind` does, for elements of A and B (by columns) and their scales in device arrays."""
    addresses = scales[0].data.ptr, scales[1].data.ptr
    return enqueued(Multiplication(_library(), dtype, sizes, addresses), dtype, a, b, c)


def enqueued(product: Multiplication, dtype: str, a: Any, b: Any, c: Any) -> Callable[[int], None]:
    """Return `run(stream)`, which enqueues a product; Skip if cuBLASLt has no algorithm for it on this device."""
    handle = product.lt.create(product, "")
    if not product.choose(handle):
        raise Skip(f"cuBLASLt has no algorithm for this product of {dtype} matrices on this device")
    workspace = library("cupy").empty(WORKSPACE, "uint8")
    at_a, at_b, at_c = (matrix.data.ptr for matrix in (a, b, c))

    def run(stream: int) -> None:
        product.enqueue(handle, at_a, at_b, at_c, workspace.data.ptr, stream)

    return run
