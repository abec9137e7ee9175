"""Our tensor-core products: launch sizes, and the devices and types that they skip."""

from __future__ import annotations

from types import ModuleType

import pytest

from accelbench.kernels.lib.gpu import residency
from accelbench.kernels.matmul import gpu_mma, gpu_parts, gpu_wgmma
from accelbench.kernels.matmul.shapes import Product
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point

DTYPES = ("float16", "bfloat16")
KERNELS: dict[str, ModuleType] = {"mma": gpu_mma, "wgmma": gpu_wgmma}


def test_a_block_has_no_more_shared_memory_than_its_devices() -> None:
    # On Hopper, and on the smallest cards that the other kernel runs on (8.6, 8.9, 12.0).
    assert gpu_wgmma.SHARED_BYTES <= 227 * 1024
    assert max(gpu_mma.WIDE.shared_bytes, gpu_mma.NARROW.shared_bytes) <= 99 * 1024


def test_the_enumerators_of_a_tensor_map_are_those_of_cuda() -> None:
    from cuda.bindings import driver

    from accelbench.kernels.matmul import tensor_map as ours

    assert driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT16 == ours.UINT16
    assert driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE == ours.NOT_INTERLEAVED
    assert driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B == ours.SWIZZLE_128B
    assert driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B == ours.PROMOTE_TO_256_BYTES
    assert driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE == ours.ZEROS_OUTSIDE


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_cupy_loads_machine_code_for_hopper(dtype: str, parts: int) -> None:
    code = gpu_wgmma.machine_code(gpu_parts.options(dtype, parts))
    assert code.startswith(b"\x7fELF")
    assert gpu_wgmma.ENTRY.encode() in code
    assert gpu_parts.ENTRY.encode() in code


def test_a_small_c_of_a_long_k_keeps_an_h100_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    h100 = {
        "MultiProcessorCount": 132,
        "MaxThreadsPerMultiProcessor": 2048,
        "MaxSharedMemoryPerMultiprocessor": 228 << 10,
        "ReservedSharedMemoryPerBlock": 1 << 10,
    }
    for module in (residency, gpu_wgmma):
        monkeypatch.setattr(module, "attribute", h100.__getitem__)
    deep = Product(512, 8, 500_000)
    assert gpu_mma.tile_for(deep) == gpu_mma.NARROW
    assert gpu_mma.NARROW.all(deep) * gpu_mma.parts_for(deep) == 2 * 132
    assert gpu_wgmma.tiles(deep) * gpu_wgmma.parts_for(deep) == 132 // 2
    assert gpu_mma.workspace(deep) == 132 * 512 * 8 * 4
    square = Product(4096, 4096, 4096)
    assert gpu_mma.tile_for(square) == gpu_mma.WIDE
    assert gpu_mma.parts_for(square) == gpu_wgmma.parts_for(square) == 1
    assert gpu_mma.workspace(square) == gpu_wgmma.workspace(square) == 0


@pytest.mark.parametrize("module", KERNELS.values(), ids=KERNELS)
def test_other_types_are_skipped(module: ModuleType) -> None:
    with pytest.raises(Skip, match="not float64"):
        module.prepare(Point("matmul", "gpu", {"dtype": "float64", "n": 64}))


@pytest.mark.parametrize("found", [(8, 0), (10, 0), (12, 0)], ids=str)
def test_a_device_without_wgmma_is_skipped_with_the_required_capability(
    found: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_wgmma, "compute_capability", lambda: found)
    with pytest.raises(Skip, match=rf"9\.0 exactly.* {found[0]}\."):
        gpu_wgmma.prepare(Point("matmul", "gpu", {"dtype": "bfloat16", "n": 64}))
