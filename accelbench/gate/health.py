"""Health counters and settings of a node, read without privileges before and after the measurement.

Sources: Linux `Documentation/admin-guide/ras.rst` (EDAC), sysfs-class-net, sysfs-class-infiniband, adjtimex(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from accelbench.doctor.machine import check_governor
from accelbench.gate.answer import GateResource, GateStatus
from accelbench.gate.gpu_health import gpu_readings
from accelbench.gate.reading import HealthReading
from accelbench.profiling.machine.environment.cpu import collect_throttle_count
from accelbench.profiling.machine.environment.files import CPUS, parse_cpu_list, read_int, read_text
from accelbench.profiling.text import format_bytes

LEAST_FREE_BYTES, LEAST_FREE_SHARE = 1 << 30, 0.01
"""Free space and share of a file system below which a node is unfit."""
LOW_FREE_SHARE = 0.05
LOCAL_FILE_SYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs")
TRIAL_BYTES = 1 << 20
XID = re.compile(r"NVRM: Xid \([^)]*\): (\d+)")
HARDWARE_ERROR = "[Hardware Error]"
TIME_ERROR = 5  # adjtimex(2)
INFINIBAND_ERRORS = ("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors")
ETHERNET_ERRORS = ("rx_errors", "tx_errors", "rx_crc_errors")


def read_health(resources: Sequence[GateResource], temporary: Path, root: Path = Path("/")) -> list[HealthReading]:
    """Return all readings of these resources; `root` contains `proc` and `sys`."""
    found: list[HealthReading] = []
    if "cpu" in resources:
        found += cpu_readings(root)
    if "memory" in resources:
        found += memory_readings(root)
    if "disk" in resources:
        found += disk_readings(temporary, root)
    if "network" in resources:
        found += [*network_readings(root), clock_reading()]
    if "gpu" in resources:
        found += gpu_readings(root)
    if {"cpu", "memory", "gpu"} & set(resources):
        found += kernel_log_readings(root / "dev/kmsg")
    return found


def cpu_readings(root: Path) -> Iterator[HealthReading]:
    """Yield thermal throttling, governor and offline CPUs."""
    throttled = collect_throttle_count(root)
    if throttled is None:
        yield _unknown("CPU thermal throttling", "cpu", "the kernel counts none")
    else:
        text = f"{throttled} events since boot"
        yield HealthReading(
            name="CPU thermal throttling", resource="cpu", found=text, counter=throttled, on_rise="warn"
        )
    governor = check_governor(root)
    if governor is None:
        yield _unknown("CPU governor", "cpu", "the kernel exposes no frequency governor")
    else:
        status: GateStatus = "pass" if governor.status == "ok" else "warn"
        yield HealthReading(
            name="CPU governor", resource="cpu", status=status, found=governor.found, advice=governor.advice
        )
    lists = [read_text(root / CPUS / name) for name in ("present", "online")]
    if None in lists:
        yield _unknown("offline CPUs", "cpu", "the kernel exposes no list of CPUs")
    else:
        present, online = (set(parse_cpu_list(text or "")) for text in lists)
        listed = read_text(root / CPUS / "offline")  # LXCFS lists only the container's CPUs as online
        offline = sorted(present - online if listed is None else present & set(parse_cpu_list(listed)))
        yield HealthReading(
            name="offline CPUs",
            resource="cpu",
            status="warn" if offline else "pass",
            found=f"{len(offline)} of {len(present)}",
            advice="echo 1 | sudo tee /sys/devices/system/cpu/cpu*/online (unless SMT is off on purpose)"
            if offline
            else "",
        )


def memory_readings(root: Path) -> Iterator[HealthReading]:
    """Yield the memory errors that EDAC counts."""
    controllers = sorted((root / "sys/devices/system/edac/mc").glob("mc[0-9]*"))
    for name, file in (("uncorrected", "ue_count"), ("corrected", "ce_count")):
        counts = [count for path in controllers if (count := read_int(path / file)) is not None]
        title = f"EDAC {name} memory errors"
        if not counts:
            yield _unknown(title, "memory", "no EDAC driver is loaded")
            continue
        bad = name == "uncorrected" and sum(counts) > 0
        yield HealthReading(
            name=title,
            resource="memory",
            status="fail" if bad else "pass",
            found=f"{sum(counts)} since boot",
            advice="drain the node and replace the module that edac-util reports" if bad else "",
            counter=sum(counts),
        )


def disk_readings(temporary: Path, root: Path) -> Iterator[HealthReading]:
    """Yield free space, read-only file systems, and a file written and read back in the temporary folder."""
    devices = set()
    for place in (Path("/"), temporary):
        try:
            device, facts = os.stat(place).st_dev, os.statvfs(place)
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
            yield HealthReading(name=f"free space {place}", resource="disk", status="fail", found=reason)
            continue
        if device not in devices:
            devices.add(device)
            yield free_space(place, facts)
    read_only = sorted(_read_only(read_text(root / "proc/mounts") or ""))
    yield HealthReading(
        name="read-only file systems",
        resource="disk",
        status="warn" if read_only else "pass",
        found=", ".join(read_only) or "none",
        advice="find the error in the kernel log: dmesg | grep -i remount" if read_only else "",
    )
    yield _written_file(temporary)


def free_space(place: Path, facts: os.statvfs_result) -> HealthReading:
    """Return the free space and inodes of a file system."""
    name = f"free space {place}"
    free, size = facts.f_bavail * facts.f_frsize, facts.f_blocks * facts.f_frsize
    inodes = facts.f_favail / facts.f_files if facts.f_files else 1.0
    share = min(free / size if size else 0.0, inodes)
    status: GateStatus = "pass" if share >= LOW_FREE_SHARE else "warn"
    if free < LEAST_FREE_BYTES or share < LEAST_FREE_SHARE:
        status = "fail"
    found = f"{format_bytes(free)} of {format_bytes(size)} free, {inodes:.0%} of the inodes free"
    advice = f"delete files: du -xh {place} | sort -h | tail" if status != "pass" else ""
    return HealthReading(name=name, resource="disk", status=status, found=found, advice=advice)


def _read_only(mounts: str) -> set[str]:
    """Return the block devices with a local file system of which every mount is read-only."""
    writable: dict[str, bool] = {}
    for fields in (line.split() for line in mounts.splitlines()):
        if len(fields) >= 4 and fields[0].startswith("/dev/") and fields[2] in LOCAL_FILE_SYSTEMS:
            writable[fields[0]] = writable.get(fields[0], False) or "ro" not in fields[3].split(",")
    return {device for device, can_write in writable.items() if not can_write}


def _written_file(temporary: Path) -> HealthReading:
    name, content = "temporary file", os.urandom(TRIAL_BYTES)
    path = temporary / f"trial-{os.getpid()}"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, content)
            os.fsync(descriptor)
            equal = os.pread(descriptor, TRIAL_BYTES, 0) == content
        finally:
            os.close(descriptor)
            path.unlink()
    except OSError as error:
        return HealthReading(name=name, resource="disk", status="fail", found=f"cannot be written: {error.strerror}")
    found = f"{format_bytes(TRIAL_BYTES)} written, synced and read back" if equal else "read back with other content"
    return HealthReading(name=name, resource="disk", status="pass" if equal else "fail", found=found)


def network_readings(root: Path) -> Iterator[HealthReading]:
    """Yield the links of the physical interfaces and InfiniBand ports, with their error counters."""
    physical = [path for path in sorted((root / "sys/class/net").glob("*")) if (path / "device").exists()]
    ports = sorted((root / "sys/class/infiniband").glob("*/ports/*"))
    if not physical and not ports:
        yield _unknown("network links", "network", "no physical interface is visible")
        return
    up = [path for path in physical if read_text(path / "operstate") == "up"]
    for path in up:
        speed = read_int(path / "speed") or -1
        link = f"up at {speed:,} Mbit/s" if speed > 0 else "up"
        errors = [read_int(path / "statistics" / name) or 0 for name in ETHERNET_ERRORS]
        yield HealthReading(
            name=f"link {path.name}",
            resource="network",
            found=f"{link}, {sum(errors)} errors since boot",
            counter=sum(errors),
            on_rise="warn",
        )
    if physical and not up and not ports:
        yield HealthReading(name="network links", resource="network", status="warn", found="no interface has a link")
    for path in ports:
        state = read_text(path / "state") or "unknown"
        active = state.endswith("ACTIVE")
        count = sum(read_int(path / "counters" / name) or 0 for name in INFINIBAND_ERRORS)
        yield HealthReading(
            name=f"InfiniBand {path.parent.parent.name} port {path.name}",
            resource="network",
            status="pass" if active else "warn",
            found=f"{state}, {read_text(path / 'rate') or 'rate unknown'}, {count} errors since the last reset",
            advice="" if active else "check cable and switch port: ibstat",
            counter=count,
            on_rise="warn",
        )


def clock_reading() -> HealthReading:
    """Return whether the kernel's clock is synchronised."""
    name = "clock synchronisation"
    buffer = ctypes.create_string_buffer(512)  # struct timex of zeros reads the state
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    except (OSError, AttributeError):
        return _unknown(name, "network", "this system has no adjtimex")
    if state < 0:
        reason = errno.errorcode.get(ctypes.get_errno(), "error")
        return _unknown(name, "network", f"adjtimex is not permitted here ({reason})")
    if state == TIME_ERROR:
        advice = "start chronyd or systemd-timesyncd (not needed in a virtual machine with the host's clock)"
        return HealthReading(name=name, resource="network", status="warn", found="not synchronised", advice=advice)
    return HealthReading(name=name, resource="network", found="synchronised")


def kernel_log_readings(log: Path) -> Iterator[HealthReading]:
    """Yield the errors of GPUs (XID) and of the CPU and memory in the kernel log."""
    text = _kernel_log(log)
    for name, resource in (("kernel log: GPU errors", "gpu"), ("kernel log: hardware errors", "memory")):
        of: GateResource = "gpu" if resource == "gpu" else "memory"
        if text is None:
            yield _unknown(name, of, "the kernel log is readable by root only")
            continue
        found = XID.findall(text) if of == "gpu" else [HARDWARE_ERROR] * text.count(HARDWARE_ERROR)
        numbers = f" (XID {', '.join(sorted(set(found), key=int))})" if found and of == "gpu" else ""
        yield HealthReading(
            name=name,
            resource=of,
            status="warn" if found else "pass",
            found=f"{len(found)} lines{numbers}",
            advice="look the errors up: dmesg | grep -e Xid -e 'Hardware Error'" if found else "",
            counter=len(found),
        )


def _kernel_log(log: Path) -> str | None:
    """Return the records of the kernel log; None if it cannot be read."""
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    lines: list[bytes] = []
    try:
        while record := os.read(descriptor, 8192):
            lines.append(record)
    except BlockingIOError:
        pass  # all records are read
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return b"".join(lines).decode("utf-8", errors="replace")


def _unknown(name: str, resource: GateResource, reason: str) -> HealthReading:
    return HealthReading(name=name, resource=resource, status="unknown", found=reason)
