"""Finding out which of several processes this one is, from the variables of what started it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.errors import UserError
from accelbench.execution.cluster import LOCALHOST, OTHER_RANKS, expand_hosts, find_cluster

OURS = {"ACCELBENCH_RANK": "1", "ACCELBENCH_RANKS": "4", "ACCELBENCH_COORDINATOR": "10.0.0.1:4000"}
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
        (PYTORCH, "PyTorch's variables", 3, 4, 0, "10.0.0.1"),
        (PYTORCH | {"LOCAL_RANK": "1"}, "PyTorch's variables", 3, 4, 1, "10.0.0.1"),
        # What a batch script exports is the same for all ranks.
        (SLURM | PYTORCH, "srun", 2, 4, 0, "gpu07"),
        # mpirun within a Slurm job, and torchrun within srun: what started this very process counts.
        (SLURM | OPEN_MPI, "mpirun", 2, 4, 0, "10.0.0.1"),
        (SLURM | TORCHRUN, "torchrun", 3, 4, 1, "10.0.0.1"),
        (SLURM | OURS, "accelbench launch", 1, 4, 1, "10.0.0.1"),
    ],
)
def test_each_launcher_says_who_is_who(
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
        {"RANK": "senior", "WORLD_SIZE": "large"},  # anybody's
    ],
)
def test_a_process_by_itself_is_no_rank(variables: dict[str, str]) -> None:
    assert find_cluster(variables) is None


def test_all_ranks_of_a_job_meet_at_one_port_and_other_jobs_at_another() -> None:
    first, last, other = (
        find_cluster(SLURM | changes)
        for changes in ({"SLURM_PROCID": "0"}, {"SLURM_PROCID": "3"}, {"SLURM_JOB_ID": "78"})
    )
    assert first is not None
    assert last is not None
    assert other is not None
    assert first.port == last.port != other.port


@pytest.mark.parametrize("name", OTHER_RANKS)
def test_a_launcher_that_is_not_known_is_named_by_its_variables(name: str) -> None:
    with pytest.raises(UserError, match=rf"not known \({name}=3\).*ACCELBENCH_RANK"):
        find_cluster({name: "3"})


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        (OURS | {"ACCELBENCH_RANK": "4"}, "rank 4 of 4"),
        (OURS | {"ACCELBENCH_RANKS": "many"}, "ACCELBENCH_RANKS is not a number: 'many'"),
        (OURS | {"ACCELBENCH_COORDINATOR": "here"}, "is not HOST:PORT: 'here'"),
        ({"ACCELBENCH_RANKS": "2"}, "is not HOST:PORT"),
        (OPEN_MPI | {"OMPI_MCA_orte_hnp_uri": ""}, "set ACCELBENCH_COORDINATOR"),
        (SLURM | {"SLURM_STEP_NODELIST": "n[1-"}, "no list of hosts"),
    ],
)
def test_variables_that_say_nothing_of_use_are_named(variables: dict[str, str], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
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
def test_slurms_lists_of_hosts(text: str, hosts: list[str]) -> None:
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
def test_ranges_are_as_long_and_as_wide_as_written(parts: list[tuple[str, int, int, int]]) -> None:
    text = ",".join(f"{name}[{first:0{width}}-{first + more}]" for name, first, more, width in parts)
    expected = [
        f"{name}{n:0{max(width, len(str(first)))}}"
        for name, first, more, width in parts
        for n in range(first, first + more + 1)
    ]
    assert expand_hosts(text) == expected


@pytest.mark.needs("mpirun")
def test_a_real_mpirun_is_understood() -> None:
    show = "import os; from accelbench.execution.cluster import find_cluster; c = find_cluster(os.environ); "
    show += "print(c.rank, c.size, c.host)"
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, "-c", show]
    found = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "HOME": "/tmp"})
    assert sorted(found.stdout.splitlines()) == [f"0 2 {LOCALHOST}", f"1 2 {LOCALHOST}"]
