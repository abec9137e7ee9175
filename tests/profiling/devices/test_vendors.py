"""Tests of GPU vendors: a fictitious vendor, added by one file, works like NVIDIA."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from accelbench.execution.plan import discover
from accelbench.pair.container import in_image
from accelbench.profiling import devices
from accelbench.profiling.benchmark import Benchmark, Skip, Task
from accelbench.profiling.devices import DeviceMissing, device_kind, find_device, gpu_backend
from accelbench.profiling.devices.__main__ import main
from accelbench.profiling.machine.environment import COLLECTORS, PACKAGES
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.measure.point import measure
from accelbench.profiling.records.environment import Gpu
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work
from accelbench.workloads.training.given import hide_other_gpus
from tests.conftest import ROOT, command, environment, info, records
from tests.fixtures.stub_driver import run_with_driver

OTHER_VENDOR = ROOT / "tests" / "fixtures" / "other_vendor"
DEVICES = OTHER_VENDOR / "devices"


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch, no_driver: None) -> Iterator[None]:
    """Simulate a machine without an NVIDIA driver and with the fictitious vendor's backend and GPU."""
    monkeypatch.setattr(devices, "__path__", [*devices.__path__, str(DEVICES)])
    monkeypatch.setenv("ACME_GPU", "1")
    forget()
    yield
    forget()
    for registry in (COLLECTORS, PACKAGES):
        registry.pop("acme", None)
    sys.modules.pop(f"{devices.__name__}.acme", None)


def forget() -> None:
    devices.kinds.cache_clear()
    devices._present_backend.cache_clear()


@pytest.mark.usefixtures("acme")
def test_another_vendors_gpu_installs_no_packages_of_nvidia(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("auto") == main("gpu") == 0
    assert capsys.readouterr().out == "cpu\ncpu\n"


@pytest.mark.usefixtures("acme")
def test_the_backend_of_the_present_gpu_is_used() -> None:
    assert [backend.vendor for backend in devices.kinds()["gpu"]] == ["nvidia", "acme"]
    assert device_kind("gpu").find() == "Acme One"
    assert device_kind("gpu").vendor == gpu_backend().vendor == "acme"
    facts = collect()
    assert [(gpu.name, gpu.vendor) for gpu in facts.gpus] == [("Acme One", "acme")]
    assert facts.software.libraries["hypothesis"]


@pytest.mark.usefixtures("acme")
def test_without_a_gpu_the_first_vendors_backend_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACME_GPU")
    assert device_kind("gpu").vendor == "nvidia"
    with pytest.raises(DeviceMissing):
        find_device("gpu")
    assert "gpus" in collect().unknown


BOTH = """
from accelbench.profiling import devices
devices.__path__.append("%s")
from accelbench.profiling.machine.environment.collect import collect
print(devices.device_kind("gpu").vendor, *(gpu.vendor for gpu in collect().gpus))
"""


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(("nvidia_gpus", "vendor"), [("1", "nvidia"), ("0", "acme")])
def test_with_two_vendors_nvidia_is_first_unless_its_gpus_are_hidden(nvidia_gpus: str, vendor: str) -> None:
    printed = run_with_driver(BOTH % DEVICES, ACME_GPU="1", STUB_COUNT=nvidia_gpus)
    assert printed.split() == [vendor, vendor]


def test_the_default_vendor_of_a_stored_gpu_is_nvidia() -> None:
    stored = {"index": 0, "name": "Tesla T4", "uuid_hash": "0" * 12}
    assert Gpu.model_validate(stored).vendor == "nvidia"


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(("vendors", "status"), [((), "measured"), (("acme",), "measured"), (("nvidia",), "skipped")])
def test_a_benchmark_for_another_vendor_is_skipped_without_preparation(vendors: tuple[str, ...], status: str) -> None:
    prepared = []

    def prepare(point: Point) -> Task:
        prepared.append(point)
        return Task(lambda: None, lambda: Verification(True, "none"), Work(items=1, item="things"), timer="host")

    counting = Benchmark("counting", prepare, devices=("gpu",), axes={}, metric="items", vendors=vendors)
    record = measure(counting, Point("counting", "gpu", {}), collect(), max_seconds=0.1)
    assert record.status == status, record.reason
    assert len(prepared) == (status == "measured")


@pytest.mark.usefixtures("acme")
def test_container_options_and_environment_variables_of_the_vendor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("accelbench.pair.container.shutil.which", lambda name: f"/usr/bin/{name}")
    arguments = in_image("docker:image", ["true"], {}, "gpu")
    assert "/dev/acme" in arguments
    assert "--gpus" not in arguments
    monkeypatch.setenv("ACME_VISIBLE_DEVICES", "3,4")
    hide_other_gpus(Point("cnn-mnist", "gpu", {"devices": 1}))
    assert os.environ["ACME_VISIBLE_DEVICES"] == "3"
    assert device_kind("gpu").settings_of_rank(1, 2) == {"ACME_VISIBLE_DEVICES": "3"}


@pytest.mark.usefixtures("acme")
def test_a_missing_library_is_skipped_with_the_vendor() -> None:
    with pytest.raises(Skip, match="acme"):
        gpu_backend().library("no_such_library")
    assert device_kind("gpu").framework_install("torch") == "pip install torch-acme"


# --- implementations for NVIDIA only ---


def imported_names(node: ast.AST) -> set[str]:
    if not isinstance(node, ast.ImportFrom) or not node.module or not node.module.startswith("accelbench."):
        return set()
    return {node.module, *(f"{node.module}.{name.name}" for name in node.names)}


@cache
def imported(module: str) -> frozenset[str]:
    """Return the modules of accelbench that are imported anywhere in a module's source."""
    path = (ROOT / "accelbench").joinpath(*module.split(".")[1:])
    found: set[str] = set()
    for file in filter(Path.is_file, (path.with_suffix(".py"), path / "__init__.py")):
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        found |= {name for node in nodes for name in imported_names(node)}
    return frozenset(found)


def needs_nvidia(module: str) -> bool:
    """Return whether the module imports Numba-CUDA or NVIDIA's libraries, directly or through other kernel modules."""
    visited, pending = set(), [module]
    while pending:
        name = pending.pop()
        if {"numba_cuda", "nvidia"} & set(name.split(".")):
            return True
        if name not in visited and name.startswith("accelbench.kernels."):
            visited.add(name)
            pending += imported(name)
    return False


def implementations() -> Iterator[tuple[Benchmark, Point]]:
    for benchmark in discover().values():
        if benchmark.module and "gpu" in benchmark.devices:
            axes = benchmark.axes_on("gpu")
            params = {axis: values[0] for axis, values in axes.items()}
            for impl in axes.get("impl", ("",)):
                yield benchmark, Point(benchmark.name, "gpu", {**params, "impl": impl} if impl else params)


def test_exactly_the_implementations_that_need_nvidia_declare_it() -> None:
    declared, expected = {}, {}
    for benchmark, point in implementations():
        module = benchmark.implementation(point.device, point.params)
        assert module is not None
        declared[module] = benchmark.vendors_of(point)
        expected[module] = ("nvidia",) if needs_nvidia(module) else ()
    assert declared == expected
    portable = {module.rpartition("kernels.")[2] for module, vendors in declared.items() if not vendors}
    assert portable >= {"norm.gpu_cupy", "reduce.gpu_cupy", "softmax_xent.gpu_cupy", "optimizer_step.gpu_cupy"}
    assert portable >= {"stream.gpu_cupy", "stream.gpu_vendor", "transfer.gpu_cupy", "launch.gpu_cupy"}


# --- command line with the fictitious vendor's GPU ---


def acme_environment(**changes: str) -> dict[str, str]:
    return environment(ACME_GPU="1", PYTHONPATH=str(OTHER_VENDOR), **changes)


def on_acme(*arguments: str | Path, **changes: str) -> subprocess.CompletedProcess[str]:
    variables = acme_environment(**changes)
    return subprocess.run(command(*arguments), env=variables, capture_output=True, text=True, timeout=280)


@pytest.mark.slow
def test_portable_kernels_are_measured_and_nvidia_kernels_skipped(tmp_path: Path) -> None:
    assert on_acme("list").returncode == 0
    done = on_acme(
        *("run", "norm", "--device", "gpu", "--param", "width=1024", "--max-seconds", "0.2", "--out", tmp_path / "run")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = {(r["point"]["benchmark"], r["point"]["params"]["impl"]): r for r in records(tmp_path / "run")}
    assert {name: record["status"] for name, record in found.items()} == {
        **{(name, "cupy"): "measured" for name in ("norm", "stream")},
        **{(name, "numba"): "skipped" for name in ("norm", "stream")},
        ("norm", "triton"): "skipped",
        ("stream", "vendor"): "measured",
    }
    assert found["norm", "cupy"]["timing"]["timer"] == "host"
    assert "nvidia" in found["norm", "numba"]["reason"]
    (gpu,) = info(tmp_path / "run")["environment"]["gpus"]
    assert (gpu["name"], gpu["vendor"]) == ("Acme One", "acme")


CHECK = """
import json
from accelbench.doctor import checks, merge_trials
from accelbench.doctor.gpu import gpu_trials, run_trial
from accelbench.profiling.devices import gpu_backend
cupy, *others = gpu_trials(gpu_backend())
found = merge_trials(checks(), [run_trial(cupy)])
print(json.dumps([{check.name: check.status for check in found}, [trial.name for trial in others]]))
"""
"""The trials of frameworks are not run, because they need a real GPU."""


@pytest.mark.slow
def test_the_doctor_checks_the_vendors_libraries() -> None:
    done = subprocess.run([sys.executable, "-c", CHECK], env=acme_environment(), capture_output=True, text=True)
    statuses, others = json.loads(done.stdout)
    assert statuses["device gpu"] == statuses["CuPy on the GPU"] == "ok"
    assert "CUPTI" not in statuses
    assert {"PyTorch", "JAX", "TensorFlow"} <= {*others}
    assert not {"Numba", "NVBench", "cuBLASLt"} & {*others}


TRAIN = """
import os
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point
from accelbench.execution.plan import discover
from accelbench.workloads.training.keras_model import use_backend
params = {axis: values[0] for axis, values in discover()["cnn-mnist"].axes_on("%s").items()}
try:
    strategy = use_backend(Point("cnn-mnist", "%s", params, "jax", seed=1))
    print("trains", strategy.replicas, os.environ.get("ACME_VISIBLE_DEVICES"))
except Skip as skip:
    print("skipped", skip)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("device", "printed"), [("gpu", "trains 1 None"), ("cpu", "trains 1 -1")])
def test_a_training_uses_the_vendors_gpu_and_hides_it_on_the_cpu(device: str, printed: str) -> None:
    variables = acme_environment()
    program = [sys.executable, "-c", TRAIN % (device, device)]
    done = subprocess.run(program, env=variables, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(printed), done.stdout
