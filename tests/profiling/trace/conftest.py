"""Fixtures with real traces, captured once for all tests and all pytest workers."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from accelbench.profiling.records.trace import Capture
from tests.fixtures.warm import Forked, result
from tests.requirements import BACKENDS

OUTCOMES = "outcomes.json"


@dataclass(frozen=True)
class Traced:
    """Traces of one backend."""

    backend: str
    folder: Path
    outcomes: dict[str, Capture]


def traced(backend: str, factory: pytest.TempPathFactory) -> Traced:
    """Return a copy of a backend's traces, which the first pytest worker captures for all workers."""
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
    """Capture the traces to a folder, and then write the outcome of each."""
    outcomes = result(Forked(backend, "tests.fixtures.train_traced", backend, str(folder), TQDM_DISABLE="1"))
    (folder / OUTCOMES).write_text(json.dumps(outcomes), encoding="utf-8")


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
    """Traces of each backend."""
    found: Traced = request.getfixturevalue(f"{request.param}_traces")
    return found


@pytest.fixture(params=["tensorflow", "jax"])
def xplane_traces(request: pytest.FixtureRequest) -> Traced:
    """Traces of each backend that writes xplane.pb."""
    found: Traced = request.getfixturevalue(f"{request.param}_traces")
    return found
