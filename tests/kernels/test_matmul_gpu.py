"""Shared task of the GPU implementations of the matrix product, and calls of cuBLASLt, with arrays in host memory."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.kernels.lib.block_formats import BLOCK_FORMATS, stored_scales_bytes
from accelbench.kernels.lib.formats import FORMATS, draw, from_storage, to_storage
from accelbench.kernels.matmul import block_scaled, cublaslt, gpu_numba, gpu_task, gpu_vendor
from accelbench.kernels.matmul.gpu_task import MatmulOperands
from accelbench.kernels.matmul.shapes import Product
from accelbench.kernels.matmul.split import slices_each
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.devices import cupy_device, device_kind
from accelbench.profiling.machine.nvidia import cuda
from accelbench.profiling.records.point import Point
from accelbench.soak.checked_task import CheckedTask
from tests.kernels.host_cupy import at, cupy
from tests.profiling.machine.test_vendor_peaks import machine

DTYPES = ("float64", "float32", "tf32", "float16", "bfloat16", "fp8", "int8")


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (gpu_task, block_scaled):
        monkeypatch.setattr(module, "cupy_library", lambda: cupy)
        monkeypatch.setattr(module, "require_device_memory", lambda needed: None)
    monkeypatch.setattr(cublaslt, "library", lambda name: {"cupy": cupy}[name])
    monkeypatch.setattr(gpu_task, "synchronize", lambda: None)


def point(dtype: str, impl: str = "vendor", **params: str | int) -> Point:
    return Point("gemm" if "shape" in params else "matmul", "gpu", {"impl": impl, "dtype": dtype, **params}, seed=3)


def multiply(operands: MatmulOperands, b_by_columns: bool) -> None:
    b = operands.b.swapaxes(1, 2) if b_by_columns else operands.b
    result = FORMATS[operands.dtype].result
    a, b = (from_storage(np.array(x), operands.dtype).astype(np.float64) for x in (operands.a, b))
    operands.c[...] = to_storage(a @ b, result)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("b_by_columns", [False, True])
@pytest.mark.parametrize("params", [{"n": 1}, {"n": 48}, {"shape": "3x5x7x11"}], ids=str)
def test_the_padded_arrays_hold_the_product(dtype: str, b_by_columns: bool, params: dict[str, str | int]) -> None:
    seen: list[MatmulOperands] = []

    def bind(operands: MatmulOperands) -> Callable[[int], None]:
        seen.append(operands)
        return lambda stream: multiply(operands, b_by_columns)

    task = gpu_task.gpu_task(point(dtype, **params), bind, b_by_columns=b_by_columns)
    assert task.verify().passed
    (operands,) = seen
    assert operands.padded.batch == operands.product.batch
    for matrix in (operands.a, operands.b, operands.c):
        assert matrix.shape[2] * matrix.itemsize % gpu_task.ALIGNMENT == 0
        assert matrix.shape[1] >= 1
    assert not operands.a[:, operands.product.m :].any()
    assert not operands.a[:, :, operands.product.k :].any()
    assert task.work.flops == operands.product.flops


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fault", ["nothing written", "the last row unwritten", "B misread", "one batch only"])
def test_a_kernel_that_is_wrong_fails(dtype: str, fault: str) -> None:
    def bind(operands: MatmulOperands) -> Callable[[int], None]:
        def run(stream: int) -> None:
            poisoned = np.array(operands.c)
            if fault != "nothing written":
                multiply(operands, b_by_columns=fault == "B misread")
            if fault == "the last row unwritten":
                operands.c[:, operands.product.m - 1] = poisoned[:, operands.product.m - 1]
            if fault == "one batch only":
                operands.c[1:] = operands.c[0]

        return run

    assert not gpu_task.gpu_task(point(dtype, shape="3x33x33x33"), bind).verify().passed


def test_the_first_check_uses_the_matrices_of_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[int, ...]] = []

    def counted(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
        drawn.append(shape)
        return draw(rng, shape, dtype)

    monkeypatch.setattr(gpu_task, "draw", counted)
    task = gpu_task.gpu_task(point("float32", n=8), lambda operands: lambda stream: multiply(operands, False))
    task.run()
    assert task.verify().passed
    assert drawn == [(1, 8, 8), (1, 8, 8)], "A and B are not generated once each"


def test_the_result_of_the_first_call_is_poisoned_before_the_check() -> None:
    def bind(operands: MatmulOperands) -> Callable[[int], None]:
        calls = iter([multiply])
        return lambda stream: next(calls, lambda *_: None)(operands, False)

    task = gpu_task.gpu_task(point("float32", n=8), bind)
    task.run()
    assert not task.verify().passed


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [30, 48])
def test_the_bits_of_the_output_repeat_and_a_missing_product_changes_them(dtype: str, n: int) -> None:
    calls: list[int] = []

    def bind(operands: MatmulOperands) -> Callable[[int], None]:
        def run(stream: int) -> None:
            calls.append(stream)
            if len(calls) != 3:
                multiply(operands, False)

        return run

    checked = CheckedTask(gpu_task.gpu_task(point(dtype, n=n), bind))
    assert [checked.verify().is_right, checked.run().is_right, checked.run().is_right] == [True, True, False]
    assert checked.run().is_right


def test_the_workspace_is_counted_and_poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    seen: list[Any] = []
    monkeypatch.setattr(gpu_task, "require_device_memory", asked.append)

    def bind(operands: MatmulOperands) -> Callable[[int], None]:
        def run(stream: int) -> None:
            seen.append(np.array(operands.workspace).view(np.float32))
            operands.workspace[:] = 0

        return run

    task = gpu_task.gpu_task(point("float32", n=5), bind, workspace=lambda padded: padded.n * padded.k)
    task.run()
    task.verify()
    assert asked == [3 * 8 * 8 * 4 + 64]
    assert np.isnan(seen[1]).all()
    assert len(seen[1]) == 16


def test_plain_float64_arithmetic_is_compared_with_the_peak_of_the_plain_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_numba, "bind", lambda operands: lambda stream: None)
    monkeypatch.setattr(gpu_numba, "attribute", {"MultiProcessorCount": 132}.__getitem__)
    h100 = machine("NVIDIA H100 80GB HBM3")
    ours = gpu_numba.prepare(point("float64", "numba", n=8)).work
    assert device_kind("gpu").peak(h100, "float64", "flops", ours.unit_kind).value == 33.5e12
    assert device_kind("gpu").peak(h100, "float64", "flops").value == 66.9e12, "peak for cuBLAS"


def test_inputs_are_fresh_at_each_verification() -> None:
    drawn: list[Any] = []

    def bind(operands: MatmulOperands) -> Callable[[int], None]:
        def run(stream: int) -> None:
            drawn.append(np.array(operands.a))
            multiply(operands, b_by_columns=False)

        return run

    task = gpu_task.gpu_task(point("float32", n=8), bind)
    assert task.verify().passed
    assert task.verify().passed
    assert not np.array_equal(*drawn)


def test_matrices_that_do_not_fit_are_skipped_before_they_are_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_task, "require_device_memory", cupy_device.require_device_memory)
    monkeypatch.setattr(cupy_device, "free_memory", lambda: 3 * 4096**2 * 4)
    with pytest.raises(Skip, match="192 MiB"):
        gpu_task.gpu_task(point("float32", n=4096), lambda operands: pytest.fail("allocated"))


@pytest.mark.parametrize(
    ("dtype", "found", "needed"),
    [("fp8", (8, 0), "8.9"), ("fp8", (8, 6), "8.9"), ("tf32", (7, 5), "8.0"), ("bfloat16", (7, 0), "8.0"),
     ("int8", (7, 0), "7.5"), ("float16", (5, 2), "5.3"), ("mxfp8", (9, 0), "10.0"), ("nvfp4", (8, 9), "10.0")],
)  # fmt: skip
def test_a_card_without_the_units_is_skipped_with_the_capability_it_needs(
    monkeypatch: pytest.MonkeyPatch, dtype: str, found: tuple[int, int], needed: str
) -> None:
    monkeypatch.setattr(cuda, "compute_capability", lambda: found)
    message = f"{dtype} needs compute capability {needed}, and this device has {found[0]}.{found[1]}"
    with pytest.raises(Skip, match=message):
        gpu_vendor.prepare(point(dtype, n=16))


@pytest.mark.parametrize("dtype", ["tf32", "float16", "int8", "fp8"])
def test_an_unsupported_type_is_skipped_with_the_supported_ones(dtype: str) -> None:
    with pytest.raises(Skip, match=f"float32 and float64, not {dtype}"):
        gpu_numba.prepare(point(dtype, "numba", n=16))


@pytest.mark.parametrize(
    ("shape", "name"),
    [("8192x8192x8192", "128x128"), ("1024x1024x1024", "128x128"), ("5124x700x2048", "128x128"),
     ("36x700x2048", "64x64"), ("7680x64x2560", "64x64"), ("7680x4x2560", "columns<=4"), ("512x8x500000", "columns<=8"),
     ("16x16x16", "columns<=16"), ("4x8192x8192", "rows<=4"), ("8x8192x8192", "rows<=16")],
)  # fmt: skip
def test_the_chosen_kernel_suits_the_shape_and_fills_the_device(shape: str, name: str) -> None:
    sizes = Product.parse(shape)
    kernel = gpu_numba.choose(sizes, "float32")
    assert kernel.name == name
    parts, blocks = kernel.parts(sizes, 132), kernel.tiles(sizes)
    filled = blocks * parts > 132 * kernel.blocks / 2
    assert filled or kernel.slices(sizes) < (parts + 1) * kernel.fewest, "parts could be shorter"


@given(
    sizes=st.builds(Product, *[st.integers(1, 5000)] * 3, st.integers(1, 300)),
    multiprocessors=st.integers(1, 200),
    dtype=st.sampled_from(sorted(gpu_numba.REAL)),
)
def test_the_chosen_blocks_cover_c_and_all_of_k(sizes: Product, multiprocessors: int, dtype: str) -> None:
    kernel = gpu_numba.choose(sizes, dtype)
    parts = kernel.parts(sizes, multiprocessors)
    each = slices_each(kernel.slices(sizes), parts)
    assert kernel.tiles(sizes) * kernel.rows * kernel.columns >= sizes.m * sizes.n
    assert (parts - 1) * each * kernel.depth < sizes.k <= parts * each * kernel.depth


NUMPY_TYPES = {3: "int8", 28: "fp8", 10: "int32", 14: "bfloat16", 33: "uint8"}
SCALE_TYPES = {1: "nvfp4", 2: "mxfp8"}
"""Types by the mode of their scales."""


class HostLibrary(cublaslt.Library):
    """Simulation of cuBLASLt in host memory: D = α·op(A)·op(B) + β·C, column-major."""

    def __init__(self, heuristic: int = cublaslt.CUBLAS_STATUS_SUCCESS, count: int = 1) -> None:
        self.heuristic, self.count = heuristic, count
        self.found_version = 120900
        self.scale_pointers = [
            cublaslt.CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
            cublaslt.CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
        ]
        self.made: list[Any] = []

    def create(self, owner: Any, kind: str, *args: Any) -> Any:
        self.made.append(SimpleNamespace(kind=kind, args=[getattr(a, "value", a) for a in args], attributes={}))
        return len(self.made) - 1

    def set(self, kind: str, made: Any, attribute: int, value: Any) -> None:
        assert self.made[made].kind == kind
        self.made[made].attributes[attribute] = value.value

    def status(self, name: str, *args: Any) -> int:
        if name == "MatmulAlgoGetHeuristic":
            args[-1]._obj.value = self.count
            return self.heuristic
        assert name == "Matmul"
        _, operation, alpha, a, a_layout, b, b_layout, beta, _, _, d, d_layout, *_ = args
        transposed = self.made[operation].attributes
        dtype = NUMPY_TYPES[self.made[a_layout].args[0]]
        result = NUMPY_TYPES[self.made[d_layout].args[0]]
        scale_mode = transposed.get(cublaslt.CUBLASLT_MATMUL_DESC_A_SCALE_MODE)
        if scale_mode is None:
            first, second = (self.matrices(x, layout) for x, layout in ((a, a_layout), (b, b_layout)))
            first = first.swapaxes(1, 2) if transposed[cublaslt.CUBLASLT_MATMUL_DESC_TRANSA] else first
            second = second.swapaxes(1, 2) if transposed[cublaslt.CUBLASLT_MATMUL_DESC_TRANSB] else second
            numbers = [from_storage(np.ascontiguousarray(x), dtype).astype(np.float64) for x in (first, second)]
        else:
            assert transposed[cublaslt.CUBLASLT_MATMUL_DESC_TRANSA] == cublaslt.CUBLAS_OP_T
            assert transposed[cublaslt.CUBLASLT_MATMUL_DESC_TRANSB] == cublaslt.CUBLAS_OP_N
            assert transposed[cublaslt.CUBLASLT_MATMUL_DESC_B_SCALE_MODE] == scale_mode
            pointers = (transposed[attribute] for attribute in self.scale_pointers)
            first, second = (
                self.scaled(x, layout, scales, SCALE_TYPES[scale_mode])
                for x, layout, scales in ((a, a_layout, next(pointers)), (b, b_layout, next(pointers)))
            )
            numbers = [first[None], second.T[None]]
        assert (alpha._obj.value, beta._obj.value) == (1, 0)
        self.matrices(d, d_layout)[...] = to_storage(numbers[0] @ numbers[1], result)
        return cublaslt.CUBLAS_STATUS_SUCCESS

    def version(self) -> int:
        return self.found_version

    def scaled(self, pointer: Any, layout: int, scales: int, dtype: str) -> Any:
        """Return the values of a block-scaled matrix of k rows, transposed."""
        kind = BLOCK_FORMATS[dtype]
        data_type, k, columns, leading = self.made[layout].args
        assert (NUMPY_TYPES[data_type], leading, k % kind.block) == ({"mxfp8": "fp8", "nvfp4": "uint8"}[dtype], k, 0)
        codes = at(pointer.value, columns * k // kind.per_byte, "uint8").reshape(columns, -1)
        if kind.per_byte == 2:
            codes = np.stack([codes & 0xF, codes >> 4], axis=2).reshape(columns, k)
        elements = np.ascontiguousarray(codes).view(getattr(ml_dtypes, kind.element)).astype(np.float64)
        outer, inner = np.mgrid[:columns, : k // kind.block]
        places = self.place(outer, inner, k // kind.block)
        stored = at(scales, stored_scales_bytes(columns, k, dtype), "uint8")[places]
        factors = stored.view(getattr(ml_dtypes, kind.scale)).astype(np.float64)
        return elements * np.repeat(factors, kind.block, axis=1)

    def place(self, outer: Any, inner: Any, blocks: int) -> Any:
        """Return the offsets of scales, by the pseudocode of the cuBLAS manual."""
        tile = outer // 128 * -(-blocks // 4) + inner // 4
        return tile * 512 + (outer % 32) * 16 + (outer % 128) // 32 * 4 + inner % 4

    def matrices(self, pointer: Any, layout: int) -> Any:
        """Return a batch of column-major matrices, (batch, rows, columns)."""
        data_type, rows, columns, leading = self.made[layout].args
        batch, stride = self.made[layout].attributes[5], self.made[layout].attributes[6]
        assert leading >= rows
        assert leading * columns <= stride
        flat = at(pointer.value, batch * stride, FORMATS[NUMPY_TYPES[data_type]].storage)
        return np.lib.stride_tricks.as_strided(
            flat, (batch, rows, columns), tuple(flat.itemsize * step for step in (stride, 1, leading))
        )


@pytest.mark.parametrize("dtype", ["int8", "fp8"])
@pytest.mark.parametrize("params", [{"n": 1}, {"n": 40}, {"shape": "37x5x70"}, {"shape": "4x17x33x5"}], ids=str)
def test_cublaslt_computes_the_row_major_product(
    monkeypatch: pytest.MonkeyPatch, dtype: str, params: dict[str, str | int]
) -> None:
    library = HostLibrary()
    monkeypatch.setattr(cublaslt, "_library", lambda: library)
    monkeypatch.setattr(cuda, "compute_capability", lambda: (9, 0))
    task = gpu_vendor.prepare(point(dtype, **params))
    outcome = task.verify()
    assert outcome.passed, outcome
    layouts = [made for made in library.made if made.kind == "MatrixLayout"]
    assert all(size % 16 == 0 for layout in layouts for size in layout.args[1:]), "not a multiple of 16 bytes"


def block_scaled_task(monkeypatch: pytest.MonkeyPatch, library: HostLibrary, dtype: str, **params: Any) -> Any:
    monkeypatch.setattr(cublaslt, "_library", lambda: library)
    monkeypatch.setattr(cuda, "compute_capability", lambda: (10, 0))
    return gpu_vendor.prepare(point(dtype, **params))


@pytest.mark.parametrize("dtype", sorted(BLOCK_FORMATS))
@pytest.mark.parametrize("params", [{"n": 1}, {"n": 40}, {"shape": "37x5x70"}, {"shape": "140x300x200"}], ids=str)
def test_cublaslt_multiplies_block_scaled_matrices(
    monkeypatch: pytest.MonkeyPatch, dtype: str, params: dict[str, str | int]
) -> None:
    task = block_scaled_task(monkeypatch, HostLibrary(), dtype, **params)
    for _ in range(2):  # the second check generates new matrices
        outcome = task.verify()
        assert outcome.passed, outcome
    sizes = Product.of(point(dtype, **params))
    kind = BLOCK_FORMATS[dtype]
    read = (sizes.m + sizes.n) * sizes.k * (1 / kind.per_byte + 1 / kind.block)
    assert task.work.bytes == round(read) + 2 * sizes.m * sizes.n
    assert task.work.flops == sizes.flops


class RowMajorScales(HostLibrary):
    """Library that reads the scales row by row."""

    def place(self, outer: Any, inner: Any, blocks: int) -> Any:
        return outer * blocks + inner


class ExchangedScales(HostLibrary):
    """Library that uses the scales of one matrix for the other."""

    def __init__(self) -> None:
        super().__init__()
        self.scale_pointers.reverse()


class NoScales(HostLibrary):
    """Library that ignores the scales."""

    def scaled(self, pointer: Any, layout: int, scales: int, dtype: str) -> Any:
        _, k, columns, _ = self.made[layout].args
        ones = np.full(stored_scales_bytes(columns, k, dtype), {"mxfp8": 127, "nvfp4": 0x38}[dtype], np.uint8)
        return super().scaled(pointer, layout, ones.ctypes.data, dtype)


@pytest.mark.parametrize("dtype", sorted(BLOCK_FORMATS))
@pytest.mark.parametrize("library", [RowMajorScales, ExchangedScales, NoScales])
def test_misread_scales_fail(monkeypatch: pytest.MonkeyPatch, library: type[HostLibrary], dtype: str) -> None:
    assert not block_scaled_task(monkeypatch, library(), dtype, n=256).verify().passed


def test_block_scaled_types_need_a_recent_cublaslt_and_a_single_product(monkeypatch: pytest.MonkeyPatch) -> None:
    library = HostLibrary()
    with pytest.raises(Skip, match="batch"):
        block_scaled_task(monkeypatch, library, "nvfp4", shape="2x32x32x32")
    library.found_version = 120605
    with pytest.raises(Skip, match=r"12\.8 or newer, and this is 12\.6"):
        block_scaled_task(monkeypatch, library, "nvfp4", n=32)


@pytest.mark.parametrize(("status", "count"), [(cublaslt.CUBLAS_STATUS_NOT_SUPPORTED, 0), (0, 0)])
def test_a_product_without_a_cublaslt_algorithm_is_skipped(
    monkeypatch: pytest.MonkeyPatch, status: int, count: int
) -> None:
    monkeypatch.setattr(cublaslt, "_library", lambda: HostLibrary(status, count))
    monkeypatch.setattr(cuda, "compute_capability", lambda: (9, 0))
    with pytest.raises(Skip, match=r"no algorithm.* fp8"):
        gpu_vendor.prepare(point("fp8", n=32))


def test_an_error_of_cublaslt_is_raised_by_its_name() -> None:
    library = cublaslt.Library.__new__(cublaslt.Library)
    library._functions = SimpleNamespace(
        cublasLtMatmul=lambda *args: 13, cublasLtGetStatusName=lambda status: b"CUBLAS_STATUS_EXECUTION_FAILED"
    )
    with pytest.raises(RuntimeError, match="cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"):
        library.call("Matmul")
