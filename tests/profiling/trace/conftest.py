"""Real traces, captured once for all tests, whichever of pytest's processes they run in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from accelbench.profiling.records.trace import Capture
from tests.conftest import ROOT
from tests.requirements import BACKENDS

OUTCOMES = "outcomes.json"


@dataclass(frozen=True)
class Traced:
    """The traces that one backend's process captured."""

    backend: str
    folder: Path
    outcomes: dict[str, Capture]


def traced(backend: str, factory: pytest.TempPathFactory) -> Traced:
    """Return a copy of that backend's traces; the first process of pytest that asks for them captures them for all."""
    own = factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / f"traces-of-{backend}"
    with FileLock(shared.with_suffix(".lock")):
        if not (shared / OUTCOMES).exists():
            shared.mkdir()
            train_traced(backend, shared)
    folder = own / backend
    shutil.copytree(shared, folder)
    outcomes = json.loads((folder / OUTCOMES).read_text(encoding="utf-8"))
    return Traced(backend, folder, {name: Capture(**outcome) for name, outcome in outcomes.items()})


def train_traced(backend: str, folder: Path) -> None:
    """Capture the traces in that folder, and write last what became of each."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "fixtures" / "train_traced.py"), backend, str(folder)],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (folder / OUTCOMES).write_text(done.stdout.splitlines()[-1], encoding="utf-8")


@pytest.fixture(scope="session")
def tensorflow_traces(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    return traced("tensorflow", tmp_path_factory)


@pytest.fixture(scope="session")
def jax_traces(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    return traced("jax", tmp_path_factory)


@pytest.fixture(scope="session")
def torch_traces(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    return traced("torch", tmp_path_factory)


@pytest.fixture(params=BACKENDS)
def traces(request: pytest.FixtureRequest) -> Traced:
    """The traces of each backend in turn."""
    found: Traced = request.getfixturevalue(f"{request.param}_traces")
    return found


@pytest.fixture(params=["tensorflow", "jax"])
def xplane_traces(request: pytest.FixtureRequest) -> Traced:
    """The traces of each backend that writes xplane.pb."""
    found: Traced = request.getfixturevalue(f"{request.param}_traces")
    return found
