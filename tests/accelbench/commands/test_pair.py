"""`accelbench pair` as a user runs it: real sides in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import venv
from pathlib import Path

import psutil
import pytest

from accelbench.errors import UserError
from accelbench.pair.side import PairSide, common_name
from accelbench.profiling.records.point import Point
from tests.conftest import Run, command, environment, info, records


def test_the_same_point_has_one_name_on_both_sides_without_what_they_set() -> None:
    a, b = PairSide.parse("A", ".", ["impl=numba"]), PairSide.parse("B", ".", ["backend=torch"])
    of_a = Point("matmul", "cpu", {"impl": "numba", "n": 8}, "jax")
    of_b = Point("matmul", "cpu", {"impl": "vendor", "n": 8}, "torch")
    assert common_name(of_a, (a, b)) == common_name(of_b, (a, b)) == "matmul cpu n=8"


def test_a_setting_of_one_benchmark_leaves_the_others_their_names() -> None:
    side = PairSide.parse("A", ".", ["matmul.n=8"])
    assert common_name(Point("matmul", "cpu", {"n": 8}), [side]) == "matmul cpu"
    assert common_name(Point("gemm", "cpu", {"n": 8}), [side]) == "gemm cpu n=8"


def test_a_variable_is_set_for_the_side_whatever_it_holds() -> None:
    assert PairSide.parse("B", ".", ["env:FLAGS=a=1,b=2", "env:EMPTY="]).variables == {"FLAGS": "a=1,b=2", "EMPTY": ""}


def test_the_python_of_an_environment_is_started_by_its_own_path(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/usr/bin/env")
    assert PairSide.parse("A", str(tmp_path), []).command("cpu")[0] == str(tmp_path / "bin" / "python")


def test_an_image_is_started_by_its_engine_with_the_variables_of_its_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        ("no-such-python", [], "neither '.' (this Python), nor a Python"),
        ("tests", [], "has no bin/python"),
        ("missing.sif", [], "there is no image missing.sif"),
        (".", ["impl"], "write backend=NAME, AXIS=VALUE or env:NAME=VALUE"),
        (".", ["env:=1"], "write backend=NAME"),
        (".", ["impl="], "write backend=NAME"),
        (".", ["impl=numba,vendor"], "a side has one value of an axis"),
    ],
)
def test_a_side_that_means_nothing_is_refused_by_its_name(
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
        ([".", ".", "behav"], "A (.): no benchmark is called 'behav'"),
        ([".", ".", "behave", "--b", "colour=red"], "B (. colour=red): no chosen benchmark has an axis 'colour'"),
        ([".", ".", "behave", "misbehave", "--a", "us=100", "--param", "how=wel"], "how is one of"),
        ([".", ".", "behave", "--within", "much"], "--within 'much' is not understood"),
        ([".", ".", "behave", "--within", "0%"], "--within '0%' is not understood"),
        ([".", ".", "behave", "--fail-on", "3%"], "write it as slower:5%"),
        ([".", "."], "BENCHMARK"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(
    accelbench: Run, tmp_path: Path, arguments: list[str], message: str
) -> None:
    process = accelbench("pair", *arguments, "--out", "out")
    assert process.returncode == 2
    assert message in process.stderr
    assert process.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_side_without_the_packages_is_refused_in_one_line(accelbench: Run, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    process = accelbench("pair", ".", "bare", "behave")
    assert process.returncode == 2
    assert "B (bare) cannot measure: it needs accelbench of this version and its packages" in process.stderr
    assert "No module named" in process.stderr
    assert process.stderr.count("\n") == 1


@pytest.mark.slow
def test_sides_without_a_common_point_are_refused(accelbench: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    source = (Path(environment()["ACCELBENCH_PATH"]) / "labour.py").read_text()
    (other / "labour.py").write_text(source.replace('axes={"extra"', 'axes={"more": (1,), "extra"'))
    process = accelbench("pair", ".", ".", "labour", "--b", f"env:ACCELBENCH_PATH={other}")
    assert process.returncode == 2
    assert "no point in common: A has labour cpu extra=0; B has labour cpu more=1 extra=0" in process.stderr


@pytest.mark.alone
def test_a_slower_side_is_found_and_both_are_runs_that_open(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(
        *("pair", ".", ".", "behave", "--b", "env:TEST_SLOWDOWN=2", "--within", "60%"),
        *("--fail-on", "slower:10%", "--out", "out"),
    )
    assert process.returncode == 3, process.stdout + process.stderr
    assert "B is slower than A by" in process.stdout
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
        ("wrong", "B failed: wrong answer"),
        ("crash", "B failed: the worker was killed by SIGSEGV"),
        ("skip", "B skipped: this machine lacks what it needs"),
    ],
)
def test_a_side_that_does_not_measure_shows_its_reason_and_ends_with_status_1(
    accelbench: Run, tmp_path: Path, how: str, reason: str
) -> None:
    process = accelbench(
        *("pair", ".", ".", "misbehave", "--a", "how=well", "--b", f"how={how}", "--fail-on", "slower:5%"),
        *("--out", "out"),
    )
    assert process.returncode == 1, process.stdout + process.stderr
    assert reason in process.stdout
    assert "B against A: 1 not measured." in process.stdout
    (record,) = records(tmp_path / "out" / "B")
    assert record["status"] in ("failed", "skipped")


@pytest.mark.slow
def test_ctrl_c_prints_what_there_is_and_leaves_no_process(tmp_path: Path) -> None:
    words = command("pair", ".", ".", "behave", "--out", "out", "--within", "0.01%")
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "does not count" in line:
                break
        started = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGINT)
        printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "B against A: 1 cannot tell." in printed
    assert "accelbench: interrupted" in errors
    assert json.loads((tmp_path / "out" / "pair.json").read_text())["status"] == "interrupted"
    assert info(tmp_path / "out" / "A")["status"] == "interrupted"
    _, alive = psutil.wait_procs(started, timeout=20)
    assert started
    assert not alive
