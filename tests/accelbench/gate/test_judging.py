"""Tests of limits, health checks and verdicts, without processes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from accelbench.execution.plan import make_plan
from accelbench.execution.suite import load_suite
from accelbench.gate import node_gate
from accelbench.gate.answer import GateCheck, GateResource, GateStatus, summary_of, verdict_of
from accelbench.gate.baseline import Baseline, BaselineHardware, BaselineMetric
from accelbench.gate.gpu_health import gpu_processes, gpu_readings
from accelbench.gate.hardware import HardwareClass
from accelbench.gate.health import (
    cpu_readings,
    disk_readings,
    free_space,
    kernel_log_readings,
    memory_readings,
    network_readings,
)
from accelbench.gate.limits import LimitSources, judge_points, judge_record
from accelbench.gate.node_gate import check_hardware
from accelbench.gate.past_limits import past_metrics
from accelbench.gate.reading import HealthReading, judge_health
from accelbench.gate.request import PastMetric
from accelbench.profiling.devices import gpu_backend
from accelbench.profiling.machine.pcie import LINK_SHARE
from accelbench.profiling.records.environment import Peak
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.record import Record
from tests.conftest import ROOT
from tests.fixtures.compare_runs import MATMUL, failed, gpu, in_rounds, machine, measured, run, samples
from tests.fixtures.machines import build

FLOPS = 2 * 1024**3


def judged(folder: Path, record: Record, limits: LimitSources | None = None, noisy: bool = False) -> GateCheck:
    store = run(folder / "judged", [record])
    return judge_record(record, "cpu", store.info(), limits or LimitSources(None, "", {}), noisy)


def limits_of(record: Record, baseline: str | float | None = None, past: float | None = None) -> LimitSources:
    """Return limits with the baseline's rule for a median of 1 s, and with stored runs of this median in seconds."""
    point, hardware = str(record.point), None
    if baseline is not None:
        fields: dict[str, Any] = {"point": point, "figure": "flops", "unit": "FLOP/s", "median": FLOPS, "runs": 5}
        metric = BaselineMetric(**fields, min=baseline)
        hardware = BaselineHardware(machine="m", cpu="c", cpus=4, memory_bytes=1, metric=[metric])
    found = {}
    if past:
        found[point] = PastMetric(
            point=point, figure="flops", unit="FLOP/s", median=FLOPS / past, deviation=0.001, runs=7
        )
    return LimitSources(hardware, "site.toml", found)


@pytest.mark.parametrize(
    ("seconds", "noise", "status"),
    [
        (1.0, [], "pass"),
        (1.2, [], "fail"),
        (1.2, ["other processes"], "unknown"),
        (1.0, ["other processes"], "pass"),
        (1 / 0.95 * 1.0002, [], "warn"),
    ],
)
def test_a_value_is_compared_with_the_limit(seconds: float, noise: list[str], status: str, tmp_path: Path) -> None:
    record = measured(samples(seconds, spread=0.001), noise=noise)
    check = judged(tmp_path, record, limits_of(record, "0.95 * median"))
    assert (check.status, check.unit) == (status, "FLOP/s")
    assert check.limit == pytest.approx(0.95 * FLOPS)
    assert "site.toml" in check.source


def test_the_sources_of_limits_have_an_order(tmp_path: Path) -> None:
    peak = Peak(value=1.5 * FLOPS, unit_kind="plain")
    record = measured(samples(1.0, spread=0.001), peak=peak)
    found = {
        "baseline": judged(tmp_path / "1", record, limits_of(record, 1.0, past=0.5)),
        "history": judged(tmp_path / "2", record, limits_of(record, past=0.5)),
        "peak": judged(tmp_path / "3", record),
    }
    assert [check.source.split()[0].strip(":") for check in found.values()] == list(found)
    assert [check.status for check in found.values()] == ["pass", "fail", "pass"]
    unknown = judged(tmp_path / "4", measured(samples(1.0)))
    assert (unknown.status, unknown.limit, unknown.source) == ("unknown", None, "")


def test_published_references_limit_the_same_device(tmp_path: Path) -> None:
    where = machine(gpus=[gpu("NVIDIA H100 80GB HBM3")])
    params = MATMUL | {"n": 8192, "dtype": "tf32"}
    for seconds, status in ((2 * 8192**3 / 370e12, "pass"), (2 * 8192**3 / 100e12, "fail")):
        work = {"work": measured([1.0]).work.__class__(flops=2 * 8192**3)}
        record = measured(samples(seconds, spread=0.001), device="gpu", params=params, timer="nvbench", **work)
        store = run(tmp_path / status, [record], where, device="gpu")
        check = judge_record(record, "gpu", store.info(), LimitSources(None, "", {}), False)
        assert (check.status, check.source.split(":")[0]) == (status, "references")


def test_a_failed_point_is_a_failed_check_with_its_reason(tmp_path: Path) -> None:
    check = judged(tmp_path, failed("wrong answer"))
    assert (check.status, check.found, check.value) == ("fail", "wrong answer", None)


def test_a_skipped_point_decides_only_if_it_could_be_measured(tmp_path: Path) -> None:
    skipped = failed("this device has no fp8", "stream", status="skipped")
    point = str(skipped.point)
    past = PastMetric(point=point, figure="bytes", unit="B/s", median=1, deviation=0, runs=5)
    expected, unknown = LimitSources(None, "", {point: past}), LimitSources(None, "", {})
    for number, (records, limits, decides) in enumerate(
        [
            ([measured(samples(1.0)), skipped], unknown, False),
            ([measured(samples(1.0)), skipped], expected, True),
            ([skipped], unknown, True),
        ]
    ):
        store = run(tmp_path / str(number), records)
        resources: dict[str, GateResource] = {str(record.point): "gpu" for record in records}
        checks = judge_points(store, store.info(), resources, limits, include_noisy=False)
        assert [check.decides for check in checks if check.name == point] == [decides]


@pytest.mark.parametrize(("share", "status"), [(100.0, "pass"), (50.0, "warn")])
def test_a_slow_pcie_link_is_a_warning(share: float, status: str, tmp_path: Path) -> None:
    record = measured(samples(1.0, spread=0.001), metrics={LINK_SHARE: Metric(share, "%")})
    assert judged(tmp_path, record, limits_of(record, "0.95 * median")).status == status


def test_repetitions_have_their_own_values(tmp_path: Path) -> None:
    check = judged(tmp_path, in_rounds([1.0, 1.1, 1.2]))
    assert check.repetitions == pytest.approx([FLOPS / 1.0, FLOPS / 1.1, FLOPS / 1.2], rel=0.01)


def test_stored_runs_of_the_same_hardware_give_limits(tmp_path: Path) -> None:
    for number in range(6):
        run(tmp_path / "runs" / f"r{number}", [measured(samples(1.0 + number / 1000, spread=0.001))])
    run(tmp_path / "runs" / "other", [measured(samples(9.0))], machine(gpus=[]))
    here = run(tmp_path / "here", [measured(samples(1.0))])
    (metric,) = past_metrics(tmp_path / "runs", [here]).metrics
    assert metric.runs == 6
    assert metric.median == pytest.approx(FLOPS / 1.0025, rel=0.01)
    assert past_metrics(tmp_path / "missing", [here]).metrics == []


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        (["measurement pass", "health unknown"], "fit"),
        (["measurement warn"], "fit"),
        (["measurement unknown", "health pass"], "unknown"),
        (["measurement unknown", "health fail"], "unfit"),
        (["node unknown", "measurement pass"], "unknown"),
        (["health unknown"], "unknown"),
        (["lacking unknown"], "unknown"),
        (["lacking unknown", "measurement pass"], "fit"),
        (["health pass"], "fit"),
        ([], "unknown"),
    ],
)
def test_the_worst_check_decides(statuses: list[str], verdict: str) -> None:
    kinds: dict[str, Any] = {
        "health": {"kind": "health", "decides": False},
        "lacking": {"kind": "measurement", "decides": False},
    }
    checks = [
        GateCheck.model_validate({"name": "x", "kind": kind, "status": status, "found": "y"} | kinds.get(kind, {}))
        for kind, status in map(str.split, statuses)
    ]
    assert verdict_of(checks) == verdict
    assert summary_of(checks, verdict_of(checks))


def tree(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def statuses(readings: Iterator[HealthReading]) -> dict[str, GateStatus]:
    return {reading.name: reading.status for reading in readings}


def test_absent_health_sources_are_unknown(tmp_path: Path) -> None:
    assert set(statuses(cpu_readings(tmp_path)).values()) == {"unknown"}
    assert set(statuses(memory_readings(tmp_path)).values()) == {"unknown"}
    assert set(statuses(network_readings(tmp_path)).values()) == {"unknown"}
    assert set(statuses(kernel_log_readings(tmp_path / "kmsg")).values()) == {"unknown"}


def test_health_readings_of_a_machine_with_faults(tmp_path: Path) -> None:
    cpus, edac, net = "sys__devices__system__cpu__", "sys__devices__system__edac__mc__mc0__", "sys__class__net__eth0__"
    root = tree(
        tmp_path,
        **{
            f"{cpus}present": "0-7",
            f"{cpus}online": "0-5",
            f"{cpus}cpu0__cpufreq__scaling_governor": "powersave",
            f"{cpus}cpu0__thermal_throttle__core_throttle_count": "3",
            f"{edac}ue_count": "1",
            f"{edac}ce_count": "20",
            f"{net}operstate": "up",
            f"{net}speed": "100000",
            f"{net}statistics__rx_errors": "5",
            f"{net}device__vendor": "x",
            "sys__class__infiniband__mlx5_0__ports__1__state": "1: DOWN",
            "proc__mounts": "/dev/sda1 /a ext4 ro 0 0\n/dev/sdb /b xfs rw 0 0\n/dev/sdb /c xfs ro 0 0\n",
        },
    )
    assert statuses(cpu_readings(root)) == {
        "CPU thermal throttling": "pass",
        "CPU governor": "warn",
        "offline CPUs": "warn",
    }
    assert [*statuses(memory_readings(root)).values()] == ["fail", "pass"]
    assert [*statuses(network_readings(root)).values()] == ["pass", "warn"]
    disk = {reading.name: reading for reading in disk_readings(tmp_path, root)}
    assert (disk["read-only file systems"].status, disk["read-only file systems"].found) == ("warn", "/dev/sda1")
    assert disk["temporary file"].status == "pass"


@pytest.mark.parametrize(
    ("available", "inodes", "status"), [(0.5, 0.5, "pass"), (0.03, 0.5, "warn"), (0.0, 0.5, "fail"), (0.5, 0.0, "fail")]
)
def test_free_space_and_inodes_decide(available: float, inodes: float, status: str) -> None:
    blocks = 1 << 30
    facts: Any = SimpleNamespace(
        f_bavail=int(available * blocks), f_blocks=blocks, f_frsize=4096, f_favail=int(inodes * 1000), f_files=1000
    )
    assert free_space(Path("/"), facts).status == status


def test_a_counter_that_rises_decides_and_a_constant_one_does_not() -> None:
    def reading(counter: float, on_rise: Any = "fail") -> HealthReading:
        return HealthReading(name="x", resource="gpu", found="", counter=counter, on_rise=on_rise)

    assert judge_health([reading(3)], [reading(3)])[0].status == "pass"
    assert judge_health([reading(3)], [reading(4)])[0].status == "fail"
    assert judge_health([reading(3, "warn")], [reading(4, "warn")])[0].status == "warn"
    assert judge_health([reading(3)], [])[0].status == "pass"
    absent = HealthReading(name="x", resource="gpu", status="unknown", found="")
    assert not judge_health([absent], [absent])[0].decides


def test_a_reduced_node_lacks_parts_of_its_class() -> None:
    whole = HardwareClass(machine="a", cpu="EPYC", cpus=8, gpus={"H200": 8}, memory_bytes=1)
    assert whole.missing_from(whole.model_copy(update={"gpus": {"H200": 7}})) == ["1 of 8× H200"]
    assert whole.missing_from(whole.model_copy(update={"cpus": 6, "gpus": {}})) == ["2 of 8 CPUs", "8 of 8× H200"]
    assert whole.missing_from(whole.model_copy(update={"cpu": "Xeon", "cpus": 6})) == []
    assert whole.missing_from(whole.model_copy(update={"gpus": {"A100": 8}})) == []


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, "pass"),
        ({"memory_bytes": 99}, "pass"),
        ({"memory_bytes": 90}, "fail"),
        ({"memory_channels": 11}, "fail"),
        ({"memory_channels": None}, "pass"),
        ({"machine": "b", "cpus": 6}, "fail"),
        ({"machine": "b", "cpu": "Xeon"}, "unknown"),
    ],
)
def test_hardware_is_compared_with_its_class(change: dict[str, Any], status: str) -> None:
    whole = HardwareClass(machine="a", cpu="EPYC", cpus=8, memory_bytes=100, memory_channels=12)
    known = [BaselineHardware(**whole.model_dump(), metric=[])]
    baseline = Baseline(baseline_version=1, created="2025-01-01", accelbench="0", hardware=known)
    found, check = check_hardware(baseline, whole.model_copy(update=change))
    assert (check.status, found is None) == (status, "machine" in change)


@pytest.mark.parametrize(("visible", "gpus"), [("0,1,2,3,4,5,6,7", 8), ("0", 2)])  # a pair that one GPU skips
def test_the_thorough_level_copies_from_and_to_the_first_gpu(
    visible: str, gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(gpu_backend().visible_devices, visible)
    level = load_suite(str(ROOT / "accelbench/gate/levels/thorough.toml"))
    plan = make_plan([], level, "gpu", [], None)
    pairs = [(point["from"], point["to"]) for point in plan if point.benchmark == "transfer-gpus"]
    assert sorted(pairs) == sorted([(0, gpu) for gpu in range(1, gpus)] + [(gpu, 0) for gpu in range(1, gpus)])


@pytest.mark.parametrize(
    ("function", "number", "verdict"),
    [
        ("mkdtemp", errno.ENOSPC, "unfit"),
        ("mkdtemp", errno.EROFS, "unfit"),
        ("mkdtemp", errno.EMFILE, "unknown"),
        ("gettempdir", errno.ENOENT, "unfit"),
    ],
)
def test_a_node_that_cannot_be_written_is_unfit(
    function: str, number: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**options: str) -> str:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(node_gate, function, fail)
    monkeypatch.setattr(node_gate, "LOCK", f"\0accelbench-test-{os.getpid()}:{{}}")  # a gate may run on this machine
    answer = node_gate.check_node(node_gate.GateSettings())
    assert (answer.verdict, answer.exit_status) == (verdict, {"unfit": 1, "unknown": 2}[verdict])
    assert os.strerror(number) in answer.summary


GOOD: dict[str, Any] = {
    "nvmlInit": None,
    "nvmlDeviceGetCount": 1,
    "nvmlDeviceGetHandleByIndex": "card",
    "nvmlDeviceGetTotalEccErrors": 0,
    "nvmlDeviceGetRemappedRows": (0, 0, 0, 0),
    "nvmlDeviceGetRetiredPagesPendingStatus": 0,
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetPcieReplayCounter": 0,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 0,
    "nvmlDeviceGetEnforcedPowerLimit": 700_000,
    "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
    "nvmlDeviceGetComputeMode": pynvml.NVML_COMPUTEMODE_DEFAULT,
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetNvLinkState": 1,
    "nvmlDeviceGetNvLinkErrorCounter": 0,
}


@pytest.mark.parametrize(
    ("query", "value", "name", "status"),
    [
        ("nvmlDeviceGetTotalEccErrors", 2, "GPU 0 ECC uncorrected errors", "fail"),
        ("nvmlDeviceGetRemappedRows", (0, 1, 1, 0), "GPU 0 memory repair", "fail"),
        ("nvmlDeviceGetRemappedRows", (0, 1, 0, 1), "GPU 0 memory repair", "fail"),
        ("nvmlDeviceGetRetiredPagesPendingStatus", 1, "GPU 0 memory repair", "fail"),
        ("nvmlDeviceGetCurrPcieLinkWidth", 8, "GPU 0 PCIe width", "warn"),
        (
            "nvmlDeviceGetCurrentClocksThrottleReasons",
            pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
            "GPU 0 throttling",
            "fail",
        ),
        ("nvmlDeviceGetEnforcedPowerLimit", 500_000, "GPU 0 power limit", "warn"),
        ("nvmlDeviceGetComputeMode", pynvml.NVML_COMPUTEMODE_PROHIBITED, "GPU 0 compute mode", "fail"),
        ("nvmlDeviceGetPersistenceMode", 0, "GPU 0 persistence mode", "warn"),
    ],
)
def test_a_fault_of_a_card_is_found(
    query: str, value: Any, name: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each, result in GOOD.items():
        monkeypatch.setattr(pynvml, each, lambda *_, result=result: result)
    assert set(statuses(gpu_readings(tmp_path)).values()) == {"pass"}
    monkeypatch.setattr(pynvml, query, lambda *_: value)
    assert {found for found, of in statuses(gpu_readings(tmp_path)).items() if of != "pass"} >= {name}
    assert statuses(gpu_readings(tmp_path))[name] == status


def test_a_card_without_a_responding_driver_is_unfit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)

    monkeypatch.setattr(pynvml, "nvmlInit", lost)
    assert [*statuses(gpu_readings(tmp_path)).values()] == ["unknown"]
    pci = "sys__bus__pci__devices__0000:01:00.0__"
    tree(tmp_path, **{f"{pci}vendor": "0x10de", f"{pci}device": "0x2330", f"{pci}class": "0x030200"})
    assert [*statuses(gpu_readings(tmp_path)).values()] == ["fail"]


@pytest.mark.parametrize(
    ("online", "offline", "found"), [("0-1", "", "0 of 8"), ("0-1", "6-63", "2 of 8"), ("0-5", None, "2 of 8")]
)
def test_cpus_outside_of_a_container_are_not_offline(
    online: str, offline: str | None, found: str, tmp_path: Path
) -> None:
    folder = "sys/devices/system/cpu"
    files = {f"{folder}/present": "0-7", f"{folder}/online": online}
    root = build(tmp_path, files | ({} if offline is None else {f"{folder}/offline": offline}))
    assert {reading.name: reading.found for reading in cpu_readings(root)}["offline CPUs"] == found


def test_an_mps_server_keeps_no_gpu_busy_but_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    for each, result in GOOD.items():
        monkeypatch.setattr(pynvml, each, lambda *_, result=result: result)
    server, client = SimpleNamespace(pid=71), SimpleNamespace(pid=72)
    names = {71: "/usr/bin/nvidia-cuda-mps-server", 72: "/opt/nvidia-cuda-mps-server-test/train"}
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", lambda card: [server])
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMPSComputeRunningProcesses", lambda card: [])
    monkeypatch.setattr(pynvml, "nvmlSystemGetProcessName", names.__getitem__)
    assert gpu_processes() == {}
    readings = {reading.name: reading for reading in gpu_readings(Path("/"))}
    assert readings["GPU 0 MPS server"].status == "pass"
    assert "71" in readings["GPU 0 MPS server"].found
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMPSComputeRunningProcesses", lambda card: [client])
    assert gpu_processes() == {72: 0}
