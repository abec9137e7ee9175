"""Number of parts of k in split-K: enough to fill the device, none of them empty."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accelbench.kernels.matmul.split import WARP, adding_blocks, parts_of, slices_each, workspace_bytes

tiles = st.integers(1, 10_000)
slices = st.integers(1, 100_000)
blocks = st.integers(1, 2_000)
fewest = st.integers(1, 200)


@given(tiles, slices, blocks, fewest)
def test_every_slice_is_in_one_part_and_no_part_is_empty(tiles: int, slices: int, blocks: int, fewest: int) -> None:
    parts = parts_of(tiles, slices, blocks, fewest)
    each = slices_each(slices, parts)
    assert 0 < slices - (parts - 1) * each <= each


@given(tiles, slices, blocks, fewest)
def test_a_split_product_takes_one_wave_of_blocks_with_the_minimum_of_slices(
    tiles: int, slices: int, blocks: int, fewest: int
) -> None:
    parts = parts_of(tiles, slices, blocks, fewest)
    if parts > 1:
        assert parts * tiles <= blocks
        assert slices_each(slices, parts) >= fewest


@given(tiles, slices, blocks, fewest)
def test_more_than_half_of_the_device_works_where_k_is_deep_enough(
    tiles: int, slices: int, blocks: int, fewest: int
) -> None:
    deep = fewest * blocks * blocks + slices  # deep enough for any number of parts of complete slices
    assert tiles * parts_of(tiles, deep, blocks, fewest) > blocks / 2


@given(tiles, slices, blocks, fewest)
def test_more_blocks_at_once_never_make_the_longest_part_longer(
    tiles: int, slices: int, blocks: int, fewest: int
) -> None:
    lengths = [slices_each(slices, parts_of(tiles, slices, at_once, fewest)) for at_once in (blocks, 2 * blocks)]
    assert lengths[1] <= lengths[0]


def test_the_published_deep_shape_fills_an_h100() -> None:
    """512×8×500,000 has four tiles of 128×128; 132 multiprocessors have two resident blocks each."""
    assert parts_of(tiles=4, slices=62_500, blocks_at_once=264, fewest=32) == 66


def test_a_product_with_tiles_for_all_blocks_is_not_split() -> None:
    assert parts_of(tiles=1024, slices=1024, blocks_at_once=264, fewest=32) == 1
    assert parts_of(tiles=200, slices=100_000, blocks_at_once=264, fewest=32) == 1
    assert workspace_bytes(1, 10**6, 4) == 0


@given(st.integers(1, 10**6), st.sampled_from([4, 8]))
def test_adding_blocks_cover_every_16_bytes(groups: int, itemsize: int) -> None:
    elements = groups * 16 // itemsize
    assert (adding_blocks(elements, itemsize) - 1) * WARP < groups <= adding_blocks(elements, itemsize) * WARP
