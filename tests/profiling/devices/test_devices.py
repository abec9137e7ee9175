"""Finding a device: what can be used is found, and what is missing is named together with its remedy."""

from __future__ import annotations

import os
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
from accelbench.profiling.machine.environment.container import CONTAINER_VARIABLES
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
    for name in (*CONTAINER_VARIABLES, "container", "SLURM_JOB_ID", "TPU_NAME", "COLAB_TPU_ADDR"):
        monkeypatch.delenv(name, raising=False)


def refusal(device: str, root: Path) -> DeviceMissing:
    """The refusal on a machine with these files and no libcuda."""
    with pytest.raises(DeviceMissing) as caught:
        find_device(device, root)
    assert "\n" not in str(caught.value)
    return caught.value


# --- GPU: no driver library ---


def test_a_machine_without_a_driver_says_what_was_looked_for(tmp_path: Path) -> None:
    missing = refusal("gpu", tmp_path)
    assert "looked for the driver's libno-such-driver.so, /dev/nvidia* and /proc/driver/nvidia" in missing.found
    assert missing.found.endswith("found none of them")
    assert "DEVICE=cpu" in missing.advice


def test_a_card_without_a_driver_asks_for_the_driver(tmp_path: Path) -> None:
    missing = refusal("gpu", build(tmp_path, NVIDIA_CARD))
    assert "an NVIDIA card on the PCI bus" in missing.found
    assert missing.advice == "install the NVIDIA driver, 525 or newer"


def test_a_sound_device_is_no_card(tmp_path: Path) -> None:
    assert "found none of them" in refusal("gpu", build(tmp_path, NVIDIA_AUDIO)).found


def test_a_kernel_driver_without_its_library_asks_for_the_library(tmp_path: Path) -> None:
    missing = refusal("gpu", build(tmp_path, KERNEL_DRIVER, {"dev/nvidia0": ""}))
    assert "the kernel driver 580.95.05 in /proc/driver/nvidia and /dev/nvidia0" in missing.found
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
def test_a_container_without_gpu_access_names_the_forgotten_flag(
    tmp_path: Path, marker: str, engine: str, flag: str
) -> None:
    missing = refusal("gpu", build(tmp_path, KERNEL_DRIVER, {marker: ""}))
    assert f"inside this {engine} container" in missing.found
    assert "the kernel driver 580.95.05" in missing.found
    assert flag in missing.advice


def test_a_container_with_the_nodes_but_without_the_library_names_the_capability(tmp_path: Path) -> None:
    missing = refusal("gpu", build(tmp_path, {".dockerenv": "", "dev/nvidia0": ""}))
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in missing.advice


def test_a_batch_job_without_a_gpu_asks_the_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert refusal("gpu", tmp_path).advice == "ask Slurm for a GPU: --gres=gpu:1"


def test_a_library_that_does_not_load_is_not_called_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "libcuda.so.1"
    broken.write_text("not a library")
    monkeypatch.setattr("accelbench.profiling.machine.nvidia.libcuda.LIBCUDA", str(broken))
    with pytest.raises(DeviceMissing, match=r"that does not load .*(invalid ELF header|file too short)"):
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
    """What `find_device` says where the stub driver is; the GPU libraries are reduced to the one named."""
    return run_with_driver(FIND % (library, device, root), **settings).strip()


@pytest.mark.needs("gcc")
def test_a_driver_a_device_and_the_libraries_make_a_gpu(tmp_path: Path) -> None:
    assert find_with_driver(tmp_path) == "gpu"
    assert find_with_driver(tmp_path, "auto") == "gpu"


@pytest.mark.needs("gcc")
def test_a_driver_without_a_device_gives_the_cuda_error(tmp_path: Path) -> None:
    said = find_with_driver(tmp_path, STUB_CUINIT="100")
    assert "cuInit answered CUDA_ERROR_NO_DEVICE; found no /dev/nvidia*" in said
    assert "nvidia-smi" in said


@pytest.mark.needs("gcc")
def test_a_driver_that_counts_no_devices_says_so(tmp_path: Path) -> None:
    assert "cuDeviceGetCount answered 0 devices" in find_with_driver(tmp_path, STUB_COUNT="0")


@pytest.mark.needs("gcc")
def test_an_error_with_a_known_remedy_names_it(tmp_path: Path) -> None:
    said = find_with_driver(tmp_path, STUB_CUINIT="802")
    assert "CUDA_ERROR_SYSTEM_NOT_READY" in said
    assert "nvidia-fabricmanager" in said


@pytest.mark.needs("gcc")
def test_an_unnamed_error_gives_its_number(tmp_path: Path) -> None:
    assert "cuInit answered CUDA error 12345" in find_with_driver(tmp_path, STUB_CUINIT="12345")


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("value", ["", "7", "-1"])
def test_cards_hidden_by_the_variable_are_told_so(tmp_path: Path, value: str) -> None:
    root = build(tmp_path, {"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidiactl": ""})
    said = find_with_driver(root, STUB_CUINIT="100", CUDA_VISIBLE_DEVICES=value)
    assert "found /dev/nvidia0, /dev/nvidia1" in said
    assert f"CUDA_VISIBLE_DEVICES={value!r} hides every card" in said


@pytest.mark.needs("gcc")
def test_a_container_with_the_library_but_without_nodes_names_the_flag(tmp_path: Path) -> None:
    said = find_with_driver(build(tmp_path, {".singularity.d/runscript": ""}), STUB_CUINIT="100")
    assert "inside this apptainer container" in said
    assert said.endswith("start the container with --nv")


@pytest.mark.needs("gcc")
def test_slurm_without_a_gpu_is_asked_for_one(tmp_path: Path) -> None:
    assert "--gres=gpu:1" in find_with_driver(tmp_path, STUB_CUINIT="100", SLURM_JOB_ID="9")
    assert "--gres=gpu:1" not in find_with_driver(tmp_path, STUB_CUINIT="100", SLURM_JOB_ID="9", SLURM_JOB_GPUS="0")


@pytest.mark.needs("gcc")
def test_a_missing_library_names_the_extra_that_fits_the_driver(tmp_path: Path) -> None:
    said = find_with_driver(tmp_path, library="no_such_library")
    assert "Stub GPU 0 is here (driver for CUDA 12.8), but Python has no cupy" in said
    assert said.endswith("make install DEVICE=gpu, or pip install 'accelbench[gpu]'")
    newer = find_with_driver(tmp_path, library="no_such_library", STUB_VERSION="13000")
    assert newer.endswith("make install DEVICE=gpu SET=gpu13, or pip install 'accelbench[gpu13]'")
    assert find_with_driver(tmp_path, "auto", library="no_such_library") == "cpu"


@pytest.mark.needs("gcc")
def test_a_driver_too_old_for_the_libraries_says_which_is_needed(tmp_path: Path) -> None:
    said = find_with_driver(tmp_path, STUB_VERSION="11040")
    assert "its driver serves CUDA 11.4 at most" in said
    assert "525" in said


# --- TPU, CPU, auto ---


def test_a_machine_without_a_tpu_says_what_was_looked_for(tmp_path: Path) -> None:
    missing = refusal("tpu", build(tmp_path, GOOGLE_NETWORK_CARD, {"dev/vfio/0": "", "dev/accel/accel0": ""}))
    assert "looked for /dev/accel*, /dev/vfio, TPU_NAME and COLAB_TPU_ADDR, found none of them" in missing.found


def test_a_tpu_without_its_device_file_says_so(tmp_path: Path) -> None:
    missing = refusal("tpu", build(tmp_path, TPU_CHIP))
    assert "a TPU on the PCI bus, but no device file" in missing.found
    assert "--privileged" in missing.advice


@pytest.mark.parametrize(
    ("files", "node"), [({"dev/accel0": ""}, "accel0"), ({**TPU_CHIP, "dev/vfio/0": ""}, "vfio/0")]
)
def test_a_tpu_without_its_library_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], node: str
) -> None:
    monkeypatch.setattr("accelbench.profiling.devices.tpu.is_installed", lambda module: module == "jax")
    missing = refusal("tpu", build(tmp_path, files))
    assert missing.found == f"no usable TPU: /dev/{node} is here, but Python has no libtpu"
    assert "accelbench[tpu]" in missing.advice


def test_a_tpu_with_its_libraries_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.profiling.devices.tpu.is_installed", lambda module: True)
    root = build(tmp_path, {"dev/accel0": ""})
    assert find_device("tpu", root) == "tpu"
    assert find_device("auto", root) == "tpu"


def test_a_tpu_behind_the_network_needs_no_libtpu_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.profiling.devices.tpu.is_installed", lambda module: module == "tensorflow")
    monkeypatch.setenv("COLAB_TPU_ADDR", "10.0.0.2:8470")
    assert find_device("tpu", tmp_path) == "tpu"


def test_the_cpu_is_always_there(tmp_path: Path) -> None:
    assert find_device("cpu", tmp_path) == "cpu"
    assert find_device("auto", tmp_path) == "cpu"


def test_an_unknown_name_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'fpga'"):
        find_device("fpga", tmp_path)


def test_looking_for_a_module_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, {"proud/__init__.py": "raise RuntimeError('imported')", "proud/inner.py": "", "spread/leaf.py": ""})
    monkeypatch.syspath_prepend(tmp_path)
    assert is_installed("proud.inner")
    assert is_installed("spread.leaf")  # a namespace package, as `cuda` is
    assert not is_installed("proud.other")
    assert not is_installed("proud.inner.deeper")
    assert not is_installed("no_such_module.inner")
    assert "proud" not in sys.modules


# --- a kind of device that is one new file ---

ABACUS = '''
from pathlib import Path

from accelbench.profiling.devices import DeviceKind


class Abacus(DeviceKind):
    """An abacus, whose beads move after the call that pushed them."""

    name = "abacus"
    title = "abacus"
    asynchronous = True

    def __init__(self):
        self.pushed, self.counted = 0, 0

    def find(self, root=Path("/")):
        return "an abacus is here"

    def synchronize(self):
        self.counted, self.pushed = self.counted + self.pushed, 0

    def memory_left(self):
        return "three beads left"
'''


@pytest.fixture
def abacus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A kind of device, made up as a stranger would add it: one file, and no other is touched."""
    (tmp_path / "abacus.py").write_text(ABACUS)
    monkeypatch.setattr(devices, "__path__", [*devices.__path__, str(tmp_path)])
    devices.kinds.cache_clear()
    yield device_kind("abacus")
    devices.kinds.cache_clear()
    del sys.modules["accelbench.profiling.devices.abacus"]


def measured_on_abacus(run: Callable[[], None], verify: Callable[[], Verification]) -> Record:
    task = Task(run=run, verify=verify, work=Work(items=1, item="beads"))
    counting = Benchmark("counting", lambda point: task, devices=("abacus",), axes={}, figure="items")
    return measure(counting, Point("counting", "abacus", {}), collect(), max_seconds=0.1)


def test_a_kind_of_device_is_added_by_one_file(abacus: Any) -> None:
    assert list(devices.kinds()) == ["abacus", "cpu", "gpu", "tpu"]
    assert find_device("abacus") == find_device("auto") == "abacus"


def test_a_new_kind_is_measured_by_the_host_clock_to_the_end_of_its_work(abacus: Any) -> None:
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
    assert abacus.pushed == 0  # the last execution was waited for
    assert abacus.counted > len(record.timing.samples) * record.timing.loops


def test_a_new_kind_says_how_much_memory_was_left_where_it_ran_out(abacus: Any) -> None:
    def push() -> None:
        raise MemoryError("no bead is free")

    record = measured_on_abacus(push, lambda: Verification(passed=False, method="count"))
    assert (record.status, record.reason) == ("failed", "MemoryError: no bead is free (three beads left)")


# --- before anything is installed ---


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("auto", 0, ""),
        ("cpu", 0, ""),
        ("tpu", 2, "accelbench: no TPU"),
        ("fpga", 2, "accelbench: no device is called 'fpga': choose auto, cpu, gpu, tpu\n"),
    ],
)
def test_a_device_is_looked_for_before_anything_is_installed(name: str, status: int, said: str) -> None:
    bare = {"PATH": os.defpath, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-S", "-m", "accelbench.profiling.devices", name]
    done = subprocess.run(command, env=bare, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith(said)
