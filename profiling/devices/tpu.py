"""Device backend of Google's TPUs, which TensorFlow and JAX use through libtpu or over the network."""

from __future__ import annotations

import os
from pathlib import Path

from accelbench.profiling.devices import DeviceKind, DeviceMissing, is_installed
from accelbench.profiling.machine.environment.container import collect_container
from accelbench.profiling.machine.environment.files import has_pci_device
from accelbench.profiling.machine.packages import install_extra

FRAMEWORKS = ("tensorflow", "jax")
PCI_VENDOR = "0x1ae0"
# PCI device ids of TPU v2/v3, v4, v5p, v5e, v6e, 7x, from JAX's hardware_utils.py.
PCI_DEVICES = ("0x0027", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076")


class Tpu(DeviceKind):
    """Backend of a TPU in this machine, or of one named by an environment variable."""

    name = "tpu"
    title = "TPU"
    vendor = "google"
    package_set = "tpu"

    def find(self, root: Path = Path("/")) -> str:
        """Return the device file of the TPU, or the environment variable that names it."""
        where = _address() or _node(root)
        if where is None:
            on_bus = has_pci_device(root, PCI_VENDOR, devices=PCI_DEVICES)
            found = "a TPU on the PCI bus, but no device file" if on_bus else "none of them"
            start = "start the container with --privileged or with the TPU's /dev files"
            elsewhere = "use DEVICE=cpu (--device cpu) or a TPU runtime (a Cloud TPU VM, a Colab TPU)"
            raise self.absent(
                collect_container(root),
                f"looked for /dev/accel*, /dev/vfio, TPU_NAME and COLAB_TPU_ADDR, found {found}",
                start if on_bus else elsewhere,
            )
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


def _address() -> str | None:
    """Return the variable that names a TPU on the network; `TPU_NAME=local` is the one in this machine."""
    set_to = {name: os.environ.get(name) for name in ("TPU_NAME", "COLAB_TPU_ADDR")}
    return next((name for name, value in set_to.items() if value and value != "local"), None)


def _node(root: Path) -> str | None:
    """Return the TPU's device file: `accel0` (other vendors use `accel/`), or VFIO's if a TPU is on the PCI bus."""
    own = sorted((root / "dev").glob("accel[0-9]*"))
    vfio = sorted((root / "dev/vfio").glob("[0-9]*"))
    if own:
        return f"/dev/{own[0].name}"
    if vfio and has_pci_device(root, PCI_VENDOR, devices=PCI_DEVICES):
        return f"/dev/vfio/{vfio[0].name}"
    return None
