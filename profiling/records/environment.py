"""The environment record: an allow-list of facts about the machine; a fact that cannot be read is null."""

from __future__ import annotations

from accelbench.profiling.records.stored import Stored


class Cache(Stored):
    """One kind of cache of the first logical CPU."""

    level: int
    """The level of the cache: 1 is nearest to the core."""
    kind: str
    """The kernel's word for what the cache holds: `Data`, `Instruction` or `Unified`."""
    size_bytes: int
    """The size of one such cache, in bytes."""
    shared_by: int
    """The number of logical CPUs that share one such cache."""


class Cpu(Stored):
    """The processor, and what this process may use of it."""

    model: str | None = None
    """The processor's name, as `/proc/cpuinfo` has it or as its numbers tell it on Arm."""
    vendor: str | None = None
    """The processor's maker, as `/proc/cpuinfo` has it (`GenuineIntel`) or as its number tells it on Arm."""
    family: int | None = None
    """The family number that an x86 processor states."""
    model_number: int | None = None
    """The model number that an x86 processor states."""
    architecture: str
    """The instruction set by the name that the system gives it: `x86_64`, `aarch64`."""
    sockets: int | None = None
    """The number of processor packages."""
    cores: int | None = None
    """The number of physical cores of the machine."""
    logical: int
    """The number of logical CPUs that are switched on."""
    usable: int
    """The number of logical CPUs that this process may run on, by affinity and cpuset."""
    affinity: list[int] | None = None
    """The numbers of the logical CPUs that this process may run on."""
    caches: list[Cache] = []
    """The caches that the first logical CPU uses, the nearest first."""
    isa: list[str] = []
    """The instruction-set extensions that matter here: avx2, fma, avx512f, amx_bf16, asimd, … (the kernel's names)."""
    governor: str | None = None
    """The kernel's frequency governor; several names where the CPUs differ."""
    frequency_mhz: float | None = None
    """The highest clock that the kernel states, in MHz, or the present one where it states no highest."""
    hypervisor: str | None = None
    """The hypervisor's name, `unnamed` where one is there that does not say, or null on bare metal."""
    bandwidths: dict[int, float] = {}
    """The bytes per second at which each usable logical CPU added arrays in its L2 cache when the run began, by a probe
    of milliseconds; empty where none was made.
    """
    numa_nodes: int | None = None
    """The number of memory nodes that have CPUs."""


class Memory(Stored):
    """The machine's main memory."""

    total_bytes: int
    """The size of the memory, in bytes."""
    available_bytes: int
    """The memory that could be used when the run began, in bytes, as the kernel estimates it."""
    swap_bytes: int | None = None
    """The size of the swap space, in bytes."""
    huge_pages: str | None = None
    """The kernel's transparent huge page mode."""


class Limits(Stored):
    """The CPU time and the memory that the control group grants this process."""

    cpu_quota: float | None = None
    """The CPUs' worth of time that the process may use; null where there is no quota."""
    memory_bytes: int | None = None
    """The bytes of memory that the process's group may use; null where there is no limit."""


class System(Stored):
    """The operating system, and what stands between it and the machine."""

    os: str
    """The distribution's own name, or the platform's where it has none."""
    kernel: str
    """The release of the kernel."""
    container: str | None = None
    """The engine of the container around this process: docker, podman, apptainer, …; null where none was seen."""
    image: str | None = None
    """The digest of the container image's configuration, sha256:…, or of the one that a SIF was made of."""
    user_namespace: bool | None = None
    """Whether users are mapped to others of the host, as in a container of a rootless engine."""
    gpu_counters: bool | None = None
    """Whether an NVIDIA GPU's performance counters may be read; null without its kernel module."""
    scheduler: str | None = None
    """The batch system whose job this process is: slurm, pbs, lsf, flux; null where none was seen."""
    runtime: str | None = None
    """The hosted notebook, or the stand-in for the kernel: colab, kaggle, wsl, gvisor; null where none was seen."""
    clock_source: str | None = None
    """The kernel's name of the clock that it tells time by: `tsc`, `kvm-clock`, …"""


class Gpu(Stored):
    """One GPU, or a MIG slice of one, that a program started here would see."""

    index: int
    """The GPU's number in the driver's order (CUDA's, of NVIDIA's GPUs), from 0."""
    name: str
    """The GPU's name, as the driver has it."""
    vendor: str = "nvidia"
    """The GPU's vendor, `nvidia`; records without the field are all of NVIDIA's GPUs."""
    uuid_hash: str
    """The first 12 hex digits of SHA-256 of the UUID: tells two cards apart without naming them."""
    memory_bytes: int | None = None
    """The size of the device memory, in bytes."""
    compute_capability: str | None = None
    """The CUDA compute capability: `9.0` for Hopper."""
    multiprocessors: int | None = None
    """The number of streaming multiprocessors."""
    l2_bytes: int | None = None
    """The size of the L2 cache that all multiprocessors share, in bytes."""
    sm_clock_max_mhz: float | None = None
    """The highest clock of the multiprocessors, in MHz."""
    memory_clock_max_mhz: float | None = None
    """The highest clock of the device memory, in MHz."""
    power_limit_w: float | None = None
    """The power limit in force, in watts."""
    ecc: bool | None = None
    """Whether the memory's error correction is in force."""
    mig: bool | None = None
    """Whether the card is in MIG mode, in which it can be divided."""
    persistence: bool | None = None
    """Whether the driver keeps the card ready while no process uses it."""
    pcie_generation: int | None = None
    """The highest PCIe generation that the card and its slot can use together."""
    pcie_width: int | None = None
    """The largest number of PCIe lanes that the card and its slot can use together."""


class Cuda(Stored):
    """The versions of the NVIDIA driver and of CUDA."""

    driver: str | None = None
    """The version of the driver itself, such as 580.95.05."""
    driver_cuda: str | None = None
    """The newest CUDA that the driver serves, such as 13.0."""
    runtime: str | None = None
    """The version of the installed package of the CUDA runtime."""


class Software(Stored):
    """The libraries that do the work, and the settings that change their speed."""

    python: str
    """The version of Python."""
    implementation: str
    """The name of the Python implementation, such as CPython."""
    libraries: dict[str, str] = {}
    """The installed versions of the libraries that do the work, by their packages' names (numpy, tensorflow, …)."""
    blas: str | None = None
    """The BLAS that NumPy uses, by name, version and kernel family: `openblas 0.3.31 Haswell pthreads`."""
    threads: dict[str, str] = {}
    """The thread settings in force: OMP_NUM_THREADS, NUMBA_NUM_THREADS, the size of the BLAS's thread pool, …"""
    settings: dict[str, str] = {}
    """The environment variables in force that change the frameworks' speed: TF_ENABLE_ONEDNN_OPTS, XLA_FLAGS, …"""
    accelbench: str
    """The version of the suite."""
    revision: str | None = None
    """The git commit of the suite, with `-dirty` where its files were changed."""


class Environment(Stored):
    """The facts that may explain a figure; none of them names a person, a host, an address or a path."""

    cpu: Cpu
    """The processor, and what this process may use of it."""
    memory: Memory
    """The machine's main memory."""
    limits: Limits
    """The CPU time and the memory that the control group grants this process."""
    system: System
    """The operating system, and what stands between it and the machine."""
    gpus: list[Gpu] = []
    """The GPUs of one vendor that a program started here would see, in the driver's order."""
    cuda: Cuda | None = None
    """The versions of the NVIDIA driver and of CUDA; null where there is no such driver."""
    software: Software
    """The libraries that do the work, and the settings that change their speed."""
    unknown: dict[str, str] = {}
    """The facts that could not be read, such as `cpu.governor`, each with the reason."""


class Peak(Stored):
    """A vendor's figure for (device, dtype), or null with the reason."""

    value: float | None
    """The dense peak, in FLOP/s of arithmetic or in byte/s of memory; null where it is unknown."""
    reason: str | None = None
    """The reason why the peak is unknown."""
    unit_kind: str | None = None
    """The hardware unit that reaches the peak: `tensor`, `plain` or `memory`."""
    clock_mhz: float | None = None
    """The clock at which the vendor states the peak, in MHz."""
    source: str | None = None
    """The vendor's document that states the peak."""

    def at_clock(self, observed_mhz: float) -> float | None:
        """Return the peak scaled from the clock it is stated at to the observed one; None where either is unknown."""
        if self.value is None or self.clock_mhz is None or self.unit_kind == "memory":
            return None
        return self.value * observed_mhz / self.clock_mhz
