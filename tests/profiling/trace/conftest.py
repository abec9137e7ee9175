"""Real traces, captured once for all tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from profiling.records.trace import Capture
from tests.conftest import ROOT


@dataclass(frozen=True)
class Traced:
    """The traces that one backend's process captured."""

    backend: str
    folder: Path
    outcomes: dict[str, Capture]


def train_traced(backend: str, folder: Path) -> Traced:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "fixtures" / "train_traced.py"), backend, str(folder)],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = json.loads(done.stdout.splitlines()[-1])
    return Traced(backend, folder, {name: Capture(**outcome) for name, outcome in outcomes.items()})


@pytest.fixture(scope="session")
def tensorflow_traces(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    pytest.importorskip("tensorflow")
    return train_traced("tensorflow", tmp_path_factory.mktemp("tensorflow"))


@pytest.fixture(scope="session")
def jax_traces(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    pytest.importorskip("jax")
    return train_traced("jax", tmp_path_factory.mktemp("jax"))


@pytest.fixture(scope="session")
def torch_traces(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    pytest.importorskip("torch")
    return train_traced("torch", tmp_path_factory.mktemp("torch"))


@pytest.fixture(params=["tensorflow", "jax", pytest.param("torch", marks=pytest.mark.slow)])
def traces(request: pytest.FixtureRequest) -> Traced:
    """The traces of each backend in turn."""
    found: Traced = request.getfixturevalue(f"{request.param}_traces")
    return found


@pytest.fixture(params=["tensorflow", "jax"])
def xplane_traces(request: pytest.FixtureRequest) -> Traced:
    """The traces of each backend that writes xplane.pb."""
    found: Traced = request.getfixturevalue(f"{request.param}_traces")
    return found
