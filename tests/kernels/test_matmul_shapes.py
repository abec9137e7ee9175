"""Published shapes of matrix products: format, source, kinds, FLOP and bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.execution.plan import discover
from accelbench.kernels.matmul.shapes import CPU_SHAPES, SHAPES, Product
from accelbench.profiling.records.point import Point

sizes = st.integers(1, 10**6)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_listed_shape_is_read_and_names_its_source(shape: str) -> None:
    assert str(Product.parse(shape)).count("=") == 4
    assert SHAPES[shape].startswith(("Baidu Research, DeepBench", "Devlin et al., BERT"))


def test_the_list_has_every_kind() -> None:
    listed = [Product.parse(shape) for shape in SHAPES]
    assert any(p.n == 1 for p in listed), "matrix times vector"
    assert any(p.m >= 5 * p.n > 100 for p in listed), "tall"
    assert any(1 < p.n <= 64 < p.m for p in listed), "skinny"
    assert any(p.n >= 4 * p.m for p in listed), "wide"
    assert any(p.k >= 100 * max(p.m, p.n) for p in listed), "deep"
    assert any(p.batch > 1 for p in listed), "batched"
    assert any(p.n % 2 for p in listed if p.n > 1), "odd number of columns"


def test_a_cpu_measures_some_shapes_by_default_and_all_on_request() -> None:
    gemm = discover()["gemm"]
    assert gemm.axes_on("cpu")["shape"] == CPU_SHAPES
    assert gemm.axes_on("gpu")["shape"] == tuple(SHAPES) == gemm.choices["shape"]
    assert set(CPU_SHAPES) < set(SHAPES)
    assert all(Product.parse(shape).flops < 10e9 for shape in CPU_SHAPES)


@given(m=sizes, n=sizes, k=sizes, batch=sizes)
def test_a_shape_is_written_batch_m_n_k(m: int, n: int, k: int, batch: int) -> None:
    assert Product.parse(f"{m}x{n}x{k}") == Product(m, n, k)
    assert Product.parse(f"{batch}x{m}x{n}x{k}") == Product(m, n, k, batch)


@pytest.mark.parametrize("text", ["", "4x4", "4x4x0", "4x4x4x4x4", "4×4×4", "axbxc", "-1x2x3", "1x2x3 "])
def test_an_invalid_shape_raises_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a shape"):
        Product.parse(text)


def test_work_counts_every_product_and_every_byte() -> None:
    product = Product(2, 3, 5, batch=7)
    assert product.flops == 7 * 2 * 3 * 5 * 2
    assert product.bytes(4) == 7 * 4 * (2 * 5 + 5 * 3 + 2 * 3)
    assert product.bytes(1, result=4) == 7 * (2 * 5 + 5 * 3 + 4 * 2 * 3)


def test_a_square_point_is_a_product_too() -> None:
    assert Product.of(Point("matmul", "cpu", {"n": 9})) == Product(9, 9, 9)
    assert Product.of(Point("gemm", "cpu", {"shape": "2x3x4x5"})) == Product(3, 4, 5, 2)
