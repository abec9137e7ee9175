"""Tests of the suggestions in error messages for mistyped arguments."""

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
        (["bench"], "'bench': did you mean 'run'?"),
        (["rnu"], "'rnu': did you mean 'run'?"),
        (["run", "--suite", "quik"], "'quik': did you mean 'quick'?"),
        (["run", "matmul", "--backend", "pytorch"], "did you mean 'torch'?"),
        (["run", "cnn-mnist", "--epochs", "1"], "--param epochs=VALUE"),
        (["run", "matmul", "--param", "n="], "--param 'n='"),
        (
            ["run", "matmul", "--param", "N=5", "--device", "cpu"],
            "axis 'N': did you mean 'n'?",
        ),
        (["run", "matmul,nqueens"], "matmul nqueens"),
        (["run", "matmul", "n=4"], "--param n=4"),
        (["run", "quick"], "--suite quick"),
        (["run", "matmul", "--parm", "n=4"], "--param"),
        (["data", "fetch", "mnits"], "'mnits': did you mean 'mnist'?"),
        (["reproduce", "kim2021"], "did you mean 'kimm2021'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistyped_argument_is_an_error_with_a_suggestion(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    errors = capsys.readouterr().err
    assert meant in errors
    assert errors.count("\n") == 1


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
def test_a_run_is_found_by_path_by_file_and_by_prefix_of_its_id(runs: Path, word: str) -> None:
    assert open_run(word).info().run_id == "20260315-080000-kernels-e5f6"


@pytest.mark.parametrize("place", ["mine", ".", "runs/slurm-7/mine"])
def test_a_run_outside_of_runs_is_found_by_its_complete_id(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = "20260316-090000-norm-0a1b"
    make_run(tmp_path / (place if place != "." else "mine"), [record("nqueens")], run_id=run_id)
    (tmp_path / "corrupt").mkdir()
    (tmp_path / "corrupt" / "run.json").write_text("{")
    monkeypatch.chdir(tmp_path / "mine" if place == "." else tmp_path)
    assert open_run(run_id).path == Path(place)
    with pytest.raises(UserError):
        open_run("20260316")


@pytest.mark.parametrize(
    ("word", "keys"),
    [
        ("20260314", ("20260314-092653-quick-a1b2, 20260314-101500-quick-c3d4",)),
        ("20260314-092653-quikc-a1b2", ("did you mean '20260314-092653-quick-a1b2'?",)),
        ("runs/A", ("'A'", "20260314-092653-quick-a1b2, ")),
        ("elsewhere/A", ("elsewhere/A", "accelbench run")),
    ],
)
def test_an_unknown_run_is_an_error_with_similar_ones(runs: Path, word: str, keys: tuple[str, ...]) -> None:
    with pytest.raises(UserError) as refused:
        open_run(word)
    assert all(key in str(refused.value) for key in keys)


def test_a_missing_package_is_named(accelbench: Command, tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ModuleNotFoundError(\"No module named 'rich'\", name='rich')")
    process = accelbench("compare", "a", "b", PYTHONPATH=str(tmp_path))
    assert process.returncode == 2
    assert "the package rich" in process.stderr
    assert "Traceback" not in process.stderr
