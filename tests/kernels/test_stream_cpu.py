"""CPU kernels of BabelStream's operations: results and counted bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accelbench.kernels.lib.cpu.arrays import (
    ALIGNMENT,
    CHUNK,
    SMALLEST,
    aligned_empty,
    elements_per_array,
    touch,
)
from accelbench.kernels.lib.cpu.caches import last_level_bytes
from accelbench.kernels.lib.cpu.huge_pages import HUGE_PAGE
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.stream import cpu_numba, stream
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point
from accelbench.soak.bits import flip_bit
from accelbench.soak.checked_task import CheckedTask

DTYPES = ("float32", "float64")
OPS = ("copy", "mul", "add", "triad", "dot")


@pytest.fixture
def small_arrays(monkeypatch):
    """Arrays of 1,000 chunks; the arithmetic of the kernels does not depend on the size."""
    monkeypatch.setattr(cpu_numba, "elements_per_array", lambda itemsize, threads: 1000 * threads * CHUNK)


def point(op, dtype):
    return Point("stream", "cpu", {"impl": "numba", "op": op, "dtype": dtype}, seed=7)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("small_arrays")
def test_every_operation_is_verified_and_counts_babelstreams_bytes(op, dtype):
    task = stream(point(op, dtype))
    task.run()
    assert task.verify().passed
    n = 1000 * thread_count() * CHUNK
    moved = {"copy": 2, "mul": 2, "add": 3, "triad": 3, "dot": 2}[op]
    assert task.work.bytes == moved * n * np.dtype(dtype).itemsize
    checked = CheckedTask(task)
    assert [checked.verify().is_right, checked.run().is_right, checked.run().is_right] == [True] * 3
    flipped = checked.run(lambda arrays: flip_bit(arrays, np.random.default_rng(1)))
    assert flipped.difference is not None
    assert flipped.difference.flipped == 1


def test_arrays_are_four_times_the_caches_with_equal_parts_for_any_number_of_threads():
    for threads in (1, 2, 3, 7, 48):
        for itemsize in (4, 8):
            n = elements_per_array(itemsize, threads)
            assert n % (threads * CHUNK) == 0
            assert n * itemsize >= max(4 * (last_level_bytes() or 0), SMALLEST)


def list_caches(cpus: Path, l3_mib: int, cores_each: int) -> None:
    """Write the files of the L3 caches of 192 CPUs."""
    for cpu in range(192):
        folder = cpus / f"cpu{cpu}/cache/index3"
        folder.mkdir(parents=True)
        first = cpu // cores_each * cores_each
        shared = f"{first}-{first + cores_each - 1}"
        for name, text in {"type": "Unified", "level": "3", "shared_cpu_list": shared, "size": f"{l3_mib}M"}.items():
            (folder / name).write_text(text + "\n")


def test_only_caches_that_the_usable_cpus_reach_count(tmp_path):
    list_caches(tmp_path, 32, 8)
    assert last_level_bytes(tmp_path, [0, 1]) == 32 << 20
    assert last_level_bytes(tmp_path, [7, 8, 191]) == 3 * 32 << 20
    assert last_level_bytes(tmp_path, range(192)) == 24 * 32 << 20
    assert last_level_bytes(tmp_path, range(192), quota=1.5) == 2 * 32 << 20
    assert last_level_bytes(tmp_path, [0, 1], quota=64) == 32 << 20


def test_without_listed_caches_arrays_exceed_the_caches_of_any_cpu(tmp_path, monkeypatch):
    assert last_level_bytes(tmp_path) is None
    arrays = "accelbench.kernels.lib.cpu.arrays"
    monkeypatch.setattr(f"{arrays}.last_level_bytes", lambda: None)
    for available_gib, array_mib in ((64, 1024), (8, 1024), (6, 512), (2, 256), (1, 256)):
        monkeypatch.setattr(f"{arrays}.available_bytes", lambda gib=available_gib: gib << 30)
        assert 0 <= elements_per_array(8, 2) * 8 - (array_mib << 20) < 2 * CHUNK * 8


def test_a_cache_of_a_core_is_not_taken_for_the_last_one(tmp_path):
    """Some Arm servers and guests list L1 and L2, but not the cache of the chip; others list it without its size."""
    list_caches(tmp_path, 32, 8)
    for folder in tmp_path.glob("cpu*/cache/index3"):
        (folder / "level").write_text("2\n")
    assert last_level_bytes(tmp_path, [0, 1]) is None
    for folder in tmp_path.glob("cpu*/cache/index3"):
        (folder / "level").write_text("3\n")
        (folder / "size").unlink()
    assert last_level_bytes(tmp_path, [0, 1]) is None


@pytest.mark.parametrize(
    ("l3_mib", "cores_each", "array_mib"), [(32, 8, 3072), (384, 96, 3072), (1152, 96, 9216)], ids=str
)
def test_on_192_cores_arrays_are_four_times_all_l3_in_one_part_for_each(
    l3_mib, cores_each, array_mib, tmp_path, monkeypatch
):
    list_caches(tmp_path, l3_mib, cores_each)
    found = last_level_bytes(tmp_path, range(192))
    monkeypatch.setattr("accelbench.kernels.lib.cpu.arrays.last_level_bytes", lambda: found)
    for itemsize in (4, 8):
        n = elements_per_array(itemsize, 192)
        assert n % (192 * CHUNK) == 0
        assert 0 <= n * itemsize - (array_mib << 20) < 192 * CHUNK * itemsize


@pytest.mark.parametrize("count", [1, HUGE_PAGE // 8 - 1, HUGE_PAGE // 8, HUGE_PAGE // 8 + 1])
def test_large_arrays_are_aligned_to_huge_pages(count):
    arrays = [aligned_empty(count, "float64") for _ in range(2)]
    for value, array in enumerate(arrays):
        array.fill(value)
        assert array.shape == (count,)
        assert array.ctypes.data % (HUGE_PAGE if array.nbytes >= HUGE_PAGE else ALIGNMENT) == 0
    assert [set(array) for array in arrays] == [{0}, {1}]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_part_is_touched(threads):
    array = aligned_empty(6 * CHUNK, "float64")
    array.fill(np.nan)
    touch(array, 2.0, threads)
    assert (array == 2).all()


@pytest.mark.parametrize("fault", ["nothing written", "one element left out", "one element wrong"])
@pytest.mark.parametrize("op", ["copy", "mul", "add", "triad"])
def test_a_wrong_element_fails(op, fault):
    arrays = [aligned_empty(64 * CHUNK, "float64") for _ in range(3)]
    checked = cpu_numba.Elementwise(op, arrays, np.random.default_rng(1), threads=1)
    honest = checked.kernel

    def faulty(a, b, c, scalar, threads):
        written = (a, b, c)[checked.written]
        if fault != "nothing written":
            honest(a, b, c, scalar, threads)
        if fault == "one element left out":
            written[-1] = np.nan
        if fault == "one element wrong":
            written[17] *= 1 + 1e-14

    assert checked.verify().passed
    checked.kernel = faulty
    assert not checked.verify().passed


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_dot_product_without_one_threads_part_fails(dtype, monkeypatch):
    arrays = [aligned_empty(4 * 64 * CHUNK, dtype) for _ in range(3)]
    checked = cpu_numba.DotProduct(arrays, np.random.default_rng(1), threads=4)
    assert checked.verify().passed
    honest = cpu_numba.dot

    def lost_part(a, b, partial):
        honest(a, b, partial)
        partial[2] = 0

    monkeypatch.setattr(cpu_numba, "dot", lost_part)
    assert not checked.verify().passed


def test_a_float64_dot_product_without_one_element_fails(monkeypatch):
    arrays = [aligned_empty(4 * 64 * CHUNK, "float64") for _ in range(3)]
    checked = cpu_numba.DotProduct(arrays, np.random.default_rng(1), threads=4)
    honest = cpu_numba.dot

    def lost_element(a, b, partial):
        honest(a, b, partial)
        partial[0] -= a[0] * b[0]

    monkeypatch.setattr(cpu_numba, "dot", lost_element)
    assert not checked.verify().passed


def test_arrays_that_do_not_fit_are_skipped(monkeypatch):
    monkeypatch.setattr(cpu_numba, "elements_per_array", lambda itemsize, threads: 10**15)
    with pytest.raises(Skip, match="of memory"):
        stream(point("triad", "float64"))


def test_arrays_begin_at_a_page():
    for count in (1, 63, 4097):
        array = aligned_empty(count, "float32")
        assert array.ctypes.data % ALIGNMENT == 0
        assert array.shape == (count,)
