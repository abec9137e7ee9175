"""Tests of vendors' peaks: dense, for exactly this card, or unknown with a reason."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.devices import device_kind
from accelbench.profiling.machine.vendor_peaks import (
    PREFIXES,
    card_peak,
    cards,
    core_flops_per_cycle,
    cores,
    cpu_flops_per_cycle,
    find_card,
    flops_at_highest_clocks,
)
from accelbench.profiling.records.environment import CoreKind, Cpu, Environment, Gpu, Limits, Memory, Software, System

DTYPES = ("float64", "float32", "tf32", "float16", "bfloat16", "fp8", "mxfp8", "nvfp4", "int8")


def machine(*names: str, mig: bool | None = None, memory: int | None = None) -> Environment:
    return Environment(
        cpu=Cpu(architecture="x86_64", logical=2, usable=2),
        memory=Memory(total_bytes=1, available_bytes=1),
        limits=Limits(),
        system=System(os="Linux", kernel="6"),
        gpus=[
            Gpu(index=i, name=name, uuid_hash="0" * 12, mig=mig, memory_bytes=memory) for i, name in enumerate(names)
        ],
        software=Software(python="3.11", implementation="CPython", accelbench="0"),
    )


# The driver's names of real cards, as in nvidia-smi and CUDA.
NAMES = {
    "Tesla K40m": "Tesla K40",
    "Tesla K80": "Tesla K80, one of its two GPUs",
    "NVIDIA GeForce GTX 980 Ti": "GeForce GTX 980 Ti",
    "Tesla P100-PCIE-16GB": "Tesla P100 PCIe 16 GB",
    "Tesla P100-SXM2-16GB": "Tesla P100 SXM2",
    "Tesla V100-SXM2-16GB": "Tesla V100 SXM2",
    "Tesla V100-PCIE-32GB": "Tesla V100 PCIe",
    "Tesla T4": "T4",
    "NVIDIA A100-SXM4-40GB": "A100 40 GB",
    "NVIDIA A100-SXM4-80GB": "A100 SXM 80 GB",
    "NVIDIA A100 80GB PCIe": "A100 PCIe 80 GB",
    "NVIDIA A10": "A10",
    "NVIDIA A10G": "A10G",
    "NVIDIA L4": "L4",
    "NVIDIA L40S": "L40S",
    "NVIDIA GeForce RTX 3090": "GeForce RTX 3090",
    "NVIDIA GeForce RTX 4090": "GeForce RTX 4090",
    "NVIDIA GeForce RTX 5090": "GeForce RTX 5090",
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA H100 NVL": "H100 NVL",
    "NVIDIA H200": "H200 SXM",
    "NVIDIA B200": "B200, HGX",
}


@pytest.mark.parametrize(("name", "title"), NAMES.items())
def test_a_card_is_found_by_the_drivers_name(name: str, title: str) -> None:
    card = find_card(name)
    assert card is not None
    assert card.title == title


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA L40",
        "NVIDIA H200 NVL",
        "NVIDIA GeForce GTX 980",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA A100X",
        "NVIDIA A16",
        "Tesla T40",
        "NVIDIA H100 96GB HBM2e",
        "Tesla P100-PCIE-12GB",
        "Tesla V100S-PCIE-32GB",
        "NVIDIA Graphics Device",
        "",
    ],
)
def test_a_similar_card_is_unknown(name: str) -> None:
    assert find_card(name) is None
    found = device_kind("gpu").peak(machine(name), "float32", "flops")
    assert found.value is None
    assert name in (found.reason or "")


def test_every_gpu_in_the_table_has_a_real_name() -> None:
    assert {card.title for card in cards() if not card.title.startswith("TPU")} == set(NAMES.values())


@pytest.mark.slow
@given(st.sampled_from([*NAMES]), st.text(max_size=8))
def test_no_name_matches_two_cards(name: str, suffix: str) -> None:
    bare = PREFIXES.sub("", name + suffix)
    assert len([card for card in cards() if re.fullmatch(card.name, bare)]) <= 1


@given(st.sampled_from([*NAMES]), st.text(min_size=1, max_size=8))
def test_a_longer_name_is_not_the_same_card(name: str, suffix: str) -> None:
    longer = name + suffix
    found = find_card(longer)
    assert found is None or NAMES.get(longer) == found.title or found.title == "Tesla K40"  # K40c, K40m, K40s, …


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("TPU v5 lite", "TPU v5e, one chip"),
        ("TPU v5", "TPU v5p, one chip"),
        ("TPU v6 lite", "TPU v6e, one chip"),
        ("TPU7x", "TPU7x (Ironwood), one chip"),
    ],
)
def test_a_tpu_is_found_by_jaxs_device_kind(kind: str, title: str) -> None:
    card = find_card(kind)
    assert card is not None
    assert card.title == title


def test_a_partition_of_a_card_has_no_peak() -> None:
    divided = device_kind("gpu").peak(machine("NVIDIA A100-SXM4-40GB MIG 1g.5gb"), "float32", "flops")
    assert divided.value is None
    assert "MIG" in (divided.reason or "")
    small = device_kind("gpu").peak(machine("NVIDIA A100-SXM4-40GB", memory=5 << 30), "float32", "flops")
    assert small.value is None
    assert "memory size" in (small.reason or "")


@pytest.mark.parametrize(
    ("name", "mebibytes"),
    [
        ("Tesla K80", 11_441),
        ("Tesla T4", 15_095),
        ("Tesla V100-SXM2-32GB", 32_510),
        ("NVIDIA A10G", 22_731),
        ("NVIDIA L40S", 46_068),
        ("NVIDIA GeForce RTX 4090", 24_564),
        ("NVIDIA H100 80GB HBM3", 81_559),
        ("NVIDIA H200", 143_771),
        ("NVIDIA B200", 183_359),
    ],
)
def test_a_complete_card_has_a_peak_at_its_reported_memory_size(name: str, mebibytes: int) -> None:
    assert device_kind("gpu").peak(machine(name, memory=mebibytes << 20), "float32", "bytes").value is not None


def test_every_card_has_a_source_and_plausible_peaks() -> None:
    for card in cards():
        assert len(card.source) > 10, card.title
        for dtype, units in card.flops.items():
            assert dtype in DTYPES
            assert units.keys() <= {"plain", "tensor"}
            assert all(1e11 < flops < 1e16 for flops in units.values()), (card.title, dtype)
            if "plain" in units and "tensor" in units:
                assert units["tensor"] >= units["plain"], (card.title, dtype)
        assert card.bandwidth is None or 1e11 < card.bandwidth < 1e13


def test_dense_tensor_peaks_have_the_expected_ratios() -> None:
    """A peak with sparsity, or TF32 listed as float32, would change the ratios."""
    for card in cards():
        tensor = {dtype: units["tensor"] for dtype, units in card.flops.items() if "tensor" in units}
        if "tf32" in tensor and not card.title.startswith("GeForce"):
            assert tensor["bfloat16"] / tensor["tf32"] == pytest.approx(2, rel=0.03), card.title
        if "fp8" in tensor:
            assert tensor["fp8"] / tensor["bfloat16"] == pytest.approx(2, rel=0.03), card.title
        if "nvfp4" in tensor:
            assert tensor["nvfp4"] / tensor["int8"] == pytest.approx(2, rel=0.03), card.title
        if "mxfp8" in tensor:
            assert tensor["mxfp8"] == tensor["fp8"], card.title


def test_a_k80_is_one_of_two_gpus_on_a_board() -> None:
    half = find_card("Tesla K80")
    assert half is not None
    board = half.board
    assert board is not None
    assert (half.cores, half.memory_gb, half.base_clock_mhz) == (2_496, (12,), 560)
    assert (board.chips, board.cores, board.memory_gb, board.bandwidth) == (2, 4_992, 24, 480e9)
    assert (board.flops["float64"]["plain"], board.flops["float32"]["plain"]) == (2.91e12, 8.73e12)


def test_a_board_is_the_sum_of_its_chips() -> None:
    boards = {card.title: (card, card.board) for card in cards() if card.board}
    for card, board in boards.values():
        for dtype, units in board.flops.items():
            for unit, value in units.items():
                # Google states 420 TFLOP/s for the TPU v3 board and 123 for one of its four chips.
                share = 420 / (4 * 123) if card.title == "TPU v3, one chip" else 1
                assert value == pytest.approx(share * board.chips * card.flops[dtype][unit]), board.title
        assert board.memory_gb == board.chips * card.memory_gb[0]
        assert board.cores is None or board.cores == board.chips * card.cores
    assert [board.flops["bfloat16"]["tensor"] for card, board in boards.values() if card.title.startswith("TPU")] == [
        180e12,
        420e12,
    ]


def test_a_gtx_980_tis_peaks_are_its_cores_at_boost() -> None:
    card = find_card("NVIDIA GeForce GTX 980 Ti")
    assert card is not None
    assert card.cores is not None
    assert card.clock_mhz is not None
    assert card.flops["float32"]["plain"] == pytest.approx(2 * card.cores * card.clock_mhz * 1e6)
    assert card.flops["float64"]["plain"] == pytest.approx(card.flops["float32"]["plain"] / 32)


def test_the_h200_has_the_peaks_of_its_datasheet() -> None:
    gpu = machine("NVIDIA H200")
    assert device_kind("gpu").peak(gpu, "bfloat16", "flops").value == pytest.approx(989e12, rel=1e-3)
    assert device_kind("gpu").peak(gpu, "float64", "flops").unit_kind == "tensor"
    assert device_kind("gpu").peak(gpu, "float32", "flops").value == 67e12
    assert device_kind("gpu").peak(gpu, "float32", "bytes").value == 4.8e12


def test_peak_of_the_plain_units() -> None:
    gpu = machine("NVIDIA H200")
    assert device_kind("gpu").peak(gpu, "float64", "flops", "plain").value == 34e12
    assert device_kind("gpu").peak(gpu, "float64", "bytes", "plain").value == 4.8e12
    unknown = device_kind("gpu").peak(gpu, "float16", "flops", "plain")
    assert unknown.value is None, "the tensor cores' peak"
    assert "float16 on the plain units of H200 SXM" in str(unknown.reason)


def test_the_16_bit_tensor_peak_of_a_geforce_accumulates_in_float32() -> None:
    """It is half of the peak with accumulation in float16 (330.4 TFLOP/s on the RTX 4090)."""
    assert device_kind("gpu").peak(machine("NVIDIA GeForce RTX 4090"), "float16", "flops").value == 165.2e12


@pytest.mark.parametrize(
    ("name", "multiprocessors"), [("NVIDIA H100 80GB HBM3", 132), ("NVIDIA H100 PCIe", 114), ("NVIDIA H200", 132)]
)
def test_hoppers_plain_and_tensor_peaks_have_different_clocks(name: str, multiprocessors: int) -> None:
    """An SM executes 256 FLOP per cycle in float32 and 4096 in bfloat16 on its tensor cores."""
    for dtype, flops_per_cycle in (("float32", 256), ("bfloat16", 4096), ("float64", 256)):
        stated = device_kind("gpu").peak(machine(name), dtype, "flops")
        assert stated.clock_mhz is not None
        expected = multiprocessors * flops_per_cycle * stated.clock_mhz * 1e6
        assert stated.value == pytest.approx(expected, rel=5e-3), dtype


def test_every_clock_belongs_to_a_peak() -> None:
    for card in cards():
        for dtype, units in card.clocks.items():
            assert units.keys() <= card.flops[dtype].keys(), (card.title, dtype)


def test_an_unknown_peak_is_null_with_a_reason() -> None:
    for found in (
        device_kind("cpu").peak(machine(), "float32", "flops"),
        device_kind("cpu").peak(machine(), "float32", "bytes"),
        device_kind("tpu").peak(machine(), "float32", "flops"),
        device_kind("gpu").peak(machine(), "float32", "flops"),
        device_kind("gpu").peak(machine("NVIDIA H200", mig=True), "float32", "flops"),
        device_kind("gpu").peak(machine("NVIDIA A10G"), "float32", "flops"),
        device_kind("gpu").peak(machine("Tesla T4"), "bfloat16", "flops"),
    ):
        assert found.value is None
        assert found.reason


def test_a_ceiling_of_all_cores_does_not_bound_a_point_pinned_to_one() -> None:
    assert "does not bound" not in str(device_kind("cpu").peak(machine(), "float32", "flops").reason)
    kept = device_kind("cpu").peak(machine(), "float32", "flops", kept_to_cpus=1)
    assert kept.value is None
    assert str(kept.reason).endswith("does not bound 1)")
    gpu = machine("NVIDIA H200")
    assert device_kind("gpu").peak(gpu, "float32", "flops", kept_to_cpus=1) == device_kind("gpu").peak(
        gpu, "float32", "flops"
    )


def test_a_peak_scales_with_the_observed_clock() -> None:
    card = find_card("NVIDIA H200")
    assert card is not None
    stated = card_peak(card, "bfloat16", "flops")
    assert stated.value is not None
    assert stated.at_clock(915) == pytest.approx(stated.value / 2)
    memory = card_peak(card, "", "bytes")
    assert memory.value is not None
    assert memory.clock_mhz is None, "the memory clock is another one"
    assert memory.at_clock(915) is None


def processor(vendor: str, isa: str, family: int | None = None, number: int | None = None, model: str = "") -> Cpu:
    return Cpu(
        architecture="", logical=1, usable=1, vendor=vendor, family=family, model_number=number, model=model, isa=[isa]
    )


@pytest.mark.parametrize(
    ("cpu", "float64"),
    [
        (processor("GenuineIntel", "fma", 6, 79), 16),  # Broadwell
        (processor("GenuineIntel", "avx512f", 6, 106), 32),  # Ice Lake-SP
        (processor("GenuineIntel", "avx512f", 6, 143), 32),  # Sapphire Rapids
        (processor("GenuineIntel", "avx512f", 6, 207), 32),  # Emerald Rapids
        (processor("AuthenticAMD", "fma", 23, 1), 8),  # Naples
        (processor("AuthenticAMD", "fma", 23, 49), 16),  # Rome
        (processor("AuthenticAMD", "fma", 25, 1), 16),  # Milan
        (processor("AuthenticAMD", "fma", 25, 17), 16),  # Genoa
        (processor("AuthenticAMD", "avx512f", 26, 2), 32),  # Turin
        (processor("ARM", "asimd", model="Neoverse-N1"), 8),
        (processor("ARM", "sve", model="Neoverse-V1"), 16),
        (processor("ARM", "asimd", model="Neoverse-V2"), 16),
    ],
)
def test_a_core_is_found_by_its_model_numbers(cpu: Cpu, float64: int) -> None:
    assert cpu_flops_per_cycle(cpu, "float64") == float64
    assert cpu_flops_per_cycle(cpu, "float32") == 2 * float64
    assert cpu_flops_per_cycle(cpu, "bfloat16") is None


@pytest.mark.parametrize(
    "cpu",
    [
        processor("GenuineIntel", "avx512f", 6, 85),  # Skylake-SP: one or two AVX-512 units
        processor("GenuineIntel", "fma", 6, 143),  # AVX-512 is hidden by the hypervisor
        processor("AuthenticAMD", "avx512f", 26, 36),  # Zen 5 with the narrow data path
        processor("AuthenticAMD", "fma", 25),
        processor("ARM", "asimd", model="Cortex-A72"),
        processor("", ""),
    ],
)
def test_an_unknown_core_or_one_with_variants_has_no_peak(cpu: Cpu) -> None:
    assert cpu_flops_per_cycle(cpu, "float64") is None


def test_the_peak_of_several_kinds_of_cores_is_their_sum_or_unknown() -> None:
    """The cores are the ones of `peaks.toml`: 10 × 16 FLOP per cycle at 3 GHz, and 8 × 8 at 2 GHz."""
    fast = CoreKind(name="Neoverse-V2", cpus=list(range(10)), cores=10, frequency_mhz=3000)
    slow = CoreKind(name="Neoverse-N1", cpus=list(range(10, 18)), cores=8, frequency_mhz=2000)
    cpu = processor("ARM", "asimd", model="Neoverse-V2 + Neoverse-N1").model_copy(update={"kinds": [fast, slow]})
    assert core_flops_per_cycle(cpu, fast)["float64"] == 16
    assert flops_at_highest_clocks(cpu, "float64") == 10 * 16 * 3e9 + 8 * 8 * 2e9
    assert cpu_flops_per_cycle(cpu, "float64") is None
    for changes in ({"name": "Cortex-A725"}, {"frequency_mhz": None}, {"cores": None}):
        kinds = [fast, slow.model_copy(update=changes)]
        assert flops_at_highest_clocks(cpu.model_copy(update={"kinds": kinds}), "float64") is None
    assert flops_at_highest_clocks(processor("ARM", "asimd", model="Neoverse-V2"), "float64") is None


@given(st.sampled_from(["GenuineIntel", "AuthenticAMD"]), st.sampled_from([6, 23, 25, 26]), st.integers(0, 255))
def test_no_processor_matches_two_cores(vendor: str, family: int, number: int) -> None:
    same = [core for core in cores() if (core.vendor, core.family) == (vendor, family)]
    assert sum(low <= number <= high for core in same for low, high in core.models) <= 1
