"""The Colab notebook, executed on the CPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from tests.conftest import ROOT
from tests.fixtures.report_records import training
from tests.fixtures.report_runs import make_run

pytestmark = pytest.mark.container

NOTEBOOK = ROOT / "containers" / "colab.ipynb"
SUITE = """
description = "short"
max_seconds = 0.2
rounds = 1
[[benchmark]]
name = "nqueens"
axes = { queens = [8], impl = ["tuned"], cores = ["one"] }
"""


ON_A_TPU = """
description = "short"
max_seconds = 0.2
rounds = 1
[[benchmark]]
name = "collectives"
axes = { op = ["all-reduce", "all-to-all"], bytes = [8] }
[[benchmark]]
name = "transfer"
axes = { memory = ["pageable"], kib = [4] }
"""
CPU_AS_TPU = """
from accelbench.kernels.lib import xla
from accelbench.workloads.training import keras_model

first_device = xla._first_device
xla._first_device = lambda jax, kind: first_device(jax, "cpu")
xla.Xla.free_bytes = lambda _: 1 << 30
xla.Xla.first_devices = lambda here, count: here.jax.devices("cpu")[:count]
keras_model._default_device = lambda backend: "tpu"
"""
"""Benchmark file that makes JAX's devices of the CPU the cores of a TPU."""
LSTM = "bilstm-har --param units=2 --param layers=1 --param epochs=1 --param batch=64 --param windows=1280"


@pytest.fixture
def notebook() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


def execute(notebook: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    """Execute all cells in the folder except shell commands, and return their printed output."""
    notebook.cells = [cell for cell in notebook.cells if not cell.source.startswith("!")]
    settings = {"ACCELBENCH_SOURCE": str(ROOT), "ACCELBENCH_DEVICE": "cpu", "ACCELBENCH_OUT": str(folder / "runs")}
    settings["ACCELBENCH_TRACE"] = ""
    for name, value in (settings | variables).items():
        monkeypatch.setenv(name, value)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3", resources=resources).execute()
    return "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))


def install_cell(notebook: Any) -> str:
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and "pip" in cell.source]
    return str(cell.source)


def test_the_notebook_has_no_stored_outputs(notebook: Any) -> None:
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_the_notebook_measures_displays_the_report_and_archives_the_run(
    notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = tmp_path / "short.toml"
    suite.write_text(SUITE)
    make_run(tmp_path / "runs" / "other", [training("cpu", "float32", 0.01)], run_id="another-machine", device="cpu")
    other = shutil.make_archive(str(tmp_path / "other"), "zip", tmp_path / "runs", "other")
    printed = execute(notebook, tmp_path, monkeypatch, ACCELBENCH_SUITE=str(suite), ACCELBENCH_OTHER=other)
    assert str(ROOT) in printed
    assert "nothing was measured" not in printed
    assert "0 of 0" in printed
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert ["another-machine" in frame for frame in shown] == [False, True]
    assert "nqueens" in shown[0]
    assert f"{tmp_path}/runs/colab-short.zip" in printed
    with zipfile.ZipFile(tmp_path / "runs" / "colab-short.zip") as archive:
        names = set(archive.namelist())
        records = [*map(json.loads, archive.read("colab-short/records.jsonl").splitlines())]
    assert {"colab-short/run.json", "colab-short/report.html", "colab-short/records.csv"} <= names
    assert records
    assert all(record["verification"]["passed"] for record in records)


@pytest.mark.exhaustive
def test_the_notebook_measures_and_trains_by_jax_on_a_simulated_tpu_runtime(
    notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "short.toml").write_text(ON_A_TPU)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "cpu_as_tpu.py").write_text(CPU_AS_TPU)
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    runtime = {"COLAB_RELEASE_TAG": "release", "TPU_ACCELERATOR_TYPE": "v5e-1", "TPU_NAME": "no-libtpu-is-needed"}
    own = {"ACCELBENCH_PATH": str(tmp_path / "own"), "ACCELBENCH_SUITE": str(tmp_path / "short.toml")}
    asked = {"ACCELBENCH_DEVICE": "auto", "ACCELBENCH_TRACE": LSTM, "JAX_PLATFORMS": "cpu"}
    printed = execute(notebook, tmp_path, monkeypatch, **runtime, **own, **asked)
    stored = (tmp_path / "runs").glob("*/records.jsonl")
    records = [json.loads(line) for file in stored for line in file.read_text().splitlines()]
    found = {(each["point"]["benchmark"], each["point"]["backend"]) for each in records}
    assert found == {("collectives", None), ("transfer", None), ("bilstm-har", "jax")}, printed
    assert {(each["status"], each["point"]["device"]) for each in records} == {("measured", "tpu")}, printed
    assert all(each["verification"]["passed"] for each in records)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"ACCELBENCH_SUITE": "no-such"}, "no-such"),
        ({"ACCELBENCH_DEVICE": "tpu"}, "TPU"),
        ({"ACCELBENCH_SOURCE": "/usr"}, "set SOURCE"),
    ],
)
def test_an_error_stops_the_notebook_with_its_reason(
    notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    with pytest.raises(nbclient.exceptions.CellExecutionError) as stopped:
        execute(notebook, tmp_path, monkeypatch, **variables)
    assert message in str(stopped.value)
    assert "Traceback" not in stopped.value.traceback


def write_wheel(folder: Path, name: str, requires: str = "") -> str:
    """Write an empty package as a wheel, and return its requirement."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD")))
    return f"{name} @ {wheel.as_uri()}"


def test_missing_packages_are_added_and_installed_ones_keep_their_versions(notebook: Any, tmp_path: Path) -> None:
    # A separate environment that sees this environment's packages, so that pip does not change this one.
    venv.create(tmp_path / "runtime", with_pip=True)
    python = tmp_path / "runtime" / "bin" / "python"
    (site,) = (tmp_path / "runtime").glob("lib/python*/site-packages")
    packages = Path(pytest.__file__).parents[1]
    (site / "there.pth").write_text(f"{packages}\n")
    kind = write_wheel(tmp_path, "kind")
    greedy = write_wheel(tmp_path, "greedy", "Requires-Dist: numpy<1\n")
    dependencies = ["numpy>=1", kind, greedy]
    (tmp_path / "pyproject.toml").write_text(
        f"[project]\ndependencies = {json.dumps(dependencies)}\n"
        '[project.optional-dependencies]\ntrace = []\ngpu = ["accelbench[trace]"]\n'
    )
    cell = (
        f"import re, shutil, subprocess, sys\nfrom pathlib import Path\nPROJECT = Path.cwd()\n{install_cell(notebook)}"
    )
    process = subprocess.run(
        [python, "-c", cell], cwd=tmp_path, env=os.environ | {"PIP_NO_INDEX": "1"}, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    assert "greedy @" in process.stdout
    assert "1 of 2" in process.stdout
    assert [found.name for found in site.glob("kind*")] == ["kind-1.0.dist-info"]
    assert not list(site.glob("greedy*")) + list(site.glob("numpy*"))
    assert sys.prefix not in str(site)
