"""Tests of GPU facts, with a stub of the driver."""

from __future__ import annotations

import re

import pytest

from accelbench.profiling.machine.environment import gpu
from accelbench.profiling.records.environment import Environment
from tests.fixtures.stub_driver import run_with_driver

COLLECT = "from accelbench.profiling.machine.environment.collect import collect; print(collect().model_dump_json())"


@pytest.mark.needs("gcc")
def test_facts_of_a_gpu_without_its_uuid() -> None:
    text = run_with_driver(COLLECT)
    environment = Environment.model_validate_json(text)
    (card,) = environment.gpus
    assert (card.index, card.name, card.memory_bytes) == (0, "Stub GPU 0", 80 << 30)
    assert (card.compute_capability, card.multiprocessors, card.l2_bytes) == ("9.0", 132, 50 << 20)
    assert (card.sm_clock_max_mhz, card.memory_clock_max_mhz, card.power_limit_w) == (1980, 2619, 700)
    assert (card.ecc, card.mig, card.persistence) == (True, None, False)  # the stub does not support MIG
    assert card.pcie_width is None
    assert card.mps is False
    assert re.fullmatch(r"[0-9a-f]{12}", card.uuid_hash)
    assert "11111111-1111" not in text
    assert environment.cuda is not None
    assert (environment.cuda.driver, environment.cuda.driver_cuda) == ("580.95.05", "12.8")


@pytest.mark.needs("gcc")
def test_two_cards_have_two_hashes_and_cudas_order() -> None:
    first, second = Environment.model_validate_json(run_with_driver(COLLECT, STUB_COUNT="2")).gpus
    assert (first.index, second.index) == (0, 1)
    assert first.uuid_hash != second.uuid_hash
    assert (first.power_limit_w, second.power_limit_w) == (700, None)  # NVML does not have the second


@pytest.mark.needs("gcc")
def test_an_mps_server_is_a_fact_of_its_card() -> None:
    settings = {"STUB_MPS": "0", "STUB_COUNT": "2", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"}
    environment = Environment.model_validate_json(run_with_driver(COLLECT, **settings))
    assert [card.mps for card in environment.gpus] == [True, None]  # NVML does not have the second
    assert environment.software.settings["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"


@pytest.mark.needs("gcc")
def test_a_failing_driver_gives_its_error_as_reason() -> None:
    environment = Environment.model_validate_json(run_with_driver(COLLECT, STUB_CUINIT="802"))
    assert environment.gpus == []
    assert environment.unknown["gpus"].endswith("CUDA_ERROR_SYSTEM_NOT_READY")
    assert environment.cuda is not None


GARBAGE = 4_294_967_295


def test_settings_that_no_card_has_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EnforcedPowerLimit", "MaxPcieLinkGeneration", "MaxPcieLinkWidth"):
        monkeypatch.setattr(gpu.pynvml, f"nvmlDeviceGet{name}", lambda card: GARBAGE)
    clocks = {gpu.pynvml.NVML_CLOCK_SM: 1980, gpu.pynvml.NVML_CLOCK_MEM: GARBAGE}
    monkeypatch.setattr(gpu.pynvml, "nvmlDeviceGetMaxClockInfo", lambda card, clock: clocks[clock])
    for name in ("EccMode", "MigMode", "PersistenceMode"):
        monkeypatch.setattr(gpu.pynvml, f"nvmlDeviceGet{name}", lambda card: None)
    found = {name: value for name, value in gpu._settings(object()).items() if value is not None}
    assert found == {"sm_clock_max_mhz": 1980}
