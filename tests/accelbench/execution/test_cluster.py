"""Tests of `find_cluster`: the rank of a process from the variables of its launcher."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.errors import UserError
from accelbench.execution.cluster import LOCALHOST, SIZELESS_RANKS, expand_hosts, find_cluster

OURS = {"ACCELBENCH_RANK": "1", "ACCELBENCH_RANKS": "4", "ACCELBENCH_COORDINATOR": "10.0.0.1:4000"}
RANKLESS = {name: value for name, value in OURS.items() if name != "ACCELBENCH_RANK"}
TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_MCA_orte_hnp_uri": "3301703680.0;tcp://10.0.0.1,172.17.0.1:39557",
}
SLURM = {
    "SLURM_PROCID": "2",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_LOCALID": "0",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
}
PYTORCH = {name: TORCHRUN[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "1", "PMI_PORT": "vm:40001"}
PMI = {"PMI_RANK": "2", "PMI_SIZE": "4"}
FLUX = PMI | {
    "FLUX_TASK_RANK": "2",
    "FLUX_TASK_LOCAL_ID": "0",
    "FLUX_JOB_SIZE": "4",
    "FLUX_JOB_NNODES": "1",
    "FLUX_JOB_ID": "f4Xdq",
}
PALS = PMI | {
    "PALS_RANKID": "2",
    "PALS_LOCAL_RANKID": "0",
    "PALS_NODEID": "1",
    "PALS_APID": "2f1a",
    "PMI_LOCAL_RANK": "0",
    "PMI_LOCAL_SIZE": "4",
}
COORDINATOR = {"ACCELBENCH_COORDINATOR": "node1"}


@pytest.mark.parametrize(
    ("variables", "launcher", "rank", "size", "local_rank", "host"),
    [
        (OURS, "accelbench launch", 1, 4, 1, "10.0.0.1"),
        (TORCHRUN, "torchrun", 3, 4, 1, "10.0.0.1"),
        (OPEN_MPI, "mpirun", 2, 4, 0, "10.0.0.1"),
        (OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, "mpirun", 2, 4, 0, LOCALHOST),
        (SLURM, "srun", 2, 4, 0, "gpu07"),
        (SLURM | {"SLURM_STEP_NODELIST": "gpu07"}, "srun", 2, 4, 0, LOCALHOST),
        (SLURM | {"ACCELBENCH_COORDINATOR": "10.0.0.9"}, "srun", 2, 4, 0, "10.0.0.9"),
        (SLURM | {"ACCELBENCH_COORDINATOR": "fd00::9"}, "srun", 2, 4, 0, "fd00::9"),
        (SLURM | {"ACCELBENCH_COORDINATOR": "[fd00::9]:4000"}, "srun", 2, 4, 0, "fd00::9"),
        (OURS | {"ACCELBENCH_COORDINATOR": "[fd00::1]:4000"}, "accelbench launch", 1, 4, 1, "fd00::1"),
        (MPICH, "mpiexec", 1, 2, 1, LOCALHOST),
        (FLUX, "flux run", 2, 4, 0, LOCALHOST),
        (FLUX | {"FLUX_JOB_NNODES": "2"} | COORDINATOR, "flux run", 2, 4, 0, "node1"),
        (PALS, "mpiexec (PALS)", 2, 4, 0, LOCALHOST),
        (PALS | {"PMI_LOCAL_SIZE": "2"} | COORDINATOR, "mpiexec (PALS)", 2, 4, 0, "node1"),
        (PMI | COORDINATOR, "mpiexec", 2, 4, 2, "node1"),
        (OURS | {"PMIX_RANK": "3"}, "accelbench launch", 1, 4, 1, "10.0.0.1"),
        (RANKLESS | {"PMIX_RANK": "3"}, "accelbench launch", 3, 4, 3, "10.0.0.1"),
        (PYTORCH, "PyTorch's variables", 3, 4, 0, "10.0.0.1"),
        (PYTORCH | {"LOCAL_RANK": "1"}, "PyTorch's variables", 3, 4, 1, "10.0.0.1"),
        # Variables exported by a batch script are equal for all ranks.
        (SLURM | PYTORCH, "srun", 2, 4, 0, "gpu07"),
        # mpirun in a Slurm job, and torchrun under srun: the innermost launcher counts.
        (SLURM | FLUX, "flux run", 2, 4, 0, LOCALHOST),
        (SLURM | PMI, "srun", 2, 4, 0, "gpu07"),
        (SLURM | OPEN_MPI, "mpirun", 2, 4, 0, "10.0.0.1"),
        (SLURM | TORCHRUN, "torchrun", 3, 4, 1, "10.0.0.1"),
        (SLURM | OURS, "accelbench launch", 1, 4, 1, "10.0.0.1"),
    ],
)
def test_rank_of_each_launcher(
    variables: dict[str, str], launcher: str, rank: int, size: int, local_rank: int, host: str
) -> None:
    found = find_cluster(variables)
    assert found is not None
    assert (found.launcher, found.rank, found.size, found.local_rank) == (launcher, rank, size, local_rank)
    assert found.host == host
    assert 1024 < found.port < 65536


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"ACCELBENCH_RANKS": "1"},
        SLURM | {"ACCELBENCH_RANKS": "1"},
        SLURM | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
        {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_NODELIST": "n[1-4]"},  # a batch script
        {"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "1"},
        {"PALS_RANKID": "0", "PMI_SIZE": "1"},
        {"JSM_NAMESPACE_RANK": "0", "JSM_NAMESPACE_SIZE": "1"},
        {"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "1"},
        {"PMIX_RANK": "0", "SLURM_STEP_NUM_TASKS": "1"},
        {"RANK": "senior", "WORLD_SIZE": "large"},  # generic names
    ],
)
def test_a_single_process_has_no_cluster(variables: dict[str, str]) -> None:
    assert find_cluster(variables) is None


def test_the_port_is_equal_within_a_job_and_differs_between_jobs() -> None:
    first, last, other = (
        find_cluster(SLURM | changes)
        for changes in ({"SLURM_PROCID": "0"}, {"SLURM_PROCID": "3"}, {"SLURM_JOB_ID": "78"})
    )
    assert first is not None
    assert last is not None
    assert other is not None
    assert first.port == last.port != other.port
    chosen = find_cluster(SLURM | {"ACCELBENCH_COORDINATOR": "node1:4000"})
    assert chosen is not None
    assert chosen.port == 4000


@pytest.mark.parametrize("name", SIZELESS_RANKS)
def test_a_rank_without_a_size_is_named_by_its_variable(name: str) -> None:
    with pytest.raises(UserError, match=rf"\({name}=3\).*ACCELBENCH_RANK"):
        find_cluster({name: "3"})


@pytest.mark.parametrize(
    ("variables", "key"),
    [
        (OURS | {"ACCELBENCH_RANK": "4"}, "4 of 4"),
        (OURS | {"ACCELBENCH_RANKS": "many"}, "ACCELBENCH_RANKS .*'many'"),
        (OURS | {"ACCELBENCH_COORDINATOR": "here"}, "HOST:PORT.*'here'"),
        ({"ACCELBENCH_RANKS": "2"}, "HOST:PORT"),
        (OPEN_MPI | {"OMPI_MCA_orte_hnp_uri": ""}, "ACCELBENCH_COORDINATOR"),
        # Ranks on several hosts, or perhaps on several: rank 0 is not assumed to be on this host.
        (FLUX | {"FLUX_JOB_NNODES": "2"}, "ACCELBENCH_COORDINATOR"),
        (PALS | {"PMI_LOCAL_SIZE": "2"}, "ACCELBENCH_COORDINATOR"),
        (PMI, "ACCELBENCH_COORDINATOR"),
        (SLURM | {"SLURM_STEP_NODELIST": "n[1-"}, "host list"),
    ],
)
def test_invalid_variables_are_named(variables: dict[str, str], key: str) -> None:
    with pytest.raises(UserError, match=key):
        find_cluster(variables)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[1-3,07],login", ["n1", "n2", "n3", "n07", "login"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("gpu-[1].site,a[2-2]b", ["gpu-1.site", "a2b"]),
    ],
)
def test_expand_hosts(text: str, hosts: list[str]) -> None:
    assert expand_hosts(text) == hosts


@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[a-z][a-z-]{0,5}", fullmatch=True),
            st.integers(0, 900),
            st.integers(0, 20),
            st.integers(1, 4),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_expanded_ranges_keep_length_and_width(parts: list[tuple[str, int, int, int]]) -> None:
    text = ",".join(f"{name}[{first:0{width}}-{first + more}]" for name, first, more, width in parts)
    expected = [
        f"{name}{n:0{max(width, len(str(first)))}}"
        for name, first, more, width in parts
        for n in range(first, first + more + 1)
    ]
    assert expand_hosts(text) == expected


@pytest.mark.needs("mpirun")
def test_ranks_of_a_real_mpirun() -> None:
    show = "import os; from accelbench.execution.cluster import find_cluster; c = find_cluster(os.environ); "
    show += "print(c.rank, c.size, c.host)"
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, "-c", show]
    found = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "HOME": "/tmp"})
    assert sorted(found.stdout.splitlines()) == [f"0 2 {LOCALHOST}", f"1 2 {LOCALHOST}"]
