"""Temporary Slurm cluster with two nodes on this machine: munged, slurmctld and two slurmd in one folder.

Both nodes are this host under two names, so their jobs run concurrently. n1 has two fake GPUs (`/dev/null`,
`/dev/zero`), which Slurm allocates with the usual environment variables. Partition `urgent` preempts `main`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.requirements import ENGINES_PATH, not_tested

NODES = ("n1", "n2")
START_SECONDS, STOP_SECONDS = 60, 20

# Reasons for non-default values: a requeued job waits until old credentials expire (cred_expire), time limits and
# priorities are checked only every 30 s to 60 s, and cgroups may be missing in a container.
CONF = """
ClusterName=accelbench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
SlurmctldPort={controller_port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0,nohold_on_prolog_fail
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=20
ReturnToService=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port_n1} CPUs=2 RealMemory=1000 Gres=gpu:2 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={port_n2} CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=n1,n2 MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
"""
GPUS = "NodeName=n1 Name=gpu File=/dev/null\nNodeName=n1 Name=gpu File=/dev/zero\n"


class Cluster:
    """Client of the running cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": ENGINES_PATH}

    def command(self, *arguments: str | Path, **changes: str | None) -> subprocess.CompletedProcess[str]:
        """Run a Slurm command with changed environment variables; None removes a variable."""
        merged: Mapping[str, str | None] = {**os.environ, **self.environment, **changes}
        return subprocess.run(
            [str(argument) for argument in arguments],
            env={name: value for name, value in merged.items() if value is not None},
            capture_output=True,
            text=True,
            timeout=180,
        )

    def output(self, *arguments: str | Path) -> str:
        """Return the output of a Slurm command, which must succeed."""
        process = self.command(*arguments)
        assert process.returncode == 0, process.stderr
        return process.stdout.strip()

    def job(self, job_id: str) -> dict[str, str]:
        """Return a job's fields, such as JobState, ExitCode, Restarts and NodeList."""
        fields = self.output("scontrol", "show", "job", "--oneliner", job_id).split()
        return dict(field.split("=", 1) for field in fields if "=" in field)

    def node(self, name: str) -> str:
        """Return the description of a node by `scontrol`, with its state and its reason."""
        return self.output("scontrol", "show", "node", name)

    @contextmanager
    def configured(self, *lines: str) -> Iterator[None]:
        """Add lines to `slurm.conf` in this block; at its end, resume drained nodes."""
        conf = self.folder / "slurm.conf"
        before = conf.read_text()
        try:
            conf.write_text("\n".join((before, *lines, "")))
            self.output("scontrol", "reconfigure")
            yield
        finally:
            conf.write_text(before)
            self.output("scontrol", "reconfigure")
            for node in NODES:
                if "DRAIN" in self.node(node):
                    self.output("scontrol", "update", f"nodename={node}", "state=resume")

    def wait(self, job_id: str, *states: str, seconds: float = 300) -> dict[str, str]:
        """Wait until the job is in one of the states, and return its fields."""
        wait_until(lambda: self.job(job_id)["JobState"] in states, f"job {job_id} to be {states}", seconds)
        return self.job(job_id)


def wait_until(happened: Callable[[], bool], what: str, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(0.2)


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Start the cluster in a temporary folder; at the end cancel its jobs, stop it and remove the folder."""
    with TemporaryDirectory(prefix="accelbench-slurm-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # munged requires its socket to be reachable by all users
        with _daemons(folder):
            cluster = Cluster(folder)
            try:
                idle = ("sinfo", "--noheader", "--partition=main", "--states=idle", "--format=%D")
                _started(folder, lambda: cluster.command(*idle).stdout.strip() == str(len(NODES)), "idle nodes")
                yield cluster
            finally:
                cluster.command("scancel", "--user=root")
                queue = ("squeue", "--noheader")
                wait_until(lambda: not cluster.command(*queue).stdout.strip(), "the jobs to end", START_SECONDS)


def _started(folder: Path, happened: Callable[[], bool], what: str) -> None:
    """Wait until a part of the cluster has started; otherwise report the test as not tested, with the daemons' logs."""
    try:
        wait_until(happened, what, START_SECONDS)
    except AssertionError as error:
        logs = "".join(f"\n{log.name}:\n{log.read_text()[-300:]}" for log in folder.glob("*.log"))
        not_tested("slurm", f"the cluster does not start: {error}{logs}")


@contextmanager
def _daemons(folder: Path) -> Iterator[None]:
    host = socket.gethostname().split(".")[0]
    controller_port, port_n1, port_n2 = _free_ports(3)
    for name in ("state", "munge", *(f"{what}-{node}" for node in NODES for what in ("spool", "tmp"))):
        (folder / name).mkdir(parents=True)
    for node in NODES:
        (folder / f"tmp-{node}").chmod(0o1777)
    (folder / "slurm.conf").write_text(
        CONF.format(folder=folder, host=host, controller_port=controller_port, port_n1=port_n1, port_n2=port_n2)
    )
    (folder / "gres.conf").write_text(GPUS)
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)

    conf = str(folder / "slurm.conf")
    munge = {"key": "key-file", "socket": "socket", "pid": "pid-file", "log": "log-file", "seed": "seed-file"}
    files = [f"--{option}={folder / 'munge' / name}" for name, option in munge.items()]
    with ExitStack() as daemons:
        daemons.enter_context(_daemon(folder, "munged", "--foreground", *files))
        _started(folder, (folder / "munge" / "socket").exists, "munged")
        daemons.enter_context(_daemon(folder, "slurmctld", "-D", "-f", conf))
        for node in NODES:
            daemons.enter_context(_daemon(folder, "slurmd", "-D", "-N", node, "-f", conf))
        yield


@contextmanager
def _daemon(folder: Path, name: str, *arguments: str) -> Iterator[None]:
    """Run a daemon as a child process, so that exactly this process is terminated at the end."""
    program = shutil.which(name, path=ENGINES_PATH)
    assert program is not None
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
