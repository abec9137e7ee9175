"""Enumerators of cuBLAS: operations, algorithms (cublas_api.h) and types (library_types.h)."""

from __future__ import annotations

from dataclasses import dataclass

CUBLAS_OP_N = 0
CUBLAS_GEMM_DEFAULT = -1
CUBLAS_DEFAULT_MATH = 0


@dataclass(frozen=True)
class Arithmetic:
    """Enumerators and scalar type of a matrix product, from library_types.h and cublas_api.h."""

    data_type: int
    compute_type: int
    scalar: str


ARITHMETIC = {
    "float64": Arithmetic(1, 70, "float64"),  # CUDA_R_64F, CUBLAS_COMPUTE_64F
    "float32": Arithmetic(0, 68, "float32"),  # CUDA_R_32F, CUBLAS_COMPUTE_32F
    "tf32": Arithmetic(0, 77, "float32"),  # CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32
    "float16": Arithmetic(2, 68, "float32"),  # CUDA_R_16F, CUBLAS_COMPUTE_32F
    "bfloat16": Arithmetic(14, 68, "float32"),  # CUDA_R_16BF, CUBLAS_COMPUTE_32F
}
