"""Tests of NVML's sensors: impossible readings are left out and named."""

from __future__ import annotations

import pynvml
import pytest

from accelbench.profiling.machine.nvidia import nvml
from accelbench.profiling.machine.pcie import PcieLink

GOOD = [("gpu.power", 70.0, "W"), ("gpu.temperature", 40.0, "°C"), ("gpu.processes", 1.0, "")]
GARBAGE = [("gpu.power", 4_294_967.295, "W"), ("gpu.temperature", 40.0, "°C"), ("gpu.processes", 3.0, "")]


def cards(monkeypatch: pytest.MonkeyPatch, *readings: list[tuple[str, float, str]]) -> tuple[nvml.Cards, list[str]]:
    """Return cards with these readings, and the list of missing sensors."""
    missing: list[str] = []
    monkeypatch.setattr(nvml, "open_card", int)
    monkeypatch.setattr(nvml, "is_partitioned", lambda card: False)
    monkeypatch.setattr(nvml, "read_card", lambda card: iter(readings[card]))
    return nvml.Cards([str(number) for number in range(len(readings))], missing), missing


def test_the_link_in_use_and_the_best_one(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"CurrPcieLinkGeneration": 3, "CurrPcieLinkWidth": 8, "MaxPcieLinkGeneration": 5, "MaxPcieLinkWidth": 16}
    for name, value in values.items():
        monkeypatch.setattr(nvml.pynvml, f"nvmlDeviceGet{name}", lambda card, value=value: value)
    assert nvml.pcie_link(object()) == (PcieLink(3, 8), PcieLink(5, 16))

    def unsupported(card: object) -> int:
        raise nvml.pynvml.NVMLError(nvml.pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(nvml.pynvml, "nvmlDeviceGetCurrPcieLinkWidth", unsupported)
    assert nvml.pcie_link(object()) is None


def test_possible_readings_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    found, missing = cards(monkeypatch, GOOD)
    assert found.read() == GOOD
    assert missing == []


def test_impossible_readings_are_left_out_and_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found, missing = cards(monkeypatch, GARBAGE)
    for _ in range(3):
        assert found.read() == [("gpu.temperature", 40.0, "°C")]
    assert len(missing) == 1
    assert "gpu.power" in missing[0]


@pytest.mark.parametrize("value", [-1.0, 101.0, float("nan"), 4_294_967_295.0])
def test_an_impossible_reading_of_one_card_does_not_concern_the_other(
    value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, missing = cards(monkeypatch, [("gpu.utilization", value, "%"), ("gpu.processes", 3.0, "")], GOOD)
    assert found.read() == [(f"{name}.1", reading, unit) for name, reading, unit in GOOD]
    assert len(missing) == 1


@pytest.mark.parametrize(
    "error", [pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED), pynvml.NVMLLibraryMismatchError()]
)
def test_what_card_or_driver_does_not_support_is_unknown(error: Exception) -> None:
    def query(card: object) -> object:
        raise error

    assert nvml.read(query, None) is None
