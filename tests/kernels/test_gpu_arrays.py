"""Arrays in device memory: long enough on every GPU, and within its memory."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, isqrt

import numpy as np
import pytest

from accelbench.kernels.lib.exact import LARGEST, exact_sum
from accelbench.kernels.lib.gpu import arrays as gpu_arrays
from accelbench.kernels.lib.random_array import PART, PERIODS, draw_whole
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.devices import cupy_device

GIB = 1 << 30
CARDS = {
    "V100 16 GB": (16, 6, 0.90e12),
    "T4": (15, 4, 0.32e12),
    "A100 40 GB": (40, 40, 1.56e12),
    "L4": (22, 48, 0.30e12),
    "RTX 4090": (24, 72, 1.01e12),
    "H100 SXM": (79, 50, 3.35e12),
    "H200": (139, 50, 4.8e12),
    "B200": (178, 126, 7.7e12),
}
"""GiB of free memory, MiB of L2 and bytes per second, by GPU."""

Card = Callable[[float, int], None]


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    def install(gib: float, l2_mib: int) -> None:
        for module in (gpu_arrays, cupy_device):
            monkeypatch.setattr(module, "free_memory", lambda: int(gib * GIB))
        monkeypatch.setattr(gpu_arrays, "attribute", {"L2CacheSize": l2_mib << 20}.__getitem__)

    return install


@pytest.mark.parametrize("name", list(CARDS))
@pytest.mark.parametrize(("arrays", "moved"), [(3, 2), (1, 1)], ids=["stream", "reduce"])
def test_fixed_costs_of_four_microseconds_are_below_half_a_percent(
    card: Card, name: str, arrays: int, moved: int
) -> None:
    gib, l2_mib, bandwidth = CARDS[name]
    card(gib, l2_mib)
    size = 4 * gpu_arrays.array_length(4, arrays=arrays, moved=moved)
    assert 0.005 * moved * size / bandwidth > 4e-6
    assert size >= 4 * (l2_mib << 20)
    assert arrays * size <= gib * GIB / 2
    assert size // 4 < 2**31
    assert size % gpu_arrays.ACCESS_BYTES == 0


def test_arrays_that_do_not_fit_are_skipped(card: Card) -> None:
    card(1.4, 6)
    with pytest.raises(Skip, match="device memory"):
        gpu_arrays.array_length(8, arrays=3, moved=2)
    assert gpu_arrays.array_length(8, arrays=1, moved=1) * 8 == gpu_arrays.MIN_BYTES


def test_no_two_elements_of_an_array_share_both_factors() -> None:
    p, q = PERIODS
    assert all(all(n % divisor for divisor in range(2, isqrt(n) + 1)) for n in (p, q))
    assert gcd(p, q) == 1
    assert p * q > gpu_arrays.MOST_BYTES // 4


def test_whole_numbers_are_never_zero_of_both_signs_and_exact_in_parts() -> None:
    numbers = draw_whole(np.random.default_rng(4), LARGEST)
    drawn = np.concatenate(list(numbers.parts(0, 300_000)))
    assert set(np.unique(drawn)) == {*range(-LARGEST, 0), *range(1, LARGEST + 1)}
    assert exact_sum(numbers.factors(0, 300_000)) == int(drawn.astype(np.int64).sum())
    assert LARGEST * PART < 2**24


@pytest.mark.slow
def test_sums_of_the_longest_arrays_of_whole_numbers_are_exact_in_float32() -> None:
    # The mean product of any two elements is 0, even if they share a factor.
    rng = np.random.default_rng(5)
    for distance in (*PERIODS, 1):
        products = []
        for _ in range(20):
            numbers = draw_whole(rng, LARGEST)
            one, other = (np.concatenate(list(numbers.parts(i, i + 100_000))) for i in (0, distance))
            products.append(float(np.mean(one * other)))
        assert abs(np.mean(products)) < LARGEST**2 / 100
    assert 20 * LARGEST * (gpu_arrays.MOST_BYTES // 4) ** 0.5 < 2**24
