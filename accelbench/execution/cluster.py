"""The place of this process among several, found in the variables of whatever started them.

`accelbench launch`, `torchrun`, Open MPI's `mpirun`, Slurm's `srun`, and the MPICH family's `mpiexec` are known, and
whatever sets PyTorch's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as schedulers of containers do.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from accelbench.errors import UserError
from accelbench.profiling.ranks.channel import Address

RANK, RANKS, LOCAL_RANK, COORDINATOR = (f"ACCELBENCH_{name}" for name in ("RANK", "RANKS", "LOCAL_RANK", "COORDINATOR"))
"""The variables of `accelbench launch`, to set by hand for an unknown launcher. RANKS=1 is a process by itself."""
OTHER_RANKS = ("PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "FLUX_TASK_RANK", "PALS_RANKID", "JSM_NAMESPACE_RANK")
"""The variables by which a rank of a launcher that is not known gives itself away."""
FIRST_PORT, PORTS = 16_000, 16_000
"""The first port for rank 0, and how many there are: all lie below those given to outgoing connections."""
LOCALHOST = "127.0.0.1"

Variables = Mapping[str, str]


@dataclass(frozen=True)
class Cluster:
    """One process's place among those that a launcher started, and where rank 0 listens."""

    rank: int
    size: int
    local_rank: int
    host: str
    port: int
    launcher: str


def find_cluster(variables: Variables) -> Cluster | None:
    """Return the place that the launcher's variables give; None for a process by itself.

    UserError where they contradict themselves, or show a rank without saying of how many.
    """
    for find in (_own, _torchrun, _open_mpi, _slurm, _mpich, _pytorch):
        cluster = find(variables)
        if cluster is not None:
            if not 0 <= cluster.rank < cluster.size:
                raise UserError(f"{cluster.launcher} says that this is rank {cluster.rank} of {cluster.size}")
            return cluster if cluster.size > 1 else None
    seen = [f"{name}={variables[name]}" for name in OTHER_RANKS if name in variables]
    if seen:
        raise UserError(
            f"this is one of several ranks, of a launcher that is not known ({', '.join(seen)}): set {RANK}, {RANKS} "
            f"and {COORDINATOR}=HOST:PORT, or {RANKS}=1 for a process by itself"
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
        raise UserError(f"{RANKS} is {size}, and {COORDINATOR} is not HOST:PORT: {given!r}") from None
    rank = _number(variables, RANK)
    return Cluster(rank, size, _number(variables, LOCAL_RANK, rank), host, port, "accelbench launch")


def _torchrun(variables: Variables) -> Cluster | None:
    return _pytorch(variables, "torchrun") if "TORCHELASTIC_RUN_ID" in variables else None


def _pytorch(variables: Variables, launcher: str = "PyTorch's variables") -> Cluster | None:
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= variables.keys():
        return None
    rank, size = _number(variables, "RANK"), _number(variables, "WORLD_SIZE")
    job = variables.get("TORCHELASTIC_RUN_ID", "") + variables.get("MASTER_PORT", "")
    return Cluster(rank, size, _number(variables, "LOCAL_RANK", 0), variables["MASTER_ADDR"], _port(job), launcher)


def _open_mpi(variables: Variables) -> Cluster | None:
    if "OMPI_COMM_WORLD_SIZE" not in variables:
        return None
    rank, size = _number(variables, "OMPI_COMM_WORLD_RANK"), _number(variables, "OMPI_COMM_WORLD_SIZE")
    here = _number(variables, "OMPI_COMM_WORLD_LOCAL_SIZE", size)
    job = variables.get("OMPI_MCA_ess_base_jobid") or variables.get("PMIX_NAMESPACE", "")
    local = _number(variables, "OMPI_COMM_WORLD_LOCAL_RANK", rank)
    return Cluster(rank, size, local, _mpi_host(variables, size, here), _port(job), "mpirun")


def _mpich(variables: Variables) -> Cluster | None:
    if not {"PMI_RANK", "PMI_SIZE"} <= variables.keys():
        return None
    rank, size = _number(variables, "PMI_RANK"), _number(variables, "PMI_SIZE")
    here = _number(variables, "MPI_LOCALNRANKS", size)
    job = variables.get("PMI_PORT") or variables.get("HYDI_CONTROL_FD", "")
    local = _number(variables, "MPI_LOCALRANKID", rank)
    return Cluster(rank, size, local, _mpi_host(variables, size, here), _port(job), "mpiexec")


def _mpi_host(variables: Variables, size: int, here: int) -> str:
    """Return rank 0's host: this one if all ranks are here; else, of Open MPI 4, the one where `mpirun` itself runs."""
    given = _given_host(variables)
    if given or here == size:
        return given or LOCALHOST
    uri = re.search(r"tcp://([^,:;]+)", variables.get("OMPI_MCA_orte_hnp_uri", ""))
    if uri is None:
        raise UserError(f"mpirun does not say on which host rank 0 is: set {COORDINATOR} to it (mpirun -x)")
    return uri[1]


def _slurm(variables: Variables) -> Cluster | None:
    if not {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST"} <= variables.keys():
        return None
    rank, size = _number(variables, "SLURM_PROCID"), _number(variables, "SLURM_STEP_NUM_TASKS")
    job = f"{variables.get('SLURM_JOB_ID')}.{variables.get('SLURM_STEP_ID')}"
    nodes = expand_hosts(variables["SLURM_STEP_NODELIST"])
    host = _given_host(variables) or (LOCALHOST if len(nodes) == 1 else nodes[0])
    return Cluster(rank, size, _number(variables, "SLURM_LOCALID"), host, _port(job), "srun")


def _given_host(variables: Variables) -> str | None:
    """Return the coordinator's host, where one is given: by itself, or with the port of another launcher."""
    given = variables.get(COORDINATOR, "")
    try:
        return Address.parse(given).host
    except ValueError:
        return given.strip("[]") or None


def expand_hosts(text: str) -> list[str]:
    """Return the hosts of Slurm's list, as n1, n2, n3, n07, login of `n[1-3,07],login`; UserError for no such list."""
    hosts: list[str] = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        names = [""]
        for plain, ranges in re.findall(r"([^\[\]]+)|\[([^\]]*)\]", part):
            ends = [plain] if plain else [number for piece in ranges.split(",") for number in _range(piece)]
            names = [name + end for name in names for end in ends]
        hosts += names
    if not hosts or re.sub(r"\[[^\[\]]*\]", "", text).count("[") or "]" in re.sub(r"\[[^\[\]]*\]", "", text):
        raise UserError(f"this is no list of hosts: {text!r}")
    return hosts


def _range(text: str) -> list[str]:
    """Return the numbers of a range, as wide as the first is written: 08, 09, 10, 11 of `08-11`."""
    first, _, last = text.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal():
        raise UserError(f"this is no range of host numbers: {text!r}")
    return [f"{number:0{len(first)}}" for number in range(int(first), int(last or first) + 1)]


def _port(job: str) -> int:
    """Return a port that all ranks of a job find alike, and other jobs rarely."""
    return FIRST_PORT + zlib.crc32(job.encode()) % PORTS


def _number(variables: Variables, name: str, default: int | None = None) -> int:
    text = variables.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal():
        raise UserError(f"the variable {name} is not a number: {text!r}")
    return int(text)
