"""The environment record: an allow-list of facts about the machine; a fact that cannot be read is null."""

from __future__ import annotations

from profiling.records.stored import Stored


class Cache(Stored):
    level: int
    kind: str
    size_bytes: int
    shared_by: int
    """How many logical CPUs share one such cache."""


class Cpu(Stored):
    model: str | None = None
    vendor: str | None = None
    family: int | None = None
    model_number: int | None = None
    architecture: str
    sockets: int | None = None
    cores: int | None = None
    """Physical cores of the machine."""
    logical: int
    usable: int
    """Logical CPUs that this process may run on (affinity and cpuset)."""
    affinity: list[int] | None = None
    caches: list[Cache] = []
    isa: list[str] = []
    """The instruction-set extensions that matter here: avx2, fma, avx512f, amx_bf16, asimd, … (the kernel's names)."""
    governor: str | None = None
    frequency_mhz: float | None = None
    """The highest clock that the kernel states; a virtual machine states its nominal one."""
    hypervisor: str | None = None
    numa_nodes: int | None = None


class Memory(Stored):
    total_bytes: int
    available_bytes: int
    swap_bytes: int | None = None
    huge_pages: str | None = None
    """The kernel's transparent huge page mode."""


class Limits(Stored):
    """What the control group grants this process."""

    cpu_quota: float | None = None
    """CPUs' worth of time per period; null where there is no quota."""
    memory_bytes: int | None = None


class System(Stored):
    os: str
    kernel: str
    container: str | None = None
    """docker, podman, apptainer, kubernetes, … or null where none was seen."""
    image: str | None = None
    """The digest of the container image's configuration, sha256:…, or of the one that a SIF was made of."""
    user_namespace: bool | None = None
    """Whether users are mapped to others of the host, as in a container of a rootless engine."""
    gpu_counters: bool | None = None
    """Whether an NVIDIA GPU's performance counters may be read; null without its kernel module."""
    scheduler: str | None = None
    """slurm, pbs, lsf, or null."""
    runtime: str | None = None
    """colab, kaggle, wsl, gvisor, or null."""
    clock_source: str | None = None


class Gpu(Stored):
    index: int
    name: str
    uuid_hash: str
    """The first 12 hex digits of SHA-256 of the UUID: tells two cards apart without naming them."""
    memory_bytes: int | None = None
    compute_capability: str | None = None
    multiprocessors: int | None = None
    l2_bytes: int | None = None
    """The L2 cache that all multiprocessors share."""
    sm_clock_max_mhz: float | None = None
    memory_clock_max_mhz: float | None = None
    power_limit_w: float | None = None
    ecc: bool | None = None
    mig: bool | None = None
    persistence: bool | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None


class Cuda(Stored):
    driver: str | None = None
    driver_cuda: str | None = None
    """The newest CUDA that the driver serves, such as 13.0."""
    runtime: str | None = None


class Software(Stored):
    python: str
    implementation: str
    libraries: dict[str, str] = {}
    """Installed versions of the libraries that do the work (numpy, numba, tensorflow, cupy, …)."""
    blas: str | None = None
    threads: dict[str, str] = {}
    """Thread settings in force: OMP_NUM_THREADS, NUMBA_NUM_THREADS, the BLAS pool's size, …"""
    settings: dict[str, str] = {}
    """Framework settings that change speed: TF_ENABLE_ONEDNN_OPTS, XLA_FLAGS, …"""
    accelbench: str
    revision: str | None = None
    """The suite's git commit, `-dirty` when its files were changed."""


class Environment(Stored):
    """What may explain a figure; nothing that names a person, a host, an address or a path."""

    cpu: Cpu
    memory: Memory
    limits: Limits
    system: System
    gpus: list[Gpu] = []
    cuda: Cuda | None = None
    software: Software
    unknown: dict[str, str] = {}
    """Facts that could not be read, and why."""
