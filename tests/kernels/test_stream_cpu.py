"""The bandwidth kernels write what BabelStream's operations say, and count its bytes."""

from __future__ import annotations

import numpy as np
import pytest

from accelbench.kernels.lib.cpu.arrays import ALIGNMENT, CHUNK, SMALLEST, aligned_empty, elements_per_array, touch
from accelbench.kernels.lib.cpu.caches import last_level_bytes
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.stream import cpu_numba, stream
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point

DTYPES = ("float32", "float64")
OPS = ("copy", "mul", "add", "triad", "dot")


@pytest.fixture
def small_arrays(monkeypatch):
    """Arrays of 1,000 chunks: the kernels' arithmetic does not depend on the size."""
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


def test_arrays_are_four_times_the_caches_and_whole_parts_for_any_number_of_threads():
    for threads in (1, 2, 3, 7, 48):
        for itemsize in (4, 8):
            n = elements_per_array(itemsize, threads)
            assert n % (threads * CHUNK) == 0
            assert n * itemsize >= max(4 * (last_level_bytes() or 0), SMALLEST)


@pytest.mark.parametrize(
    ("l3_mib", "cores_each", "array_mib"), [(32, 8, 3072), (384, 96, 3072), (1152, 96, 9216)], ids=str
)
def test_on_192_cores_arrays_are_four_times_all_l3_in_one_part_for_each(
    l3_mib, cores_each, array_mib, tmp_path, monkeypatch
):
    for cpu in range(192):
        folder = tmp_path / f"cpu{cpu}/cache/index3"
        folder.mkdir(parents=True)
        first = cpu // cores_each * cores_each
        shared = f"{first}-{first + cores_each - 1}"
        for name, text in {"type": "Unified", "level": "3", "shared_cpu_list": shared, "size": f"{l3_mib}M"}.items():
            (folder / name).write_text(text + "\n")
    monkeypatch.setattr("accelbench.kernels.lib.cpu.arrays.last_level_bytes", lambda: last_level_bytes(tmp_path))
    for itemsize in (4, 8):
        n = elements_per_array(itemsize, 192)
        assert n % (192 * CHUNK) == 0
        assert 0 <= n * itemsize - (array_mib << 20) < 192 * CHUNK * itemsize


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
    with pytest.raises(Skip, match="half of the available"):
        stream(point("triad", "float64"))


def test_arrays_begin_at_a_page():
    for count in (1, 63, 4097):
        array = aligned_empty(count, "float32")
        assert array.ctypes.data % ALIGNMENT == 0
        assert array.shape == (count,)
