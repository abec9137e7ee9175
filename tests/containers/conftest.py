"""Fixtures with real container engines, started with temporary folders and removed after the tests."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, info
from tests.conftest import records as written
from tests.containers.slurm_cluster import Cluster, running_cluster
from tests.requirements import ENGINES_PATH, not_tested

BASE = "debian:bookworm-slim"
"""Base image of the test images, created without a registry by `containers/ci/base.sh`."""
ENGINES_S = 60
"""Start-up timeout of a daemon in seconds."""

SHORT = """
description = "A kernel on Numba's threads, and one of a library"
max_seconds = 0.2
rounds = 1
[[benchmark]]
name = "stream"
axes = { op = ["triad"], dtype = ["float64"] }
[[benchmark]]
name = "matmul"
axes = { impl = ["vendor"], dtype = ["float64"], n = [256] }
"""
SHORT_BENCH = ("SUITE=runs/short.toml", "ARGS=--no-ceilings --patience 0")
"""Arguments of `make bench` for the short suite, whose path is valid inside and outside a container."""
BRIEF = "--no-ceilings --rounds 1 --max-seconds 0.2 --patience 0"
"""Options of `accelbench run` that measure only the given points, each once."""

CONFINED = """
import os, pathlib, socket
from accelbench import Task, Verification, Work, benchmark

def observe():
    status = pathlib.Path("/proc/self/status").read_text().splitlines()
    facts = dict(line.split(":\\t", 1) for line in status if line.startswith(("Cap", "NoNewPrivs")))
    rights = {facts[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    writable = [place for place in ("/", "/accelbench", "/opt/venv") if os.access(place, os.W_OK)]
    return f"{' '.join(sorted(rights))}, no new {facts['NoNewPrivs']}, {socket.if_nameindex()}, writable {writable}"

@benchmark("confined", devices=("cpu",), axes={"way": ("only",)}, metric="time")
def confined(point):
    \"\"\"Verify that this process has no capabilities, no network and a read-only root.\"\"\"
    def verify():
        found, expected = observe(), "0000000000000000, no new 1, [(1, 'lo')], writable []"
        return Verification(passed=found == expected, method="rights of the process", expected=expected, found=found)
    return Task(run=lambda: None, verify=verify, work=Work())
"""
"""Benchmark that is measured only in a confined container, and otherwise fails with the observed rights."""

SHORT_RECORDS = {(benchmark, "measured") for benchmark in ("stream", "matmul")}

CALLER = pwd.getpwnam("nobody")
"""Unprivileged user without a home who runs the measurements."""

Finished = subprocess.CompletedProcess[str]


def run(
    *command: str | Path, check: bool = True, cwd: str | Path | None = None, env: dict[str, str] | None = None
) -> Finished:
    """Run a command; raise AssertionError with its output if it fails."""
    words = list(map(str, command))
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", cwd=cwd, env=env)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def as_caller(*command: str | Path) -> tuple[str | Path, ...]:
    return ("setpriv", f"--reuid={CALLER.pw_uid}", f"--regid={CALLER.pw_gid}", "--clear-groups", *command)


class Checkout:
    """Copy of the project owned by `CALLER`, used to build and measure."""

    def __init__(self, path: Path, variables: dict[str, str]) -> None:
        self.path, self.variables = path, variables

    def make(self, *words: str, check: bool = True, **variables: str) -> Finished:
        command = ("make", "--no-print-directory", *words)
        return run(*as_caller(*command), check=check, cwd=self.path, env=self.variables | variables)

    def bench(self, *words: str, check: bool = True, **variables: str) -> Finished:
        self.runs()
        return self.make("container-bench", "DEVICE=cpu", *words, check=check, **variables)

    def runs(self) -> Path:
        """Create the results folder, owned by `CALLER`, and return it."""
        path = self.path / "runs"
        path.mkdir(exist_ok=True)
        (path / "short.toml").write_text(SHORT)
        (path / "confined.py").write_text(CONFINED)
        shutil.chown(path, CALLER.pw_uid, CALLER.pw_gid)
        return path

    def only_run(self) -> Path:
        """Move the only run out of the results folder, and return its new path."""
        (found,) = (folder for folder in self.runs().iterdir() if (folder / "run.json").is_file())
        return found.rename(Path(tempfile.mkdtemp(dir=self.path.parent)) / found.name)


def measured(found: Path) -> set[tuple[object, object]]:
    return {(record["point"]["benchmark"], record["status"]) for record in records(found)}


def records(found: Path) -> list[dict[str, Any]]:
    """Return the run's records; an empty list before the first one."""
    return written(found) if (found / "records.jsonl").is_file() else []


def environment_of(found: Path) -> dict[str, dict[str, object]]:
    return dict(info(found)["environment"])


def owners(found: Path) -> set[tuple[int, int]]:
    return {(path.stat().st_uid, path.stat().st_gid) for path in (found, *found.rglob("*"))}


@pytest.fixture(scope="session")
def workshop() -> Iterator[Path]:
    """Temporary folder on disk with space for images; /tmp may be in memory."""
    with tempfile.TemporaryDirectory(prefix="accelbench-", dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


@pytest.fixture(scope="session")
def variables(workshop: Path) -> dict[str, str]:
    """Environment variables for all engines."""
    home = workshop / "home"
    home.mkdir()
    os.chown(home, CALLER.pw_uid, CALLER.pw_gid)
    return os.environ | {
        "PATH": ENGINES_PATH,
        "BASE": BASE,
        "HOME": str(home),
        "DOCKER_HOST": os.environ.get("DOCKER_HOST", f"unix://{workshop}/docker.sock"),
        "COLUMNS": "100",
        "MAKEFLAGS": "",  # independent of the flags of `make container-test`
    }


@pytest.fixture(scope="session")
def docker(workshop: Path, variables: dict[str, str]) -> Iterator[dict[str, str]]:
    """Environment variables for a temporary Docker daemon, or for the daemon in DOCKER_HOST."""
    with ExitStack() as stack:
        if "DOCKER_HOST" not in os.environ:
            stack.enter_context(docker_daemon(workshop, variables))
        if run("docker", "image", "inspect", BASE, check=False, env=variables).returncode:
            run(ROOT / "containers/ci/base.sh", workshop / "base.tar", env=variables)
            run("docker", "import", workshop / "base.tar", BASE, env=variables)
        yield variables


@contextmanager
def docker_daemon(workshop: Path, variables: dict[str, str]) -> Iterator[None]:
    """Run a Docker daemon with all its folders in the workshop."""
    folders = {"data-root": "docker", "exec-root": "exec", "pidfile": "docker.pid"}
    options = (f"--{option}={workshop / name}" for option, name in folders.items())
    log = workshop / "dockerd.log"
    with log.open("w") as output:
        daemon = subprocess.Popen(
            ["dockerd", f"--host={variables['DOCKER_HOST']}", *options],
            stdout=output,
            stderr=output,
            env=variables,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + ENGINES_S
        while run("docker", "info", check=False, env=variables).returncode:
            if daemon.poll() is not None or time.monotonic() > deadline:
                not_tested("docker", f"its daemon does not start: {log.read_text()[-300:]}")
            time.sleep(0.5)
        (workshop / "docker.sock").chmod(0o666)  # like membership in the docker group
        yield
    finally:
        daemon.terminate()
        daemon.wait()


@pytest.fixture(scope="session")
def checkout(workshop: Path, variables: dict[str, str]) -> Checkout:
    path = workshop / "checkout"
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=ROOT).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, path / name, follow_symlinks=False)
    for place in (path, *path.rglob("*")):
        os.chown(place, CALLER.pw_uid, CALLER.pw_gid, follow_symlinks=False)
    return Checkout(path, variables)


@pytest.fixture(scope="session")
def cpu_image(docker: dict[str, str], checkout: Checkout) -> str:
    """ID of the image that `make image DEVICE=cpu` built."""
    checkout.make("image", "DEVICE=cpu", "ENGINE=docker")
    return run("docker", "image", "inspect", "--format", "{{.Id}}", "accelbench:cpu", env=docker).stdout.strip()


@pytest.fixture(scope="session")
def sif(cpu_image: str, docker: dict[str, str], checkout: Checkout) -> Path:
    """Path of the SIF that `make sif DEVICE=cpu` built from the cpu image."""
    run("make", "sif", "DEVICE=cpu", "ENGINE=docker", cwd=checkout.path, env=docker)
    return checkout.path / "containers" / "build" / "accelbench-cpu.sif"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as running:
        yield running


@pytest.fixture
def open_folder(workshop: Path) -> Path:
    """Empty folder readable by `CALLER`, unlike pytest's temporary folders."""
    folder = Path(tempfile.mkdtemp(dir=workshop))
    folder.chmod(0o755)
    return folder
