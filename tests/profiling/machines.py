"""Machines that are not at hand: the files by which a kernel describes them, written below a folder."""

from __future__ import annotations

from pathlib import Path

Files = dict[str, str]


def build(root: Path, *parts: Files) -> Path:
    """Write the files below the folder and return it."""
    for part in parts:
        for name, text in part.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
    return root


def topology(packages: int, cores_each: int, threads: int = 1, package_id: int | None = None) -> Files:
    """`/sys/devices/system/cpu` of a machine whose second hardware threads are numbered after all the first ones."""
    cores = packages * cores_each
    files = {"sys/devices/system/cpu/online": f"0-{cores * threads - 1}"}
    for number in range(cores * threads):
        core = number % cores
        folder = f"sys/devices/system/cpu/cpu{number}/topology"
        siblings = ",".join(str(core + cores * thread) for thread in range(threads))
        files[f"{folder}/thread_siblings_list"] = siblings
        files[f"{folder}/physical_package_id"] = str(core // cores_each if package_id is None else package_id)
    return files


def cache(index: int, level: int, kind: str, size: str, shared: str) -> Files:
    folder = f"sys/devices/system/cpu/cpu0/cache/index{index}"
    return {
        f"{folder}/level": str(level),
        f"{folder}/type": kind,
        f"{folder}/size": size,
        f"{folder}/shared_cpu_list": shared,
    }


XEON_FLAGS = (
    "fpu sse sse2 ssse3 sse4_1 sse4_2 avx f16c rdrand fma avx2 avx512f avx512dq avx512bw avx512vl "
    "avx_vnni avx512_bf16 avx512_vnni avx512_fp16 amx_bf16 amx_tile amx_int8"
)

XEON: Files = {
    "proc/cpuinfo": (
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
        "model name\t: Intel(R) Xeon(R) Platinum 8480+\ncpu MHz\t\t: 2000.000\n"
        f"flags\t\t: {XEON_FLAGS}\n\nprocessor\t: 1\nmodel name\t: not the first"
    ),
    "proc/meminfo": "MemTotal: 1056484896 kB\nMemFree: 1000 kB\nMemAvailable: 990000000 kB\nSwapTotal: 33554428 kB\n"
    "SwapFree: 4194300 kB\nHugePages_Total: 0",
    "proc/loadavg": "12.50 3.00 1.00 5/900 4242",
    "proc/sys/kernel/osrelease": "5.14.0-427.el9.x86_64",
    "proc/version": "Linux version 5.14.0-427.el9.x86_64",
    "proc/sys/kernel/yama/ptrace_scope": "1",
    "proc/sys/kernel/perf_event_paranoid": "3",
    "proc/self/status": "Name:\tpython\nCapEff:\t0000000000000000",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 2025\nGCC 11",
    "proc/driver/nvidia/params": "EnableMSI: 1\nRmProfilingAdminOnly: 1",
    "etc/os-release": 'NAME="Rocky Linux"\nPRETTY_NAME="Rocky Linux 9.4 (Blue Onyx)"',
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3800000",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave",
    "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "3",
    "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "4",
    "sys/devices/system/node/has_cpu": "0-1",
    "sys/devices/system/node/online": "0-2",
    "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]",
    "sys/class/dmi/id/sys_vendor": "Dell Inc.",
    **topology(packages=2, cores_each=56, threads=2),
    **cache(0, 1, "Data", "48K", "0,112"),
    **cache(1, 1, "Instruction", "32K", "0,112"),
    **cache(2, 2, "Unified", "2048K", "0,112"),
    **cache(3, 3, "Unified", "107520K", "0-55,112-167"),
}
"""Two sockets with AVX-512 and AMX, an NVIDIA kernel driver, and everything set against measuring."""

GRACE: Files = {
    "proc/cpuinfo": (
        "processor\t: 0\nBogoMIPS\t: 2000.00\n"
        "Features\t: fp asimd evtstrm aes crc32 atomics fphp asimdhp asimddp sve sve2 bf16 i8mm\n"
        "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0xd4f\nCPU revision\t: 0\n"
    ),
    "sys/devices/system/node/has_cpu": "0",
    "sys/devices/system/node/online": "0-8",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3402000",
    **topology(packages=1, cores_each=72, package_id=-1),
}
"""An arm64 machine whose GPU's memory shows as eight nodes without CPUs, and whose firmware names no package."""

CGROUP_V2: Files = {
    "proc/self/cgroup": "0::/user.slice/job.scope",
    "proc/self/mountinfo": "35 25 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate",
    "sys/fs/cgroup/user.slice/job.scope/cpu.max": "max 100000",
    "sys/fs/cgroup/user.slice/job.scope/memory.max": "8589934592",
    "sys/fs/cgroup/user.slice/job.scope/cpu.stat": "usage_usec 5\nnr_periods 10\nnr_throttled 2\nthrottled_usec 500000",
    "sys/fs/cgroup/user.slice/cpu.max": "150000 100000",
    "sys/fs/cgroup/user.slice/memory.max": "max",
    "sys/fs/cgroup/user.slice/cpu.stat": "usage_usec 9\nnr_periods 100\nnr_throttled 40\nthrottled_usec 1500000",
    "sys/fs/cgroup/cpu.stat": "usage_usec 99",
}
"""Version 2: the quota of 1.5 CPUs is set above the group of the process, the memory limit on it."""

CGROUP_V1: Files = {
    "proc/self/cgroup": "5:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n0::/system.slice",
    "proc/self/mountinfo": (
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro master:11 - cgroup cgroup rw,cpu,cpuacct\n"
        "33 31 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "34 31 0:31 / /sys/fs/cgroup/unified ro - cgroup2 cgroup2 rw"
    ),
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
    "sys/fs/cgroup/cpu,cpuacct/cpu.stat": "nr_periods 7\nnr_throttled 3\nthrottled_time 1200000000",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
    "sys/fs/cgroup/unified/cpu.max": "1000 100000",
}
"""Version 1 in a container without a cgroup namespace: the process is told a path that it does not see."""
