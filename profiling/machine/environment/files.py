"""Readers of the kernel's small text files; a missing file gives None, never an error."""

from __future__ import annotations

from pathlib import Path

CPUS = "sys/devices/system/cpu"
"""Folder of the logical CPUs, below the root."""


def read_text(path: Path) -> str | None:
    """Return the stripped text of a file; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip(" \t\r\n\0")
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """Return the integer in a file; None if it cannot be read or is not an integer."""
    text = read_text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def read_pairs(path: Path, separator: str | None = None) -> dict[str, str]:
    """Parse lines `name value`, or `name: value` with a separator; empty if the file cannot be read."""
    parts = (line.split(separator, 1) for line in (read_text(path) or "").splitlines())
    return {part[0].strip(): part[1].strip() for part in parts if len(part) == 2}


def parse_cpu_list(text: str) -> list[int]:
    """Parse a kernel list such as `0-3,8` (cpuset(7), List format); raise ValueError for another format."""
    numbers: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return sorted(numbers)


def format_cpu_list(numbers: list[int]) -> str:
    """Format numbers as the shortest kernel list: `0-3,8`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def has_pci_device(root: Path, vendor: str, devices: tuple[str, ...] = (), classes: tuple[str, ...] = ()) -> bool:
    """Return whether there is a PCI device of this vendor with one of these device ids or classes."""
    return any(
        read_text(folder / "vendor") == vendor
        and (
            read_text(folder / "device") in devices
            or (read_text(folder / "class") or "").startswith(classes or ("none",))
        )
        for folder in (root / "sys/bus/pci/devices").glob("*")
    )
