"""Rank of this process, from the environment variables of its launcher.

Supported launchers: `accelbench launch`, `torchrun`, `mpirun` of Open MPI, `flux run`, `mpiexec` of PALS, `srun` of
Slurm, `mpiexec` of the MPICH family, and launchers that set PyTorch's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT,
such as container schedulers. A launcher that sets only a rank, as by PMIx, needs ACCELBENCH_RANKS.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from accelbench.errors import UserError
from accelbench.profiling.ranks.channel import Address

RANK, RANKS, LOCAL_RANK, COORDINATOR = (f"ACCELBENCH_{name}" for name in ("RANK", "RANKS", "LOCAL_RANK", "COORDINATOR"))
"""Variables of `accelbench launch`, also for unsupported launchers. ACCELBENCH_RANKS=1 is a single process."""
SIZELESS_RANKS = ("PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "FLUX_TASK_RANK", "PALS_RANKID", "JSM_NAMESPACE_RANK")
"""Rank variables that may be set without the number of ranks; ACCELBENCH_RANKS supplements it."""
SIZES = ("PMI_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE", "FLUX_JOB_SIZE", "JSM_NAMESPACE_SIZE", "SLURM_STEP_NUM_TASKS")
"""Variables with the number of ranks, of which a value of 1 shows a single process beside a variable with a rank."""
FIRST_PORT, PORTS = 16_000, 16_000
"""First port and number of ports for rank 0, all below the ephemeral port range."""
LOCALHOST = "127.0.0.1"

Variables = Mapping[str, str]


@dataclass(frozen=True)
class Cluster:
    """Rank of this process under its launcher, and the address of rank 0."""

    rank: int
    size: int
    local_rank: int
    host: str
    port: int
    launcher: str


@dataclass(frozen=True)
class Launcher:
    """Environment variables of a launcher."""

    name: str
    rank: str
    size: str
    local_rank: str
    local_sizes: tuple[str, ...]
    """Variables with the number of ranks on this host; the first that is set counts."""
    job: tuple[str, ...]
    """Variables that identify the job; the first that is set counts."""
    nodes: str = ""
    """Variable with the number of hosts, of a launcher without a number of ranks on each."""

    def is_one_host(self, variables: Variables, size: int) -> bool:
        """Return whether all ranks are known to be on one host."""
        if size == 1:
            return True
        if self.nodes in variables:
            return _number(variables, self.nodes) == 1
        return next((_number(variables, name) for name in self.local_sizes if name in variables), 0) == size


LAUNCHERS = (
    Launcher(
        "mpirun",
        *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
        local_sizes=("OMPI_COMM_WORLD_LOCAL_SIZE",),
        job=("OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"),
    ),
    Launcher(
        "flux run",
        *("FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID"),
        local_sizes=(),
        job=("FLUX_JOB_ID",),
        nodes="FLUX_JOB_NNODES",
    ),
    Launcher(
        "mpiexec (PALS)",
        *("PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID"),
        local_sizes=("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"),
        job=("PALS_APID", "PMI_JOBID"),
    ),
    Launcher(
        "mpiexec",
        *("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
        local_sizes=("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"),
        job=("PMI_PORT", "HYDI_CONTROL_FD", "PMI_JOBID"),
    ),
)
"""Launchers that set a rank and a size."""


def find_cluster(variables: Variables) -> Cluster | None:
    """Return the rank from the launcher's variables; None for a single process.

    Raises UserError for contradictory variables and for a rank without the number of ranks.
    """
    # The innermost launcher counts: mpirun and flux run inside of a Slurm job, but srun beside PMI's variables.
    open_mpi, flux, pals, mpich = (partial(_by_table, launcher) for launcher in LAUNCHERS)
    for find in (_own, _torchrun, open_mpi, flux, pals, _slurm, mpich, _pytorch):
        cluster = find(variables)
        if cluster is not None:
            if not 0 <= cluster.rank < cluster.size:
                raise UserError(f"{cluster.launcher} set an invalid rank: {cluster.rank} of {cluster.size}")
            return cluster if cluster.size > 1 else None
    observed = [f"{name}={variables[name]}" for name in SIZELESS_RANKS if name in variables]
    if observed and {variables[name] for name in SIZES if name in variables} != {"1"}:
        raise UserError(
            f"a rank of an unknown number of ranks ({', '.join(observed)}): set {RANKS} and {COORDINATOR}=HOST:PORT "
            f"for all ranks, or {RANKS}=1 for a single process"
        )
    return None


def _own(variables: Variables) -> Cluster | None:
    if RANKS not in variables:
        return None
    size = _number(variables, RANKS)
    if size == 1:
        return Cluster(0, 1, 0, LOCALHOST, 0, "accelbench")
    given = variables.get(COORDINATOR)
    try:
        host, port = Address.parse(given or "")
    except ValueError:
        raise UserError(f"{COORDINATOR} must have the form HOST:PORT for {RANKS}={size}, not {given!r}") from None
    rank = _number(variables, next((name for name in (RANK, *SIZELESS_RANKS) if name in variables), RANK))
    return Cluster(rank, size, _number(variables, LOCAL_RANK, rank), host, port, "accelbench launch")


def _torchrun(variables: Variables) -> Cluster | None:
    return _pytorch(variables, "torchrun") if "TORCHELASTIC_RUN_ID" in variables else None


def _pytorch(variables: Variables, launcher: str = "PyTorch's variables") -> Cluster | None:
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= variables.keys():
        return None
    rank, size = _number(variables, "RANK"), _number(variables, "WORLD_SIZE")
    job = variables.get("TORCHELASTIC_RUN_ID", "") + variables.get("MASTER_PORT", "")
    return Cluster(rank, size, _number(variables, "LOCAL_RANK", 0), variables["MASTER_ADDR"], _port(job), launcher)


def _by_table(launcher: Launcher, variables: Variables) -> Cluster | None:
    if not {launcher.rank, launcher.size} <= variables.keys():
        return None
    rank, size = _number(variables, launcher.rank), _number(variables, launcher.size)
    local = _number(variables, launcher.local_rank, rank)
    job = next((variables[name] for name in launcher.job if variables.get(name)), "")
    host = LOCALHOST if launcher.is_one_host(variables, size) else _mpirun_host(variables)
    host, port = _coordinator(variables, host, job)
    if not host:
        raise UserError(f"the host of rank 0 is unknown under {launcher.name}: set {COORDINATOR}=HOST for all ranks")
    return Cluster(rank, size, local, host, port, launcher.name)


def _mpirun_host(variables: Variables) -> str:
    """Return the host of `mpirun`, which Open MPI 4 sets; empty if it is unknown."""
    uri = re.search(r"tcp://([^,:;]+)", variables.get("OMPI_MCA_orte_hnp_uri", ""))
    return uri[1] if uri else ""


def _slurm(variables: Variables) -> Cluster | None:
    if not {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST"} <= variables.keys():
        return None
    rank, size = _number(variables, "SLURM_PROCID"), _number(variables, "SLURM_STEP_NUM_TASKS")
    job = f"{variables.get('SLURM_JOB_ID')}.{variables.get('SLURM_STEP_ID')}"
    nodes = expand_hosts(variables["SLURM_STEP_NODELIST"])
    host, port = _coordinator(variables, LOCALHOST if len(nodes) == 1 else nodes[0], job)
    return Cluster(rank, size, _number(variables, "SLURM_LOCALID"), host, port, "srun")


def _coordinator(variables: Variables, host: str, job: str) -> tuple[str, int]:
    """Return the address in ACCELBENCH_COORDINATOR (HOST or HOST:PORT); the defaults are `host` and the job's port."""
    given = variables.get(COORDINATOR, "")
    try:
        return Address.parse(given)
    except ValueError:
        return given.strip("[]") or host, _port(job)


def expand_hosts(text: str) -> list[str]:
    """Expand a Slurm host list: `n[1-3,07],login` becomes n1, n2, n3, n07, login; UserError if it is invalid."""
    hosts: list[str] = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        names = [""]
        for plain, ranges in re.findall(r"([^\[\]]+)|\[([^\]]*)\]", part):
            ends = [plain] if plain else [number for piece in ranges.split(",") for number in _range(piece)]
            names = [name + end for name in names for end in ends]
        hosts += names
    if not hosts or re.sub(r"\[[^\[\]]*\]", "", text).count("[") or "]" in re.sub(r"\[[^\[\]]*\]", "", text):
        raise UserError(f"invalid Slurm host list: {text!r}")
    return hosts


def _range(text: str) -> list[str]:
    """Expand a range with the width of its first number: `08-11` becomes 08, 09, 10, 11."""
    first, _, last = text.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal():
        raise UserError(f"invalid range in a Slurm host list: {text!r}")
    return [f"{number:0{len(first)}}" for number in range(int(first), int(last or first) + 1)]


def _port(job: str) -> int:
    """Return a port derived from the job's ID: equal for all ranks of a job, usually different for other jobs."""
    return FIRST_PORT + zlib.crc32(job.encode()) % PORTS


def _number(variables: Variables, name: str, default: int | None = None) -> int:
    text = variables.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal():
        raise UserError(f"the environment variable {name} must be a number, not {text!r}")
    return int(text)
