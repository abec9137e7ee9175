"""Tests of the cell magic `%%diagnose` in a real kernel."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from accelbench.notebook import parse_options
from tests.conftest import records

CELL = """%%diagnose --seconds 1
import time
from accelbench import steps

def load(number):
    time.sleep(0.01)
    return number

total = 0
for batch in steps(load(number) for number in range(800)):
    total += batch + sum(range(1000))
"""


@pytest.mark.slow
def test_a_cell_is_diagnosed_and_its_variables_remain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    cells = ["%load_ext accelbench", CELL, "print(total)", "%%diagnose\nraise KeyError('mine')", "print(total)"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(
        notebook, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [cell["outputs"] for cell in notebook["cells"]]
    expected = f"{sum(range(800)) + 800 * sum(range(1000))}\n"
    assert [outputs[2][0]["text"], outputs[4][0]["text"]] == [expected, expected]
    assert [each["ename"] for each in outputs[3] if each["output_type"] == "error"] == ["KeyError"]
    first, second = (records(run)[0] for run in sorted((tmp_path / "runs").glob("*/")))
    assert (first["status"], second["status"]) == ("measured", "failed")
    script = first["profile"]["script"]
    assert script["steps_by"] == "marks"
    assert script["waiting"] > 0.5
    assert first["profile"]["bottleneck"]["prefetched"]["speedup_low"] > 1.5
    assert (script["waiting_lines"][0]["file"], script["waiting_lines"][0]["function"]) == ("cell.py", "load")


@pytest.mark.parametrize(
    "line", ["--seconds", "--seconds x", "--seconds 0", "--seconds nan", "--second 2", "train.py", "'open"]
)
def test_invalid_options_are_refused(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - argparse, shlex and accelbench have messages of their own
        parse_options(line)


def test_options() -> None:
    assert parse_options("") == (10.0, True)
    assert parse_options("--seconds 2 --no-experiments") == (2.0, False)
