"""Tests of finding devices: usable devices, and errors for missing ones with the remedy."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from accelbench.profiling import devices
from accelbench.profiling.benchmark import Benchmark, Task
from accelbench.profiling.devices import DeviceMissing, device_kind, find_device, is_installed
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.machine.environment.container import CONTAINER_VARIABLES, RUNTIME_VARIABLES
from accelbench.profiling.machine.nvidia.libcuda import CudaError, Driver
from accelbench.profiling.measure.point import measure
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from tests.conftest import ROOT
from tests.fixtures.machines import XEON, build
from tests.fixtures.stub_driver import run_with_driver

NVIDIA_CARD = {
    "sys/bus/pci/devices/0000:41:00.0/vendor": "0x10de",
    "sys/bus/pci/devices/0000:41:00.0/device": "0x2330",
    "sys/bus/pci/devices/0000:41:00.0/class": "0x030200",
}
NVIDIA_AUDIO = {**NVIDIA_CARD, "sys/bus/pci/devices/0000:41:00.0/class": "0x040300"}
TPU_CHIP = {
    "sys/bus/pci/devices/0000:00:04.0/vendor": "0x1ae0",
    "sys/bus/pci/devices/0000:00:04.0/device": "0x0063",
}
GOOGLE_NETWORK_CARD = {**TPU_CHIP, "sys/bus/pci/devices/0000:00:04.0/device": "0x0042"}
KERNEL_DRIVER = {"proc/driver/nvidia/version": XEON["proc/driver/nvidia/version"]}


@pytest.fixture(autouse=True)
def no_markers(monkeypatch: pytest.MonkeyPatch, no_driver: None) -> None:
    others = ("container", "SLURM_JOB_ID", "TPU_NAME", "TPU_ACCELERATOR_TYPE")
    for name in (*CONTAINER_VARIABLES, *RUNTIME_VARIABLES, *others):
        monkeypatch.delenv(name, raising=False)


def refusal(device: str, root: Path) -> DeviceMissing:
    """Return the error for a device on a machine with these files and without libcuda."""
    with pytest.raises(DeviceMissing) as caught:
        find_device(device, root)
    assert "\n" not in str(caught.value)
    return caught.value


# --- GPU: no driver library ---


def test_without_a_driver_the_error_lists_what_was_searched(tmp_path: Path) -> None:
    missing = refusal("gpu", tmp_path)
    assert all(name in missing.found for name in ("libno-such-driver.so", "/dev/nvidia*", "/proc/driver/nvidia"))
    assert missing.found.endswith("found none of them")
    assert "DEVICE=cpu" in missing.advice


def test_a_card_without_a_driver_needs_the_driver(tmp_path: Path) -> None:
    missing = refusal("gpu", build(tmp_path, NVIDIA_CARD))
    assert "PCI bus" in missing.found
    assert "525 or newer" in missing.advice


def test_a_sound_device_is_not_a_card(tmp_path: Path) -> None:
    assert "found none of them" in refusal("gpu", build(tmp_path, NVIDIA_AUDIO)).found


def test_a_kernel_driver_without_its_library_needs_the_library(tmp_path: Path) -> None:
    missing = refusal("gpu", build(tmp_path, KERNEL_DRIVER, {"dev/nvidia0": ""}))
    assert all(name in missing.found for name in ("580.95.05", "/dev/nvidia0"))
    assert "LD_LIBRARY_PATH" in missing.advice


@pytest.mark.parametrize(
    ("marker", "engine", "flag"),
    [
        (".dockerenv", "docker", "--gpus all"),
        ("run/.containerenv", "podman", "--device nvidia.com/gpu=all"),
        (".singularity.d/runscript", "apptainer", "--nv"),
        ("var/run/secrets/kubernetes.io/namespace", "kubernetes", "nvidia.com/gpu: 1"),
    ],
)
def test_a_container_without_gpu_access_names_the_missing_flag(
    tmp_path: Path, marker: str, engine: str, flag: str
) -> None:
    missing = refusal("gpu", build(tmp_path, KERNEL_DRIVER, {marker: ""}))
    assert f"{engine} container" in missing.found
    assert "580.95.05" in missing.found
    assert flag in missing.advice


def test_a_container_with_device_files_but_no_library_names_the_capability(tmp_path: Path) -> None:
    missing = refusal("gpu", build(tmp_path, {".dockerenv": "", "dev/nvidia0": ""}))
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in missing.advice


def test_a_slurm_job_without_a_gpu_names_the_slurm_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert refusal("gpu", tmp_path).advice.endswith("--gres=gpu:1")


def test_an_unloadable_library_is_named_with_the_loaders_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "libcuda.so.1"
    broken.write_text("not a library")
    monkeypatch.setattr("accelbench.profiling.machine.nvidia.libcuda.LIBCUDA", str(broken))
    with pytest.raises(DeviceMissing, match=r"libcuda\.so\.1 .*(invalid ELF header|file too short)"):
        find_device("gpu", tmp_path)


# --- GPU: a stub of the driver's library ---

FIND = """
from pathlib import Path
from accelbench.profiling.devices import DeviceMissing, find_device, nvidia
nvidia.Nvidia.libraries = {"cupy": ("%s",)}
try:
    print(find_device("%s", Path("%s")))
except DeviceMissing as missing:
    print(missing)
"""


def find_with_driver(root: Path, device: str = "gpu", library: str = "json", **settings: str) -> str:
    """Return the output of `find_device` with the stub driver; only `library` is a required library."""
    return run_with_driver(FIND % (library, device, root), **settings).strip()


@pytest.mark.needs("gcc")
def test_driver_device_and_libraries_make_a_usable_gpu(tmp_path: Path) -> None:
    assert find_with_driver(tmp_path) == "gpu"
    assert find_with_driver(tmp_path, "auto") == "gpu"


@pytest.mark.needs("gcc")
def test_a_driver_without_a_device_gives_the_cuda_error(tmp_path: Path) -> None:
    message = find_with_driver(tmp_path, STUB_CUINIT="100")
    assert re.search(r"cuInit \w+ CUDA_ERROR_NO_DEVICE; .*no /dev/nvidia\*", message)
    assert "nvidia-smi" in message


@pytest.mark.needs("gcc")
def test_a_driver_without_devices_names_the_call(tmp_path: Path) -> None:
    assert "cuDeviceGetCount" in find_with_driver(tmp_path, STUB_COUNT="0")


@pytest.mark.needs("gcc")
def test_an_error_with_a_known_remedy(tmp_path: Path) -> None:
    message = find_with_driver(tmp_path, STUB_CUINIT="802")
    assert "CUDA_ERROR_SYSTEM_NOT_READY" in message
    assert "nvidia-fabricmanager" in message


@pytest.mark.needs("gcc")
def test_an_error_without_a_name_has_its_number(tmp_path: Path) -> None:
    assert re.search(r"cuInit .*12345", find_with_driver(tmp_path, STUB_CUINIT="12345"))


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("value", ["", "7", "-1"])
def test_cards_hidden_by_the_variable(tmp_path: Path, value: str) -> None:
    root = build(tmp_path, {"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidiactl": ""})
    message = find_with_driver(root, STUB_CUINIT="100", CUDA_VISIBLE_DEVICES=value)
    assert "/dev/nvidia0, /dev/nvidia1" in message
    assert f"CUDA_VISIBLE_DEVICES={value!r}" in message


@pytest.mark.needs("gcc")
def test_a_container_with_the_library_but_no_device_files_names_the_flag(tmp_path: Path) -> None:
    message = find_with_driver(build(tmp_path, {".singularity.d/runscript": ""}), STUB_CUINIT="100")
    assert "apptainer container" in message
    assert message.endswith(" --nv")


@pytest.mark.needs("gcc")
def test_only_a_slurm_job_without_a_gpu_names_the_slurm_option(tmp_path: Path) -> None:
    assert "--gres=gpu:1" in find_with_driver(tmp_path, STUB_CUINIT="100", SLURM_JOB_ID="9")
    assert "--gres=gpu:1" not in find_with_driver(tmp_path, STUB_CUINIT="100", SLURM_JOB_ID="9", SLURM_JOB_GPUS="0")


@pytest.mark.needs("gcc")
def test_a_missing_library_names_the_extra_for_the_driver(tmp_path: Path) -> None:
    message = find_with_driver(tmp_path, library="no_such_library")
    assert re.search(r"Stub GPU 0 .*12\.8.* cupy:", message)
    assert message.endswith("make install DEVICE=gpu, or pip install 'accelbench[gpu]'")
    newer = find_with_driver(tmp_path, library="no_such_library", STUB_VERSION="13000")
    assert newer.endswith("make install DEVICE=gpu SET=gpu13, or pip install 'accelbench[gpu13]'")
    assert find_with_driver(tmp_path, "auto", library="no_such_library") == "cpu"


@pytest.mark.needs("gcc")
def test_an_old_driver_names_the_required_version(tmp_path: Path) -> None:
    message = find_with_driver(tmp_path, STUB_VERSION="11040")
    assert "CUDA 11.4" in message
    assert "525" in message


def test_an_old_driver_may_lack_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class OldLibrary:
        def __getitem__(self, name: str) -> Any:
            if name != "cuDriverGetVersion":
                raise AttributeError(f"undefined symbol: {name}")
            return self.version

        def version(self, pointer: Any) -> int:
            pointer._obj.value = 9000
            return 0

    monkeypatch.setattr("ctypes.CDLL", lambda name: OldLibrary())
    message = str(refusal("gpu", tmp_path))
    assert "CUDA 9.0" in message
    assert "525" in message
    with pytest.raises(CudaError, match="cuInit"):
        Driver().devices()


# --- TPU, CPU, auto ---


def test_without_a_tpu_the_error_lists_what_was_searched(tmp_path: Path) -> None:
    missing = refusal("tpu", build(tmp_path, GOOGLE_NETWORK_CARD, {"dev/vfio/0": "", "dev/accel/accel0": ""}))
    assert all(name in missing.found for name in ("/dev/accel*", "/dev/vfio", "TPU_NAME", "TPU_ACCELERATOR_TYPE"))
    assert missing.found.endswith("found none of them")


@pytest.mark.parametrize(
    ("variable", "files", "found", "advice"),
    [
        ("COLAB_RELEASE_TAG", {"dev/nvidiactl": ""}, "GPU runtime of Colab", ("v5e-1", "--device gpu")),
        ("COLAB_RELEASE_TAG", {}, "CPU runtime of Colab", ("v6e-1", "--device cpu")),
        ("KAGGLE_KERNEL_RUN_TYPE", {}, "CPU runtime of Kaggle", ("Accelerator", "--device cpu")),
    ],
)
def test_a_hosted_runtime_of_another_kind_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    files: dict[str, str],
    found: str,
    advice: tuple[str, ...],
) -> None:
    monkeypatch.setenv(variable, "1")
    missing = refusal("tpu", build(tmp_path, {**files, "etc/hostname": "runtime"}))
    assert missing.found.endswith(found)
    assert all(words in missing.advice for words in advice)


def test_a_hosted_tpu_runtime_is_found_by_its_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.profiling.devices.tpu.is_installed", lambda module: module in ("jax", "libtpu"))
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release-colab_20261101")
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v5e-1")
    assert find_device("tpu", tmp_path) == find_device("auto", tmp_path) == "tpu"


def test_a_tpu_without_its_device_file(tmp_path: Path) -> None:
    missing = refusal("tpu", build(tmp_path, TPU_CHIP))
    assert "PCI bus" in missing.found
    assert "--privileged" in missing.advice


@pytest.mark.parametrize(
    ("files", "node"), [({"dev/accel0": ""}, "accel0"), ({**TPU_CHIP, "dev/vfio/0": ""}, "vfio/0")]
)
def test_a_tpu_without_its_library_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], node: str
) -> None:
    monkeypatch.setattr("accelbench.profiling.devices.tpu.is_installed", lambda module: module == "jax")
    missing = refusal("tpu", build(tmp_path, files))
    assert re.search(rf"/dev/{node}, .* libtpu$", missing.found)
    assert "accelbench[tpu]" in missing.advice


def test_a_tpu_with_its_libraries_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.profiling.devices.tpu.is_installed", lambda module: True)
    root = build(tmp_path, {"dev/accel0": ""})
    assert find_device("tpu", root) == "tpu"
    assert find_device("auto", root) == "tpu"


def test_a_tpu_on_the_network_needs_no_local_libtpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.profiling.devices.tpu.is_installed", lambda module: module == "tensorflow")
    monkeypatch.setenv("TPU_NAME", "grpc://10.0.0.2:8470")
    assert find_device("tpu", tmp_path) == "tpu"


def test_the_cpu_is_always_found(tmp_path: Path) -> None:
    assert find_device("cpu", tmp_path) == "cpu"
    assert find_device("auto", tmp_path) == "cpu"


def test_an_unknown_name_is_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'fpga'"):
        find_device("fpga", tmp_path)


def test_is_installed_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, {"proud/__init__.py": "raise RuntimeError('imported')", "proud/inner.py": "", "spread/leaf.py": ""})
    monkeypatch.syspath_prepend(tmp_path)
    assert is_installed("proud.inner")
    assert is_installed("spread.leaf")  # a namespace package, like `cuda`
    assert not is_installed("proud.other")
    assert not is_installed("proud.inner.deeper")
    assert not is_installed("no_such_module.inner")
    assert "proud" not in sys.modules


# --- a new kind of device in one file ---

ABACUS = '''
from pathlib import Path

from accelbench.profiling.devices import DeviceKind


class Abacus(DeviceKind):
    """An asynchronous device: beads move after the call that pushed them."""

    name = "abacus"
    title = "abacus"
    asynchronous = True

    def __init__(self):
        self.pushed, self.counted = 0, 0

    def find(self, root=Path("/")):
        return "an abacus"

    def synchronize(self):
        self.counted, self.pushed = self.counted + self.pushed, 0

    def memory_left(self):
        return "three beads left"
'''


@pytest.fixture
def abacus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A new kind of device, added by one file."""
    (tmp_path / "abacus.py").write_text(ABACUS)
    monkeypatch.setattr(devices, "__path__", [*devices.__path__, str(tmp_path)])
    devices.kinds.cache_clear()
    yield device_kind("abacus")
    devices.kinds.cache_clear()
    del sys.modules["accelbench.profiling.devices.abacus"]


def measured_on_abacus(run: Callable[[], None], verify: Callable[[], Verification]) -> Record:
    task = Task(run=run, verify=verify, work=Work(items=1, item="beads"))
    counting = Benchmark("counting", lambda point: task, devices=("abacus",), axes={}, metric="items")
    return measure(counting, Point("counting", "abacus", {}), collect(), max_seconds=0.1)


def test_a_kind_of_device_is_added_by_one_file(abacus: Any) -> None:
    assert list(devices.kinds()) == ["abacus", "cpu", "gpu", "tpu"]
    assert find_device("abacus") == find_device("auto") == "abacus"


def test_a_new_kind_is_timed_by_the_host_clock_including_synchronization(abacus: Any) -> None:
    def push() -> None:
        abacus.pushed += 1

    def verify() -> Verification:
        push()
        return Verification(passed=abacus.counted == 1, method="count", expected=1, found=abacus.counted)

    record = measured_on_abacus(push, verify)
    assert (record.status, record.reason) == ("measured", None)
    assert record.timing
    assert record.telemetry
    assert (record.point.device, record.timing.timer, record.telemetry.missing) == ("abacus", "host", [])
    assert abacus.pushed == 0  # the last execution was synchronized
    assert abacus.counted > len(record.timing.samples) * record.timing.loops


def test_a_memory_error_on_a_new_kind_has_its_free_memory(abacus: Any) -> None:
    def push() -> None:
        raise MemoryError("no bead is free")

    record = measured_on_abacus(push, lambda: Verification(passed=False, method="count"))
    assert (record.status, record.reason) == ("failed", "MemoryError: no bead is free (three beads left)")


# --- before the installation ---


@pytest.mark.parametrize(
    ("name", "status", "package_set", "parts"),
    [
        ("cpu", 0, "cpu\n", ()),
        ("tpu", 2, "", ("accelbench: ", "no TPU")),
        ("fpga", 2, "", ("accelbench: ", "'fpga'", "auto, cpu, gpu, tpu")),
    ],
)
def test_the_device_check_needs_no_installed_package(
    name: str, status: int, package_set: str, parts: tuple[str, ...]
) -> None:
    bare = {"PATH": os.defpath, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-S", "-m", "accelbench.profiling.devices", name]
    done = subprocess.run(command, env=bare, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (status, package_set)
    assert all(part in done.stderr for part in parts)


AUTO = "from accelbench.profiling.devices.__main__ import main; main('auto')"


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(("cuinit", "package_set"), [("0", "gpu"), ("100", "cpu")])
def test_auto_selects_the_first_present_device(cuinit: str, package_set: str) -> None:
    assert run_with_driver(AUTO, STUB_CUINIT=cuinit, TPU_NAME="").strip() == package_set
