"""What a user types nearly right: one line says what was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelbench.__main__ import main
from accelbench.errors import UserError
from accelbench.results.find_run import open_run
from tests.conftest import Run as Command
from tests.fixtures.report_records import record
from tests.fixtures.report_runs import make_run


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["bench"], "no command is called 'bench': did you mean 'run'?"),
        (["rnu"], "no command is called 'rnu': did you mean 'run'?"),
        (["run", "--suite", "quik"], "no suite is called 'quik': did you mean 'quick'?"),
        (["run", "matmul", "--backend", "pytorch"], "did you mean 'torch'?"),
        (["run", "cnn-mnist", "--epochs", "1"], "--param epochs=VALUE gives its values"),
        (["run", "matmul", "--param", "n="], "gives the axis no value"),
        (
            ["run", "matmul", "--param", "N=5", "--device", "cpu"],
            "no chosen benchmark has an axis 'N': did you mean 'n'?",
        ),
        (["run", "matmul,nqueens"], "put spaces between benchmarks, as in matmul nqueens"),
        (["run", "matmul", "n=4"], "the values of an axis are given by --param n=4"),
        (["run", "quick"], "it is a suite, which --suite quick measures"),
        (["run", "matmul", "--parm", "n=4"], "--param"),
        (["data", "fetch", "mnits"], "'mnits': did you mean 'mnist'?"),
        (["reproduce", "kim2021"], "no paper is called 'kim2021': did you mean 'kimm2021'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_near_miss_is_told_with_what_was_probably_meant(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert meant in told
    assert told.count("\n") == 1


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("20260314-092653-quick-a1b2", "20260314-101500-quick-c3d4", "20260315-080000-kernels-e5f6"):
        make_run(tmp_path / "runs" / name, [record("nqueens")], run_id=name)
    return tmp_path / "runs"


@pytest.mark.parametrize(
    "word",
    [
        "20260315",
        "runs/20260315",
        "20260315-080000-kernels-e5f6",
        "runs/20260315-080000-kernels-e5f6",
        "runs/20260315-080000-kernels-e5f6/",
        "runs/20260315-080000-kernels-e5f6/run.json",
        "runs/20260315-080000-kernels-e5f6/records.jsonl",
    ],
)
def test_a_run_is_found_by_its_path_its_files_and_the_beginning_of_its_id(runs: Path, word: str) -> None:
    assert open_run(word).info().run_id == "20260315-080000-kernels-e5f6"


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("20260314", "2 runs under runs begin with 20260314: 20260314-092653-quick-a1b2, 20260314-101500-quick-c3d4"),
        ("20260314-092653-quikc-a1b2", "did you mean '20260314-092653-quick-a1b2'?"),
        ("runs/A", "no run under runs is called 'A'; the last ones are 20260314-092653-quick-a1b2, "),
        ("elsewhere/A", "elsewhere/A is not a run directory, nor is one in elsewhere"),
    ],
)
def test_a_word_that_is_no_run_names_those_near_it(runs: Path, word: str, told: str) -> None:
    with pytest.raises(UserError) as refused:
        open_run(word)
    assert told in str(refused.value)


def test_a_python_that_lacks_a_package_is_told_which(accelbench: Command, tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ModuleNotFoundError(\"No module named 'rich'\", name='rich')")
    process = accelbench("compare", "a", "b", PYTHONPATH=str(tmp_path))
    assert process.returncode == 2
    assert "lacks the package rich, which accelbench needs" in process.stderr
    assert "Traceback" not in process.stderr
