"""Peaks are the vendor's dense figures for this very card, or unknown with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.environment.model import Cpu, Environment, Gpu, Limits, Memory, Software, System
from profiling.peaks import card_peak, cards, find_card, peak, peak_at_clock

DTYPES = ("float64", "float32", "tf32", "float16", "bfloat16", "fp8", "int8")


def machine(*names: str, mig: bool | None = None) -> Environment:
    return Environment(
        cpu=Cpu(architecture="x86_64", logical=2, usable=2),
        memory=Memory(total_bytes=1, available_bytes=1),
        limits=Limits(),
        system=System(os="Linux", kernel="6"),
        gpus=[Gpu(index=i, name=name, uuid_hash="0" * 12, mig=mig) for i, name in enumerate(names)],
        software=Software(python="3.11", implementation="CPython", accelbench="0"),
    )


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("Tesla K40m", "Tesla K40"),
        ("Tesla K80", "Tesla K80, one of its two GPUs"),
        ("Tesla P100-PCIE-16GB", "Tesla P100 PCIe 16 GB"),
        ("Tesla P100-SXM2-16GB", "Tesla P100 SXM2"),
        ("Tesla V100-SXM2-16GB", "Tesla V100 SXM2"),
        ("Tesla V100-PCIE-32GB", "Tesla V100 PCIe"),
        ("Tesla T4", "T4"),
        ("NVIDIA A100-SXM4-40GB", "A100 40 GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80 GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80 GB"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 3090", "GeForce RTX 3090"),
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 5090", "GeForce RTX 5090"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA B200", "B200, HGX"),
    ],
)
def test_the_drivers_name_finds_its_card(name: str, title: str) -> None:
    card = find_card(name)
    assert card is not None
    assert card.title == title


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA L40",
        "NVIDIA H200 NVL",
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
def test_a_sibling_of_a_known_card_is_unknown(name: str) -> None:
    assert find_card(name) is None
    found = peak(machine(name), "gpu", "float32", "flops")
    assert found.value is None
    assert name in (found.reason or "")


@given(st.text(min_size=1, max_size=8), st.sampled_from([card.title for card in cards()]))
def test_no_two_cards_share_a_name_and_no_suffix_matches_by_accident(suffix: str, title: str) -> None:
    matching = [card for card in cards() if find_card(f"{title}{suffix}") is card]
    assert len(matching) <= 1


def test_every_card_has_a_source_and_sane_figures() -> None:
    for card in cards():
        assert len(card.source) > 10, card.title
        for dtype, units in card.flops.items():
            assert dtype in DTYPES
            assert units.keys() <= {"plain", "tensor"}
            assert all(1e11 < flops < 1e16 for flops in units.values()), (card.title, dtype)
            if "plain" in units and "tensor" in units:
                assert units["tensor"] >= units["plain"], (card.title, dtype)
        assert card.bandwidth is None or 1e11 < card.bandwidth < 1e13


def test_dense_tensor_figures_keep_their_ratios() -> None:
    """A figure with sparsity, or TF32 listed as float32, would break these."""
    for card in cards():
        tensor = {dtype: units["tensor"] for dtype, units in card.flops.items() if "tensor" in units}
        if "tf32" in tensor and not card.title.startswith("GeForce"):
            assert tensor["bfloat16"] / tensor["tf32"] == pytest.approx(2, rel=0.03), card.title
        if "fp8" in tensor:
            assert tensor["fp8"] / tensor["bfloat16"] == pytest.approx(2, rel=0.03), card.title


def test_the_h200s_peaks_are_those_of_its_datasheet() -> None:
    gpu = machine("NVIDIA H200")
    assert peak(gpu, "gpu", "bfloat16", "flops").value == pytest.approx(989e12, rel=1e-3)
    assert peak(gpu, "gpu", "float64", "flops").unit_kind == "tensor"
    assert peak(gpu, "gpu", "float32", "flops").value == 67e12
    assert peak(gpu, "gpu", "float32", "bytes").value == 4.8e12


def test_the_unknown_is_null_with_a_reason() -> None:
    for found in (
        peak(machine(), "cpu", "float32", "flops"),
        peak(machine(), "cpu", "float32", "bytes"),
        peak(machine(), "tpu", "float32", "flops"),
        peak(machine(), "gpu", "float32", "flops"),
        peak(machine("NVIDIA H200", mig=True), "gpu", "float32", "flops"),
        peak(machine("NVIDIA A10G"), "gpu", "float32", "flops"),
        peak(machine("Tesla T4"), "gpu", "bfloat16", "flops"),
    ):
        assert found.value is None
        assert found.reason


def test_a_peak_scales_with_the_observed_clock() -> None:
    card = find_card("NVIDIA H200")
    assert card is not None
    stated = card_peak(card, "bfloat16", "flops")
    assert stated.value is not None
    assert peak_at_clock(stated, 915) == pytest.approx(stated.value / 2)
    assert peak_at_clock(card_peak(card, "", "bytes"), 915) is None
