"""Device backend of Google's TPUs, which JAX and TensorFlow use through libtpu."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.profiling.devices import DeviceKind, DeviceMissing, is_installed
from accelbench.profiling.machine.environment.container import ACCELERATOR, collect_container, hosted_notebook
from accelbench.profiling.machine.environment.files import has_pci_device
from accelbench.profiling.machine.packages import install_extra
from accelbench.profiling.records.work import Bounded

if TYPE_CHECKING:
    from accelbench.profiling.records.environment import Environment, Peak

FRAMEWORKS = ("jax", "tensorflow")
PCI_VENDOR = "0x1ae0"
# PCI device ids of TPU v2/v3, v4, v5p, v5e, v6e, 7x, from JAX's hardware_utils.py.
PCI_DEVICES = ("0x0027", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076")
RUNTIME_ADVICE = {
    "colab": "choose a TPU (v5e-1 or v6e-1) in Runtime > Change runtime type",
    "kaggle": "choose a TPU in Settings > Accelerator",
}


class Tpu(DeviceKind):
    """Backend of a TPU in this machine, or of one that TensorFlow finds by TPU_NAME."""

    name = "tpu"
    title = "TPU"
    vendor = "google"
    package_set = "tpu"
    first_backend = "jax"

    def find(self, root: Path = Path("/")) -> str:
        """Return the device file of the TPU, or the environment variable that names it."""
        where = _node(root) or _type() or _address()
        if where is None:
            on_bus = has_pci_device(root, PCI_VENDOR, devices=PCI_DEVICES)
            found = "a TPU on the PCI bus, but no device file" if on_bus else "none of them"
            searched = f"looked for /dev/accel*, /dev/vfio, {ACCELERATOR} and TPU_NAME, found {found}"
            start = "start the container with --privileged or with the TPU's /dev files"
            elsewhere = "use DEVICE=cpu (--device cpu) or a machine with a TPU (a Cloud TPU VM, a hosted TPU runtime)"
            hosted = hosted_notebook()
            if hosted and not on_bus:
                kind = "GPU" if (root / "dev/nvidiactl").exists() else "CPU"
                searched += f"; this is a {kind} runtime of {hosted.capitalize()}"
                elsewhere = f"{RUNTIME_ADVICE[hosted]}, or use --device {kind.lower()}"
            raise self.absent(collect_container(root), searched, start if on_bus else elsewhere)
        return where

    def require(self, root: Path = Path("/")) -> None:
        """Raise DeviceMissing unless a TPU, a framework and libtpu are available."""
        device = self.find(root)
        frameworks = [name for name in FRAMEWORKS if is_installed(name)]
        # A TPU in this machine needs a local libtpu, one behind an address does not.
        if not frameworks or not (is_installed("libtpu") or _address()):
            lacking = "libtpu" if frameworks else " or ".join(FRAMEWORKS)
            raise DeviceMissing(
                f"no usable TPU: found {device}, but not the package {lacking}",
                f"make install DEVICE=tpu, or {install_extra('tpu')}",
            )

    def peak(
        self,
        environment: Environment,
        dtype: str,
        metric: Bounded,
        unit_kind: str | None = None,
        kept_to_cpus: int | None = None,
    ) -> Peak:
        """Return the vendor's peak of the first device; `kept_to_cpus` has no effect."""
        from accelbench.profiling.machine.vendor_peaks import peak_of_tpu
        from accelbench.profiling.records.environment import Peak

        if not environment.tpus:
            return Peak(value=None, reason=environment.unknown.get("tpus", "the environment record has no TPU"))
        return peak_of_tpu(environment.tpus[0], dtype, metric, unit_kind)

    def model(self, environment: Environment) -> str | None:
        """Return the kind of the first device."""
        return environment.tpus[0].name if environment.tpus else None


def _address() -> str | None:
    """Return the variable that names a TPU on the network; `TPU_NAME=local` is the one in this machine."""
    return "TPU_NAME" if os.environ.get("TPU_NAME", "local") not in ("", "local") else None


def _type() -> str | None:
    """Return the variable with the type of this machine's TPU, and its value."""
    value = os.environ.get(ACCELERATOR)
    return f"{ACCELERATOR}={value}" if value else None


def _node(root: Path) -> str | None:
    """Return the TPU's device file: `accel0` (other vendors use `accel/`), or VFIO's if a TPU is on the PCI bus."""
    own = sorted((root / "dev").glob("accel[0-9]*"))
    vfio = sorted((root / "dev/vfio").glob("[0-9]*"))
    if own:
        return f"/dev/{own[0].name}"
    if vfio and has_pci_device(root, PCI_VENDOR, devices=PCI_DEVICES):
        return f"/dev/vfio/{vfio[0].name}"
    return None
