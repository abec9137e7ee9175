"""Detection of the hypervisor without the CPUID instruction: by CPU flags, firmware, device tree and clock source.

Sources: Linux `ABI/testing/sysfs-firmware-dmi-*`, `devicetree/bindings`, `arch/s390/kernel/sysinfo.c`; the vendors'
documentation of their instances; systemd-detect-virt(1).
"""

from __future__ import annotations

import re
from pathlib import Path

from accelbench.profiling.machine.environment.cpuinfo import Entries
from accelbench.profiling.machine.environment.files import read_text

DMI = "sys/class/dmi/id"
GUEST_FIRMWARE = {
    "qemu": "kvm",
    "kvm": "kvm",
    "openstack": "kvm",
    "kubevirt": "kvm",
    "google": "kvm",
    "red hat kvm": "kvm",
    "alibaba cloud ecs": "kvm",
    "tencent cloud cvm": "kvm",
    "huawei cloud": "kvm",
    "hetzner vserver": "kvm",
    "digitalocean": "kvm",
    "linode": "kvm",
    "akamai": "kvm",
    "vultr": "kvm",
    "scaleway": "kvm",
    "upcloud": "kvm",
    "amazon ec2": "nitro",
    "nutanix ahv": "ahv",
    "microsoft corporation virtual machine": "hyper-v",
    "vmware": "vmware",
    "xen": "xen",
    "hvm domu": "xen",
    "innotek gmbh": "virtualbox",
    "virtualbox": "virtualbox",
    "apple virtualization": "apple",
    "bhyve": "bhyve",
    "parallels": "parallels",
    "firecracker": "firecracker",
    "cloud hypervisor": "cloud-hypervisor",
}
"""Hypervisors by the start of the firmware's vendor and product, of the product, or of the BIOS vendor."""
BARE = (".metal", "bare metal", "baremetal")
"""Parts of the product names of the clouds' bare-metal instances."""
ALWAYS_GUEST = ("qemu", "xen", "vmware", "innotek", "firecracker")
"""Firmware vendors that make no hardware."""
CLOCKS = {
    "kvm-clock": "kvm",
    "xen": "xen",
    "hyperv_clocksource_tsc_page": "hyper-v",
    "hyperv_clocksource_msr": "hyper-v",
}


def collect_hypervisor(info: Entries, root: Path = Path("/")) -> str | None:
    """Return the hypervisor's name; `unnamed` if it is unknown; None on bare metal, or if nothing shows one."""
    # Firmware of Amazon, Google and Microsoft is also on bare metal. On x86 only the CPU's flag identifies a guest; on
    # other processors, which have no such flag, the product name identifies bare-metal instances.
    maker, product, bios = (_dmi(root, name) for name in ("sys_vendor", "product_name", "bios_vendor"))
    flagged = "hypervisor" in info.get("flags", "").split()
    virtual = flagged or (not has_guest_flag(info) and not any(word in product for word in BARE))
    named = None
    if virtual or maker.startswith(ALWAYS_GUEST):
        starts = (f"{maker} {product}", product, bios)
        named = next((name for words, name in GUEST_FIRMWARE.items() if any(s.startswith(words) for s in starts)), None)
    clock = read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource") or ""
    found = named or CLOCKS.get(clock) or _by_bus(root) or _by_device_tree(root) or _of_mainframe(root)
    return found or ("unnamed" if flagged else None)


def has_guest_flag(info: Entries) -> bool:
    """Return whether the processor's flags show a guest, so that their absence shows bare metal (x86)."""
    return "flags" in info


def _dmi(root: Path, name: str) -> str:
    return (read_text(root / DMI / name) or "").lower()


def _by_bus(root: Path) -> str | None:
    """Return the hypervisor with a bus of its own in /sys: Hyper-V, also of WSL 2, or Xen."""
    if (root / "sys/bus/vmbus/devices").is_dir():
        return "hyper-v"
    return "xen" if read_text(root / "sys/hypervisor/type") == "xen" else None


def _by_device_tree(root: Path) -> str | None:
    """Return the hypervisor of the device tree, whose strings end in NUL; PowerVM names only the partition."""
    tree = root / "proc/device-tree"
    compatible = (read_text(tree / "hypervisor/compatible") or "").split("\0")[0]
    if compatible:
        return "xen" if compatible.startswith("xen") else compatible.removeprefix("linux,")
    if "(emulated by qemu)" in (read_text(tree / "model") or "") or any(tree.glob("fw-cfg*")):
        return "kvm"
    return "powervm" if (tree / "ibm,partition-name").exists() else None


def _of_mainframe(root: Path) -> str | None:
    """Return the innermost hypervisor of an IBM Z: of the guest's control program, else of its partition."""
    text = read_text(root / "proc/sysinfo") or ""
    if program := re.search(r"^VM00 Control Program:\s*(\S+)", text, re.MULTILINE):
        return "kvm" if program[1].startswith("KVM") else program[1].lower()
    return "pr/sm" if re.search(r"^LPAR Number:", text, re.MULTILINE) else None
