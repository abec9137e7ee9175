"""Tests of `accelbench pair` with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import venv
from pathlib import Path

import psutil
import pytest

from accelbench.__main__ import main
from accelbench.errors import UserError
from accelbench.pair.side import PairSide, common_name
from accelbench.profiling.records.point import Point
from tests.conftest import Run, command, environment, info, records
from tests.fixtures.processes import children


def test_a_point_has_one_name_on_both_sides_without_their_settings() -> None:
    a, b = PairSide.parse("A", ".", ["impl=numba"]), PairSide.parse("B", ".", ["backend=torch"])
    of_a = Point("matmul", "cpu", {"impl": "numba", "n": 8}, "jax")
    of_b = Point("matmul", "cpu", {"impl": "vendor", "n": 8}, "torch")
    assert common_name(of_a, (a, b)) == common_name(of_b, (a, b)) == "matmul cpu n=8"


def test_a_setting_of_one_benchmark_keeps_the_names_of_others() -> None:
    side = PairSide.parse("A", ".", ["matmul.n=8"])
    assert common_name(Point("matmul", "cpu", {"n": 8}), [side]) == "matmul cpu"
    assert common_name(Point("gemm", "cpu", {"n": 8}), [side]) == "gemm cpu n=8"


def test_a_variable_may_contain_any_text() -> None:
    assert PairSide.parse("B", ".", ["env:FLAGS=a=1,b=2", "env:EMPTY="]).variables == {"FLAGS": "a=1,b=2", "EMPTY": ""}


def test_the_python_of_an_environment_is_started_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/usr/bin/env")
    assert PairSide.parse("A", str(tmp_path), []).command("cpu")[0] == str(tmp_path / "bin" / "python")


def test_an_image_is_started_by_its_engine_with_the_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for engine in ("podman", "apptainer"):
        (tmp_path / engine).touch(0o755)
    (tmp_path / "new.sif").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ACCELBENCH_DATA", str(tmp_path))
    oci = PairSide.parse("A", "podman:registry/accelbench:gpu", ["env:X=1"]).command("gpu")
    assert oci[:2] == [str(tmp_path / "podman"), "run"]
    assert oci[-4:] == ["registry/accelbench:gpu", "python", "-m", "accelbench.pair.server"]
    assert {"X=1", "ACCELBENCH_DATA=/data", f"{tmp_path}:/data:ro"} <= set(oci)
    assert "nvidia.com/gpu=all" in oci
    sif = PairSide.parse("B", str(tmp_path / "new.sif"), ["env:X=1"]).command("gpu")
    assert sif[:2] == [str(tmp_path / "apptainer"), "exec"]
    assert "--nv" in sif
    assert sif[sif.index("--env") + 1] == "X=1"


@pytest.mark.parametrize(
    ("word", "settings", "message"),
    [
        ("no-such-python", [], "no-such-python"),
        ("tests", [], "has no bin/python"),
        ("missing.sif", [], "missing.sif"),
        (".", ["impl"], "env:NAME=VALUE"),
        (".", ["env:=1"], "backend=NAME"),
        (".", ["impl="], "backend=NAME"),
        (".", ["impl=numba,vendor"], "--param"),
    ],
)
def test_an_invalid_side_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, settings: list[str], message: str
) -> None:
    (tmp_path / "tests").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        PairSide.parse("B", word, settings)
    assert message in str(error.value)
    assert "B" in str(error.value) or "--b" in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([".", ".", "behav"], "A (.): unknown benchmark 'behav'"),
        ([".", ".", "behave", "--b", "colour=red"], "'colour'"),
        ([".", ".", "behave", "misbehave", "--a", "us=100", "--param", "how=wel"], "how=wel"),
        ([".", ".", "behave", "--within", "much"], "--within 'much'"),
        ([".", ".", "behave", "--within", "0%"], "--within '0%'"),
        ([".", ".", "behave", "--fail-on", "3%"], "slower:5%"),
        ([".", "."], "BENCHMARK"),
    ],
)
def test_a_usage_error_is_one_line_and_status_2(
    accelbench: Run, tmp_path: Path, arguments: list[str], message: str
) -> None:
    process = accelbench("pair", *arguments, "--out", "out")
    assert process.returncode == 2
    assert message in process.stderr
    assert process.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_side_without_accelbench_is_an_error_in_one_line(accelbench: Run, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    process = accelbench("pair", ".", "bare", "behave")
    assert process.returncode == 2
    assert "B (bare)" in process.stderr
    assert "No module named" in process.stderr
    assert process.stderr.count("\n") == 1


@pytest.mark.slow
def test_sides_without_a_common_point_are_an_error(accelbench: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    source = (Path(environment()["ACCELBENCH_PATH"]) / "labour.py").read_text()
    (other / "labour.py").write_text(source.replace('axes={"extra"', 'axes={"more": (1,), "extra"'))
    process = accelbench("pair", ".", ".", "labour", "--b", f"env:ACCELBENCH_PATH={other}")
    assert process.returncode == 2
    assert "labour cpu extra=0" in process.stderr
    assert "labour cpu more=1 extra=0" in process.stderr


@pytest.mark.alone
def test_a_slower_side_is_detected_and_both_sides_are_stored_runs(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(
        *("pair", ".", ".", "behave", "--b", "env:TEST_SLOWDOWN=2", "--within", "60%"),
        *("--fail-on", "slower:10%", "--out", "out"),
    )
    assert process.returncode == 3, process.stdout + process.stderr
    assert "slower" in process.stdout
    assert "regression: behave cpu us=200: " in process.stdout
    answer = json.loads((tmp_path / "out" / "pair.json").read_text())
    (point,) = answer["points"]
    assert (answer["status"], point["verdict"], point["reason"]) == ("finished", "slower", None)
    assert len(point["ratios"]) >= 8
    for letter in "AB":
        side = tmp_path / "out" / letter
        assert info(side)["status"] == "finished"
        assert len(records(side)) == len(point["ratios"]) + 1
        assert {record["point"]["seed"] for record in records(side)} == {1}
        assert accelbench("report", "--quiet", side).returncode == 0
    again = accelbench("pair", ".", ".", "behave", "--out", "out")
    assert (again.returncode, "out is not empty" in again.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("wrong", "B failed"),
        ("crash", "SIGSEGV"),
        ("skip", "B skipped"),
    ],
)
def test_a_side_without_a_result_is_printed_with_its_reason_and_status_1(
    accelbench: Run, tmp_path: Path, how: str, reason: str
) -> None:
    process = accelbench(
        *("pair", ".", ".", "misbehave", "--a", "how=well", "--b", f"how={how}", "--fail-on", "slower:5%"),
        *("--out", "out"),
    )
    assert process.returncode == 1, process.stdout + process.stderr
    assert reason in process.stdout
    assert "1 not measured" in process.stdout
    (record,) = records(tmp_path / "out" / "B")
    assert record["status"] in ("failed", "skipped")


@pytest.mark.slow
def test_ctrl_c_prints_the_results_so_far_and_leaves_no_process(tmp_path: Path) -> None:
    words = command("pair", ".", ".", "behave", "--out", "out", "--within", "0.01%")
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "not counted" in line:
                break
        started = children(process.pid, recursive=True)
        os.kill(process.pid, signal.SIGINT)
        printed, errors = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "1 inconclusive" in printed
    assert "accelbench: interrupted" in errors
    assert json.loads((tmp_path / "out" / "pair.json").read_text())["status"] == "interrupted"
    assert info(tmp_path / "out" / "A")["status"] == "interrupted"
    _, alive = psutil.wait_procs(started, timeout=60)
    assert started
    assert not alive


SCRIPT = """
import os, time
from accelbench import steps

for batch in steps(range(100_000)):
    time.sleep(float(os.environ["STEP_S"]))
"""


@pytest.mark.slow
def test_the_steps_of_a_script_are_compared(accelbench: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    settings = ("--a", "env:STEP_S=0.01", "--b", "env:STEP_S=0.02", "--within", "20%", "--fail-on", "slower:10%")
    done = accelbench("pair", ".", ".", "--script", "python train.py", *settings, "--out", "out")
    assert done.returncode == 3, done.stderr
    result = json.loads((tmp_path / "out/pair.json").read_text(encoding="utf-8"))
    (point,) = result["points"]
    assert (point["point"], point["verdict"]) == ("script:train.py cpu", "slower")
    assert 0.4 < point["speed"]["value"] < 0.65
    for side in "AB":
        assert info(tmp_path / "out" / side)["status"] == "finished"
        assert {record["status"] for record in records(tmp_path / "out" / side)} == {"measured"}
    assert not [found for found in psutil.process_iter(["cmdline"]) if "train.py" in (found.info["cmdline"] or ())]


def test_a_script_without_steps_is_not_measured(accelbench: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('{}')\n", encoding="utf-8")
    done = accelbench("pair", ".", ".", "--script", "python3 train.py", "--out", "out")
    assert done.returncode == 1
    (point,) = json.loads((tmp_path / "out/pair.json").read_text(encoding="utf-8"))["points"]
    assert point["verdict"] == "not measured"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["saxpy", "--script", "python train.py"],
        ["--script", ""],
        ["--script", "train.py"],
        ["--script", "python"],
        ["--script", "python 'train.py"],
        ["--script", "python train.py", "--b", "impl=numba"],
        ["--script", "python train.py", "--backend", "jax"],
    ],
)
def test_invalid_scripts_leave_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["pair", ".", ".", *words]) == 2
    assert not (tmp_path / "runs").exists()
