"""Tests of GPU facts, with a stub of the driver."""

from __future__ import annotations

import re

import pytest

from accelbench.profiling.records.environment import Environment
from tests.fixtures.stub_driver import run_with_driver

COLLECT = "from accelbench.profiling.machine.environment.collect import collect; print(collect().model_dump_json())"


@pytest.mark.needs("gcc")
def test_facts_of_a_gpu_without_its_uuid() -> None:
    text = run_with_driver(COLLECT)
    environment = Environment.model_validate_json(text)
    (gpu,) = environment.gpus
    assert (gpu.index, gpu.name, gpu.memory_bytes) == (0, "Stub GPU 0", 80 << 30)
    assert (gpu.compute_capability, gpu.multiprocessors, gpu.l2_bytes) == ("9.0", 132, 50 << 20)
    assert (gpu.sm_clock_max_mhz, gpu.memory_clock_max_mhz, gpu.power_limit_w) == (1980, 2619, 700)
    assert (gpu.ecc, gpu.mig, gpu.persistence) == (True, None, False)  # the stub does not support MIG
    assert gpu.pcie_width is None
    assert re.fullmatch(r"[0-9a-f]{12}", gpu.uuid_hash)
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
def test_a_failing_driver_gives_its_error_as_reason() -> None:
    environment = Environment.model_validate_json(run_with_driver(COLLECT, STUB_CUINIT="802"))
    assert environment.gpus == []
    assert environment.unknown["gpus"].endswith("CUDA_ERROR_SYSTEM_NOT_READY")
    assert environment.cuda is not None
