"""The notebook for Colab, executed as Colab does, on this machine's CPU."""

from __future__ import annotations

import json
import os
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

pytestmark = pytest.mark.container

NOTEBOOK = ROOT / "containers" / "colab.ipynb"
SUITE = """
description = "short"
max_seconds = 0.3
[[benchmark]]
name = "nqueens"
axes = { queens = [8], impl = ["tuned"], cores = ["one"] }
"""


@pytest.fixture
def notebook() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


def execute(notebook: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    """Run all cells in that folder; what they printed."""
    settings = {"ACCELBENCH_SOURCE": str(ROOT), "ACCELBENCH_DEVICE": "cpu", "ACCELBENCH_OUT": str(folder / "runs")}
    for name, value in (settings | variables).items():
        monkeypatch.setenv(name, value)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3", resources=resources).execute()
    return "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))


def install_cell(notebook: Any) -> str:
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and "pip" in cell.source]
    return str(cell.source)


def test_it_is_stored_without_outputs(notebook: Any) -> None:
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_it_measures_shows_the_report_and_packs_the_run(
    notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = tmp_path / "short.toml"
    suite.write_text(SUITE)
    printed = execute(notebook, tmp_path, monkeypatch, ACCELBENCH_SUITE=str(suite))
    assert f"accelbench is in {ROOT}" in printed
    assert "added 0 of 0 missing packages" in printed
    assert "1 of 1 points measured and verified" in printed
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert len(shown) == 1
    assert "nqueens" in shown[0]
    assert f"the run is in {tmp_path}/runs/colab-short.zip" in printed
    with zipfile.ZipFile(tmp_path / "runs" / "colab-short.zip") as archive:
        names = set(archive.namelist())
        (record,) = map(json.loads, archive.read("colab-short/records.jsonl").splitlines())
    assert {"colab-short/run.json", "colab-short/report.html", "colab-short/records.csv"} <= names
    assert record["verification"]["passed"]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"ACCELBENCH_SUITE": "no-such"}, "no suite is called 'no-such'"),
        ({"ACCELBENCH_DEVICE": "tpu"}, "no TPU"),
        ({"ACCELBENCH_SOURCE": "/usr"}, "accelbench is not in /usr: set SOURCE"),
    ],
)
def test_what_is_wrong_stops_the_notebook_with_the_reason(
    notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    with pytest.raises(nbclient.exceptions.CellExecutionError) as stopped:
        execute(notebook, tmp_path, monkeypatch, **variables)
    assert message in str(stopped.value)


def write_wheel(folder: Path, name: str, requires: str = "") -> str:
    """The requirement of an empty package, as a wheel."""
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


def test_what_is_missing_is_added_and_what_is_there_keeps_its_version(notebook: Any, tmp_path: Path) -> None:
    # A runtime with this environment's packages, into which pip can install without changing this environment.
    venv.create(tmp_path / "runtime", with_pip=True)
    python = tmp_path / "runtime" / "bin" / "python"
    (site,) = (tmp_path / "runtime").glob("lib/python*/site-packages")
    theirs = Path(pytest.__file__).parents[1]
    (site / "there.pth").write_text(f"{theirs}\n")
    kind = write_wheel(tmp_path, "kind")
    greedy = write_wheel(tmp_path, "greedy", "Requires-Dist: numpy<1\n")
    dependencies = ["numpy>=1", kind, greedy]
    (tmp_path / "pyproject.toml").write_text(
        f"[project]\ndependencies = {json.dumps(dependencies)}\n[project.optional-dependencies]\ngpu = []\n"
    )
    cell = f"import shutil, subprocess, sys\nfrom pathlib import Path\nPROJECT = Path.cwd()\n{install_cell(notebook)}"
    process = subprocess.run(
        [python, "-c", cell], cwd=tmp_path, env=os.environ | {"PIP_NO_INDEX": "1"}, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    assert "not installed: greedy @" in process.stdout
    assert "added 1 of 2 missing packages" in process.stdout
    assert [found.name for found in site.glob("kind*")] == ["kind-1.0.dist-info"]
    assert not list(site.glob("greedy*")) + list(site.glob("numpy*"))
    assert sys.prefix not in str(site)
