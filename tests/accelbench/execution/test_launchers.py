"""Tests of cluster launchers, which start ranks without options of accelbench."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import command, environment, records

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "launcher"),
    [
        pytest.param("mpirun", MPIRUN, marks=pytest.mark.needs("mpirun")),
        pytest.param("torchrun", TORCHRUN, marks=pytest.mark.needs("torch")),
    ],
)
def test_a_launcher_starts_the_ranks_of_one_run(tmp_path: Path, name: str, launcher: list[str]) -> None:
    arguments = command("run", "together", "--param", "how=well", "--max-seconds", "0.2", "--out", tmp_path / "run")
    process = subprocess.run(
        [*launcher, *arguments],
        env=environment(XDG_STATE_HOME=str(tmp_path)),
        capture_output=True,
        encoding="utf-8",
        timeout=240,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert f"2 ranks of {name}" in process.stdout
    (record,) = records(tmp_path / "run")
    assert (record["status"], record["point"]["params"]["processes"], len(record["ranks"])) == ("measured", 2, 2)
