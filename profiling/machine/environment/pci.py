"""The devices on the PCI bus, as the kernel shows them whether or not they have a driver."""

from __future__ import annotations

from pathlib import Path

from accelbench.profiling.machine.environment.files import read_text


def has_pci_device(root: Path, vendor: str, devices: tuple[str, ...] = (), classes: tuple[str, ...] = ()) -> bool:
    """Tell whether a PCI device of that vendor with one of those numbers, or classes, is plugged in."""
    return any(
        read_text(folder / "vendor") == vendor
        and (
            read_text(folder / "device") in devices
            or (read_text(folder / "class") or "").startswith(classes or ("none",))
        )
        for folder in (root / "sys/bus/pci/devices").glob("*")
    )
