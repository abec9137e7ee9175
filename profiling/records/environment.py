"""The environment record: an allow-list of facts about the machine; an unreadable fact is null."""

from __future__ import annotations

from pydantic import Field

from accelbench.profiling.records.stored import Stored


class Cache(Stored):
    """One kind of cache of a logical CPU."""

    level: int
    """The level of the cache: 1 is nearest to the core."""
    kind: str
    """The cache type as Linux names it: `Data`, `Instruction` or `Unified`."""
    size_bytes: int
    """The size of one such cache, in bytes."""
    shared_by: int
    """The number of logical CPUs that share one such cache."""


class CoreKind(Stored):
    """One kind of core of a CPU with several kinds, such as performance and efficiency cores."""

    name: str
    """The name of the core (`Cortex-X925`), of Intel's kinds `P-core`, `E-core` and `LP E-core`, or, where the system
    has no name, what distinguishes it.
    """
    cpus: list[int]
    """The numbers of the online logical CPUs of this kind."""
    cores: int | None = None
    """The number of physical cores of this kind."""
    frequency_mhz: float | None = None
    """The highest clock of these cores in MHz, as Linux reports it."""
    caches: list[Cache] = []
    """The caches that a core of this kind uses, the nearest first."""


class Cpu(Stored):
    """The processor, and the CPUs available to this process."""

    model: str | None = None
    """The processor's name, from `/proc/cpuinfo`; on Arm from its implementer and part numbers, by kind of core."""
    vendor: str | None = None
    """The processor's vendor, from `/proc/cpuinfo` (`GenuineIntel`); on Arm from its implementer number."""
    family: int | None = None
    """The family number of an x86 processor."""
    model_number: int | None = None
    """The model number of an x86 processor."""
    architecture: str
    """The instruction set as the operating system names it: `x86_64`, `aarch64`."""
    sockets: int | None = None
    """The number of processor packages."""
    cores: int | None = None
    """The number of physical cores of the machine."""
    logical: int
    """The number of online logical CPUs."""
    usable: int
    """The number of logical CPUs that this process may run on, by affinity and cpuset."""
    affinity: list[int] | None = None
    """The numbers of the logical CPUs that this process may run on."""
    caches: list[Cache] = []
    """The caches that the first logical CPU uses, the nearest first; `kinds` has the caches of each kind of core."""
    isa: list[str] = []
    """The instruction-set extensions relevant to the kernels, as Linux names them: avx2, fma, avx512f, amx_bf16, …"""
    governor: str | None = None
    """The kernel's frequency governor; several names where the CPUs differ."""
    frequency_mhz: float | None = None
    """The maximum clock of all cores in MHz, or the current one where Linux reports no maximum."""
    hypervisor: str | None = None
    """The hypervisor's name, `unnamed` for a hypervisor without a name, or null on bare metal; also null where the
    system cannot show it, with the reason in `unknown`.
    """
    bandwidths: dict[int, float] = {}
    """The L2 bandwidth of each usable logical CPU at the start of the run, in bytes per second, by a probe of a few
    milliseconds that adds arrays; empty without a probe.
    """
    numa_nodes: int | None = None
    """The number of NUMA nodes with CPUs."""
    kinds: list[CoreKind] = []
    """The kinds of cores, the fastest first; empty for a CPU with cores of one kind."""
    one_core_kind: str | None = None
    """The kind of core on which points of one core run: the fastest one that this process may use. Null for a CPU with
    cores of one kind.
    """


class Memory(Stored):
    """The machine's main memory."""

    total_bytes: int
    """The size of the memory, in bytes."""
    available_bytes: int
    """The available memory at the start of the run in bytes, as Linux estimates it."""
    swap_bytes: int | None = None
    """The size of the swap space, in bytes."""
    channels: int | None = None
    """The number of channels with a memory module, by EDAC."""
    huge_pages: str | None = None
    """The mode of transparent huge pages."""


class Limits(Stored):
    """CPU and memory limits of the process's control group."""

    cpu_quota: float | None = None
    """The CPU quota in CPUs; null without a quota."""
    memory_bytes: int | None = None
    """The memory limit in bytes; null without a limit."""


class System(Stored):
    """The operating system, the container, the batch system, and the notebook host."""

    os: str
    """The distribution's name, or the platform's where the distribution has none."""
    kernel: str
    """The kernel release."""
    container: str | None = None
    """The container engine: docker, podman, apptainer, …; null where none was detected."""
    image: str | None = None
    """The digest of the container image's configuration, sha256:…; for a SIF, the digest of its source image."""
    user_namespace: bool | None = None
    """Whether the process is in a user namespace that maps users, as in a rootless container."""
    gpu_counters: bool | None = None
    """Whether an NVIDIA GPU's performance counters may be read; null without its kernel module."""
    scheduler: str | None = None
    """The batch system of the job: slurm, pbs, lsf, flux; null where none was detected."""
    runtime: str | None = None
    """The hosted notebook, or the substitute for a Linux kernel: colab, kaggle, wsl, gvisor; null where none was
    detected.
    """
    clock_source: str | None = None
    """The clock source of the kernel: `tsc`, `kvm-clock`, …"""


class Gpu(Stored):
    """One GPU, or one MIG slice, that is visible to the process."""

    index: int
    """The GPU's index in the driver's order (CUDA's order for NVIDIA), from 0."""
    name: str
    """The GPU's name, as the driver reports it."""
    vendor: str = "nvidia"
    """The GPU's vendor, such as `nvidia`, which is also the vendor in records without this field."""
    uuid_hash: str
    """The first 12 hex digits of SHA-256 of the UUID, which distinguishes cards without identifying them."""
    memory_bytes: int | None = None
    """The size of the device memory, in bytes."""
    compute_capability: str | None = None
    """The CUDA compute capability: `9.0` for Hopper."""
    multiprocessors: int | None = None
    """The number of streaming multiprocessors."""
    l2_bytes: int | None = None
    """The size of the L2 cache that all multiprocessors share, in bytes."""
    sm_clock_max_mhz: float | None = None
    """The maximum clock of the multiprocessors, in MHz."""
    memory_clock_max_mhz: float | None = None
    """The maximum clock of the device memory, in MHz."""
    power_limit_w: float | None = None
    """The enforced power limit, in watts."""
    ecc: bool | None = None
    """Whether ECC is enabled."""
    mig: bool | None = None
    """Whether the card is in MIG mode."""
    persistence: bool | None = None
    """Whether persistence mode is enabled: the driver stays loaded while no process uses the card."""
    mps: bool | None = None
    """Whether a server of NVIDIA's MPS (Multi-Process Service) runs on the card: its clients share the card."""
    pcie_generation: int | None = None
    """The highest PCIe generation that both card and slot support."""
    pcie_width: int | None = None
    """The largest number of PCIe lanes that both card and slot support."""


class TpuDevice(Stored):
    """One device of a TPU, as JAX or TensorFlow sees it: a chip, or one of the cores of a chip."""

    index: int
    """The device's index in the framework's order, from 0."""
    name: str
    """The kind of the device, as JAX reports it: `TPU v5 lite`."""
    memory_bytes: int | None = None
    """The memory that JAX may allocate on the device, in bytes."""
    devices_of_chip: int = Field(default=1, ge=1)
    """The number of devices as which the framework sees one chip: 2 for TPU v2, v3 and 7x."""


class Cuda(Stored):
    """The versions of the NVIDIA driver and of CUDA."""

    driver: str | None = None
    """The driver version, such as 580.95.05."""
    driver_cuda: str | None = None
    """The newest CUDA version that the driver supports, such as 13.0."""
    runtime: str | None = None
    """The version of the installed CUDA runtime package."""


class Software(Stored):
    """Versions of the libraries, and the settings that change their speed."""

    python: str
    """The version of Python."""
    implementation: str
    """The name of the Python implementation, such as CPython."""
    libraries: dict[str, str] = {}
    """The installed versions of the libraries, by package name (numpy, tensorflow, …)."""
    blas: str | None = None
    """The BLAS that NumPy uses, by name, version and kernel family: `openblas 0.3.31 Haswell pthreads`."""
    threads: dict[str, str] = {}
    """The thread settings: OMP_NUM_THREADS, NUMBA_NUM_THREADS, the size of the BLAS thread pool, …"""
    settings: dict[str, str] = {}
    """The environment variables that change the frameworks' speed, as set: TF_ENABLE_ONEDNN_OPTS, XLA_FLAGS, …"""
    accelbench: str
    """The version of accelbench."""
    revision: str | None = None
    """The git commit of accelbench, with the suffix `-dirty` if files were modified."""


class Environment(Stored):
    """Facts that may explain a result; none of them contains a user name, host name, address or path."""

    cpu: Cpu
    """The processor, and the CPUs available to this process."""
    memory: Memory
    """The machine's main memory."""
    limits: Limits
    """The CPU and memory limits of the process's control group."""
    system: System
    """The operating system, the container, the batch system, and the notebook host."""
    gpus: list[Gpu] = []
    """The visible GPUs of one vendor, in the driver's order."""
    cuda: Cuda | None = None
    """The versions of the NVIDIA driver and of CUDA; null without an NVIDIA driver."""
    tpus: list[TpuDevice] = []
    """The devices of the TPUs of this host, of a run that measures them; empty for all other runs."""
    software: Software
    """Versions of the libraries, and the settings that change their speed."""
    unknown: dict[str, str] = {}
    """The facts that could not be read, such as `cpu.governor`, each with the reason."""


class Peak(Stored):
    """The vendor's peak of a device for one dtype, or null with the reason."""

    value: float | None
    """The dense peak, in FLOP/s of arithmetic or in byte/s of memory; null if unknown."""
    reason: str | None = None
    """The reason why the peak is unknown."""
    unit_kind: str | None = None
    """The hardware unit that reaches the peak: `tensor`, `plain` or `memory`."""
    clock_mhz: float | None = None
    """The clock at which the vendor states the peak, in MHz."""
    source: str | None = None
    """The vendor's document that states the peak."""

    def at_clock(self, observed_mhz: float) -> float | None:
        """Return the peak scaled from `clock_mhz` to the observed clock; None for memory, or if either is unknown."""
        if self.value is None or self.clock_mhz is None or self.unit_kind == "memory":
            return None
        return self.value * observed_mhz / self.clock_mhz
