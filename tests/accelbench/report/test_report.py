"""Files of the report: reproducible from the store, tables, and commands that repeat the points."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from accelbench.errors import UserError
from accelbench.execution.store import RunStore, Settings
from accelbench.profiling.analysis.roofline import ceilings, share_of_ceiling, share_of_peak
from accelbench.report import write_report
from accelbench.report.rows import shell_command
from accelbench.report.table import COLUMNS
from tests.fixtures.report_records import record, unmeasured
from tests.fixtures.report_runs import make_run

OUTPUTS = ("report.html", "records.csv", "records.parquet")


def test_everything_is_rebuilt_identically_from_the_store_alone(rich_run: RunStore) -> None:
    before = {name: (rich_run.path / name).read_bytes() for name in OUTPUTS}
    for name in OUTPUTS:
        (rich_run.path / name).unlink()
    write_report(RunStore.open(rich_run.path))
    assert {name: (rich_run.path / name).read_bytes() for name in OUTPUTS} == before


@pytest.mark.slow
def test_the_page_does_not_depend_on_local_plot_settings(rich_run: RunStore, tmp_path: Path) -> None:
    before = (rich_run.path / "report.html").read_bytes()
    (tmp_path / "matplotlibrc").write_text("font.size: 40\naxes.facecolor: red\nsvg.fonttype: path\n")
    code = "import sys, pathlib; from accelbench.execution.store import RunStore\n"
    code += "from accelbench.report import write_report\n"
    code += "write_report(RunStore.open(pathlib.Path(sys.argv[1])))"
    subprocess.run(
        [sys.executable, "-c", code, rich_run.path],
        check=True,
        env={
            "MATPLOTLIBRC": str(tmp_path / "matplotlibrc"),
            "PYTHONHASHSEED": "7",
            "LC_ALL": "C",
            "HOME": "/nonexistent",
        },
    )
    assert (rich_run.path / "report.html").read_bytes() == before


def test_no_temporary_files_are_left(rich_run: RunStore) -> None:
    found = {path.name for path in rich_run.path.iterdir()}
    assert found == {*OUTPUTS, "run.json", "records.jsonl", ".lock"}


def test_an_unwritable_output_raises_user_error(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", [record("launch")])
    (store.path / "report.html").mkdir()
    with pytest.raises(UserError, match=r"report\.html"):
        write_report(store)
    assert not list(store.path.glob(".report*"))


@pytest.mark.parametrize("reason", ["=1+1", "+1", "-1", "@SUM(A1)", " =1+1"])
def test_text_that_looks_like_a_formula_is_quoted(tmp_path: Path, reason: str) -> None:
    store = make_run(tmp_path / "run", [record("launch"), unmeasured("fma", "failed", reason)])
    write_report(store)
    assert pd.read_csv(store.path / "records.csv")["reason"][1] == f"'{reason}"
    assert pd.read_parquet(store.path / "records.parquet")["reason"][1] == reason


def test_csv_and_parquet_have_the_same_documented_columns(rich_run: RunStore) -> None:
    csv = pd.read_csv(rich_run.path / "records.csv")
    parquet = pd.read_parquet(rich_run.path / "records.parquet")
    assert list(csv.columns) == list(parquet.columns)
    assert len(csv) == len(parquet) == len(rich_run.records())
    schema = pq.read_schema(rich_run.path / "records.parquet")
    assert all(field.metadata[b"description"] for field in schema)
    assert set(COLUMNS) <= set(csv.columns)
    assert {
        "param.n",
        "param.op",
        "metric.test_accuracy",
        "quality.test_accuracy.low",
        "telemetry.gpu.power",
        "counter.gpu.energy_j",
    } <= set(csv)
    assert str(parquet["param.n"].dtype) == "Int64"


def test_the_table_has_the_exact_numbers_of_the_records(rich_run: RunStore) -> None:
    records = rich_run.records()
    measured = ceilings(records)
    table = pd.read_parquet(rich_run.path / "records.parquet")
    for (_, line), found in zip(table.iterrows(), records, strict=True):
        assert (line["benchmark"], line["status"]) == (found.point.benchmark, found.status)
        expected: dict[str, float | None] = {
            "median_s": found.timing.summary.median if found.timing else None,
            "rate": found.rate(),
            "share_of_peak": share_of_peak(found).value,
            "share_of_ceiling": share_of_ceiling(found, measured).value,
            "peak": found.peak.value if found.peak else None,
            "steady_s": found.timing.steady.seconds if found.timing and found.timing.steady else None,
        }
        for column, value in expected.items():
            assert (None if pd.isna(line[column]) else line[column]) == value
        if found.timing:
            assert line["rate_low"] <= line["rate"] <= line["rate_high"]


def test_an_axis_with_text_and_numbers_is_one_column(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", [record("a", params={"order": 3}), record("b", params={"order": "random"})])
    write_report(store)
    assert pd.read_parquet(store.path / "records.parquet")["param.order"].tolist() == ["3", "random"]


def test_the_command_quotes_all_values() -> None:
    odd = record("matmul", "gpu", params={"impl": "it's; rm -rf", "n": 2048}, backend="jax", seed=7)
    words = shlex.split(shell_command(odd, Settings(max_seconds=3)))
    assert words == [
        *("accelbench", "run", "matmul", "--device", "gpu", "--param", "impl=it's; rm -rf", "--param", "n=2048"),
        *("--backend", "jax", "--seed", "7", "--max-seconds", "3"),
    ]


def test_the_command_has_valid_options() -> None:
    from accelbench.__main__ import cli

    command = shell_command(record("x", params={"n": 3}, backend="jax"), Settings(max_seconds=3, time_limit_s=9))
    result = CliRunner().invoke(cli, [*shlex.split(command)[1:], "--help"])
    assert result.exit_code == 0
    options = set(re.findall(r"--[a-z-]+", command))
    assert options <= set(re.findall(r"--[a-z-]+", result.output))
