"""How much memory arrays may take: half of what is available, so that no benchmark drives its machine into swapping."""

from __future__ import annotations

from pathlib import Path

import psutil

from profiling.benchmark import Skip

SHARE = 0.5
CONTROL_GROUP = Path("/sys/fs/cgroup")


def available_bytes(control_group: Path = CONTROL_GROUP) -> int:
    """Memory that can still be used: the machine's, or what the control group leaves if that is less."""
    machine = int(psutil.virtual_memory().available)
    granted = _control_group_bytes(control_group)
    return machine if granted is None else min(machine, granted)


def require_memory(needed: float, available: int | None = None) -> None:
    """Skip the point if arrays of that many bytes would take more than half of the available memory."""
    available = available_bytes() if available is None else available
    if needed > SHARE * available:
        raise Skip(
            f"needs {format_bytes(needed)} of memory; half of the available {format_bytes(available)} "
            f"is {format_bytes(SHARE * available)}"
        )


def format_bytes(count: float) -> str:
    """Three digits and a binary unit: `5.71 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if count < 1024:
            return f"{count:.3g} {unit}" if count < 1000 else f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:,.3g} EiB" if count < 1000 else f"{count:,.0f} EiB"


def _control_group_bytes(group: Path) -> int | None:
    """The limit less what is in use and cannot be reclaimed, by either version of the interface; None without one."""
    for limit, usage, folder in (
        ("memory.max", "memory.current", group),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", group / "memory"),
    ):
        granted, used = _read(folder / limit), _read(folder / usage)
        if granted is not None and used is not None:
            return max(0, granted - used + _file_cache(folder / "memory.stat"))
    return None


def _read(path: Path) -> int | None:
    """The number in the file; None for `max`, and where there is no such file."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _file_cache(path: Path) -> int:
    """Bytes of inactive file pages, which the kernel drops when asked for memory, though it counts them as in use."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    values = dict(line.split(maxsplit=1) for line in lines)
    return int(values.get("total_inactive_file", values.get("inactive_file", "0")))
