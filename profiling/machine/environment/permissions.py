"""The rights of this process beyond an ordinary user's; containers drop most of them."""

from __future__ import annotations

from pathlib import Path

from accelbench.profiling.machine.environment.files import read_pairs, read_text

# Bits of CapEff in /proc/self/status, capabilities(7).
CAP_SYS_PTRACE, CAP_SYS_ADMIN = 19, 21

WHOLE_RANGE = ["0", "0", "4294967295"]
"""The one line of `/proc/self/uid_map` where no user is mapped: every uid is itself (user_namespaces(7))."""


def collect_user_namespace(root: Path = Path("/")) -> bool | None:
    """Return whether the process's users are mapped to others of the host, as rootless engines do."""
    mapping = read_text(root / "proc/self/uid_map")
    return None if not mapping else mapping.split() != WHOLE_RANGE


def collect_gpu_counters(root: Path = Path("/")) -> bool | None:
    """Return whether the process may read an NVIDIA GPU's performance counters; None without NVIDIA's module."""
    restricted = read_pairs(root / "proc/driver/nvidia/params", ":").get("RmProfilingAdminOnly")
    return None if restricted is None else restricted == "0" or has_capability(root, CAP_SYS_ADMIN)


def has_capability(root: Path, bit: int) -> bool:
    mask = read_pairs(root / "proc/self/status", ":").get("CapEff", "0")
    return bool(int(mask, 16) >> bit & 1)
