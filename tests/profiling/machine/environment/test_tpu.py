"""TPUs in the environment record: facts from the framework, and the vendor's peak of each device."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from accelbench.environment.differences import differences
from accelbench.history.fingerprint import hardware_text
from accelbench.profiling.analysis.roofline import share_of_peak
from accelbench.profiling.benchmark import Benchmark, Task, axis
from accelbench.profiling.devices import device_kind
from accelbench.profiling.machine.environment import tpu
from accelbench.profiling.machine.environment.tpu import tpus_of_jax, tpus_of_tensorflow, with_tpus
from accelbench.profiling.machine.vendor_peaks import find_card
from accelbench.profiling.measure.point import measure
from accelbench.profiling.records.environment import Environment, TpuDevice
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work
from tests.profiling.machine.test_vendor_peaks import machine

FAKE_JAX = """
class Device:
    device_kind = "TPU v5 lite"
    def __init__(self, number): self.coords = [number, 0, 0]
    def memory_stats(self): return {"bytes_limit": 16909336576, "bytes_in_use": 0}
print("a library greets its user")
def local_devices(backend):
    assert backend == "tpu"
    return [Device(number) for number in range(4)]
"""


def devices(kind: str, coordinates: list[tuple[int, ...]], memory: int | None = 1 << 34) -> list[Any]:
    stats = None if memory is None else {"bytes_limit": memory}
    return [SimpleNamespace(device_kind=kind, coords=list(at), memory_stats=lambda: stats) for at in coordinates]


def on(*found: TpuDevice) -> Environment:
    return machine().model_copy(update={"tpus": list(found)})


def test_devices_of_one_chip_share_its_peak() -> None:
    cores = tpus_of_jax(devices("TPU v3", [(0, 0, 0), (0, 0, 0), (1, 0, 0), (1, 0, 0)], memory=None))
    assert [(core.index, core.name, core.devices_of_chip, core.memory_bytes) for core in cores] == [
        (index, "TPU v3", 2, None) for index in range(4)
    ]
    assert device_kind("tpu").peak(on(*cores), "bfloat16", "flops").value == 123e12 / 2
    assert device_kind("tpu").peak(on(*cores), "bfloat16", "bytes").value == 900e9 / 2


@pytest.mark.parametrize(
    ("kind", "dtype", "peak"),
    [
        ("TPU v4", "bfloat16", 275e12),
        ("TPU v5 lite", "bfloat16", 197e12),
        ("TPU v5 lite", "int8", 393e12),
        ("TPU v5", "bfloat16", 459e12),
        ("TPU v6 lite", "int8", 1836e12),
        ("TPU v5 lite", "float32", None),
        ("TPU v5 lite", "fp8", None),
        ("TPU v99", "bfloat16", None),
    ],
)
def test_the_peak_is_of_the_kind_that_jax_reports(kind: str, dtype: str, peak: float | None) -> None:
    (found,) = tpus_of_jax(devices(kind, [(0, 0, 0)]))
    stated = device_kind("tpu").peak(on(found), dtype, "flops")
    assert stated.value == peak
    assert bool(stated.reason) == (peak is None)
    assert device_kind("tpu").model(on(found)) == kind


def test_a_device_of_tpu7x_has_half_of_the_chips_peak() -> None:
    halves = tpus_of_jax(devices("TPU7x", [(0, 0, 0), (0, 0, 0)]))
    assert device_kind("tpu").peak(on(*halves), "fp8", "flops").value == 4614e12 / 2


@pytest.mark.parametrize(
    ("accelerator", "title", "of_chip"),
    [
        ("v2-8", "TPU v2, one chip", 2),
        ("v3-8", "TPU v3, one chip", 2),
        ("v4-8", "TPU v4, one chip", 1),
        ("v5litepod-8", "TPU v5e, one chip", 1),
        ("v5e-1", "TPU v5e, one chip", 1),
        ("v5p-8", "TPU v5p, one chip", 1),
        ("v6e-1", "TPU v6e, one chip", 1),
        ("tpu7x-8", "TPU7x (Ironwood), one chip", 1),
    ],
)
def test_tensorflows_devices_are_named_by_the_type_of_the_accelerator(
    accelerator: str, title: str, of_chip: int
) -> None:
    found = tpus_of_tensorflow(3, accelerator)
    assert [each.index for each in found] == [0, 1, 2]
    assert {each.devices_of_chip for each in found} == {of_chip}
    card = find_card(found[0].name)
    assert card is not None
    assert card.title == title


def test_a_child_process_reads_the_facts_and_the_run_imports_no_framework(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jax.py").write_text(FAKE_JAX)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = with_tpus(machine())
    assert [(each.index, each.name, each.memory_bytes) for each in found.tpus] == [
        (index, "TPU v5 lite", 16909336576) for index in range(4)
    ]
    assert "tpus" not in found.unknown
    assert hardware_text(found).endswith(", 4× TPU v5 lite")


@pytest.mark.parametrize(
    ("program", "limit_s"), [("raise SystemExit('/home/somebody/secret')", 60.0), ("import time; time.sleep(60)", 0.3)]
)
def test_a_framework_that_does_not_start_is_a_reason_without_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, limit_s: float
) -> None:
    (tmp_path / "jax.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(tpu, "LIMIT_S", limit_s)
    found = with_tpus(machine())
    assert found.tpus == []
    assert "somebody" not in found.unknown["tpus"]
    assert tpu.__name__ in found.unknown["tpus"]
    assert device_kind("tpu").peak(found, "bfloat16", "flops").reason == found.unknown["tpus"]


def test_a_result_of_a_tpu_has_a_share_of_the_vendors_peak() -> None:
    passed = Verification(passed=True, method="none")
    task = Task(run=lambda: sum(range(1000)), verify=lambda: passed, work=Work(flops=1e6))
    counting = Benchmark(
        "counting", lambda point: task, devices=("tpu",), axes={"dtype": ("bfloat16",)}, metric="flops",
        bound="arithmetic", dtype=axis("dtype"),
    )  # fmt: skip
    point = Point("counting", "tpu", {"dtype": "bfloat16"})
    record = measure(counting, point, on(*tpus_of_jax(devices("TPU v5 lite", [(0, 0, 0)]))), max_seconds=0.05)
    assert record.status == "measured", record.reason
    assert record.peak is not None
    assert (record.peak.value, record.peak.unit_kind) == (197e12, "tensor")
    share, rate = share_of_peak(record), record.rate()
    assert rate is not None
    assert share.value == pytest.approx(rate / 197e12)


def test_another_kind_of_tpu_matters() -> None:
    lite, newer = (on(*tpus_of_jax(devices(kind, [(0, 0, 0)]))) for kind in ("TPU v5 lite", "TPU v6 lite"))
    (found,) = differences(lite, newer, {"tpu"})
    assert (found.fact, found.a, found.b, found.matters) == ("tpus.0.name", "TPU v5 lite", "TPU v6 lite", True)
