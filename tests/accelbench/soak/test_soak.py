"""Tests of `accelbench soak` as a process: exit status, files, signals."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from accelbench.soak.answer import SoakAnswer
from tests.conftest import ROOT, command, environment
from tests.fixtures.processes import living, marked, wait_for

pytestmark = pytest.mark.slow

DOUBLING = '''
import numpy as np
from accelbench import Point, Task, Verification, Work, benchmark
from accelbench.profiling.benchmark import Output

@benchmark("doubling", devices=("cpu", "gpu"), axes={"n": (5000,)}, metric="items")
def doubling(point: Point) -> Task:
    """Twice an array."""
    x = point.rng().random(point["n"])
    if point.device == "gpu":
        from cupy import asarray
        x = asarray(x)
    y = np.empty_like(x)
    def run(stream: int = 0) -> None:
        np.multiply(x, 2, out=y)
    def verify() -> Verification:
        run()
        return Verification(passed=bool((y == x + x).all()), method="sum")
    return Task(run, verify, Work(items=len(x)), output=Output(lambda: (y,), lambda: y.fill(-1)))
'''


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "doubling.py").write_text(DOUBLING, encoding="utf-8")
    (tmp_path / "suite.toml").write_text('description = "x"\n[[benchmark]]\nname = "doubling"\n', encoding="utf-8")
    return command("soak", "--suite", "suite.toml", "--out", "out")


def start(folder: Path, words: list[str], **changes: str) -> subprocess.Popen[bytes]:
    variables = environment(ACCELBENCH_PATH=str(folder / "own"), CUDA_VISIBLE_DEVICES="", **marked(folder), **changes)
    return subprocess.Popen(words, cwd=folder, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def result(folder: Path, process: subprocess.Popen[bytes]) -> SoakAnswer:
    """Return the answer of an ended soak that left no process and only its two files."""
    _, errors = process.communicate(timeout=200)
    assert (folder / "out" / "soak.json").exists(), errors.decode()
    wait_for(lambda: not living(folder))
    assert {path.name for path in (folder / "out").iterdir()} == {"soak.json", "soak.html"}
    found = SoakAnswer.model_validate_json((folder / "out" / "soak.json").read_text(encoding="utf-8"))
    assert process.returncode == found.exit_status
    return found


def test_an_injected_error_is_found_with_its_cpu_while_a_gpu_is_loaded(tmp_path: Path, words: list[str]) -> None:
    """The GPU is simulated, with NumPy in place of CuPy."""
    vendor = {"ACME_GPU": "1", "PYTHONPATH": str(ROOT / "tests" / "fixtures" / "other_vendor")}
    options = ["--minutes", "0.01", "--inject-error", "--node", "n1"]
    found = result(tmp_path, start(tmp_path, [*words, *options], **vendor))
    assert (found.verdict, found.exit_status, found.interrupted, found.node) == ("wrong", 1, False, "n1")
    (wrong,) = found.wrong
    assert (wrong.unit, wrong.injected, wrong.flipped, wrong.elements) == (found.units[0].name, True, 1, 1)
    assert [unit.wrong_passes for unit in found.units] == [1] + [0] * (len(found.units) - 1)
    assert [unit.name.split()[0] for unit in found.units][-2:] == ["CPU", "GPU"]
    assert [(unit.name, unit.problem, unit.skipped) for unit in found.units if not unit.passes] == []
    assert {each.device for each in found.series if each.kind == "throughput"} == {"CPU", "GPU 0"}


def test_a_signal_ends_the_load_with_the_answer_so_far(tmp_path: Path, words: list[str]) -> None:
    process = start(tmp_path, [*words, "--minutes", "600", "--device", "cpu"])
    assert process.stderr is not None
    while b"load on" not in process.stderr.readline():
        assert process.poll() is None
    units = [each for each in living(tmp_path) if "accelbench.soak.unit_process" in each.cmdline()]
    units[0].kill()
    while b"SIGKILL" not in (line := process.stderr.readline()):
        assert line
    process.send_signal(signal.SIGTERM)
    found = result(tmp_path, process)
    assert (found.verdict, found.exit_status, found.interrupted) == ("unknown", 2, True)
    (killed,) = [unit for unit in found.units if unit.problem]
    assert "SIGKILL" in killed.problem
    assert all(unit.passes for unit in found.units if unit != killed)
