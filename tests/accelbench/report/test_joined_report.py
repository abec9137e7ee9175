"""Report of several runs: page, terminal, table; the runs are not changed."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from accelbench.__main__ import cli, main
from accelbench.errors import UserError
from accelbench.execution.store import RunStore, Settings
from accelbench.output.console import PlainConsole
from accelbench.profiling.records.quality import Data
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from accelbench.report import same_points as points_module
from accelbench.report import stored_run, write_joined_report
from accelbench.report.joined import Joined, read_runs
from accelbench.report.page import render_joined
from accelbench.report.same_points import SamePoint, same_points
from accelbench.report.section import Run
from accelbench.report.terminal import print_runs
from tests.fixtures.report_node import cpu_records, gpu_records, study_records
from tests.fixtures.report_pages import Tags
from tests.fixtures.report_records import HOSTILE, record, stepped, studied, timing, training
from tests.fixtures.report_runs import make_run


def queens(device: str, seconds: float, **changes: Any) -> Record:
    work = Work(items=1e6, item="nodes")
    fields: dict[str, Any] = {"params": {"n": 12}, "figure": "items", "work": work, "timing": timing(seconds)}
    return record("nqueens", device, **fields | changes)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[RunStore]:
    """Return a run on a CPU, and one on the GPU of the same machine."""
    folder = tmp_path_factory.mktemp("runs")
    study = [one for one in study_records() if one.point["layers"] == 1]
    found = {
        device: [one for one in [*records, *study, queens(device, seconds)] if one.point.device == device]
        for device, records, seconds in (("cpu", cpu_records(), 1e-2), ("gpu", gpu_records(), 1e-4))
    }
    return [make_run(folder / device, records, run_id=device, device=device) for device, records in found.items()]


@pytest.fixture(scope="module")
def joined(stores: list[RunStore]) -> Joined:
    return read_runs(stores)


@pytest.fixture(scope="module")
def joined_page(joined: Joined) -> str:
    return render_joined(joined)


def printed(joined: Joined, width: int = 100) -> str:
    out = io.StringIO()
    print_runs(joined, PlainConsole(file=out, width=width))
    return out.getvalue()


def test_the_page_lists_the_runs_and_has_joint_drawings(joined_page: str) -> None:
    text = " ".join(Tags(joined_page).text.split())
    assert "2 runs" in text
    assert "AMD EPYC 9454 48-Core Processor, 16 CPUs with a quota of 16, NVIDIA H200" in text
    assert "2026-03-14 09:26 UTC" in text
    assert '<td data-label="cpu">float32</td><td data-label="other">float16, float32</td>' in joined_page
    assert "cuda.driver" not in text
    assert "Rooflines of cpu, gpu" in joined_page
    assert "bilstm-har against the number of units" in joined_page
    assert re.findall(r'<section id="(\w+)"', joined_page) == [
        "speed",
        "runs",
        "differences",
        "ceilings",
        "studies",
        "points",
    ]


def test_the_page_is_self_contained_and_its_ids_are_unique(joined_page: str) -> None:
    tags = Tags(joined_page).tags
    assert not {"script", "iframe", "object", "embed", "base", "img"} & {tag for tag, _ in tags}
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    references = re.findall(r'(?:url\(|href=")#([^)"]+)', joined_page)
    assert set(references) <= set(ids)


def test_the_terminal_has_the_same_contents(joined: Joined) -> None:
    out = " ".join(printed(joined, 300).split())
    assert all(f"● {run.counts_text}" in out for run in joined.runs)
    assert "full, seed 1, 2026-03-14 09:26 UTC" in out
    assert "float32 float16, float32 (gpu)" in out
    assert "nqueens n=12" in out
    assert f"{same_points(joined).single} points" in out


def by_name(joined: Joined, name: str) -> SamePoint:
    return next(point for point in same_points(joined).shown if point.name == name)


def test_the_same_point_of_two_devices_has_a_ratio_with_its_interval(joined: Joined) -> None:
    cpu, gpu = by_name(joined, "nqueens n=12").entries
    assert (cpu.place, gpu.place) == ("cpu", "gpu")
    assert cpu.ratio is None
    assert gpu.ratio is not None
    assert gpu.ratio.value == "× 100"
    low, high = (float(end) for end in gpu.ratio.interval.split("–"))
    assert 80 < low < 100 < high < 120
    assert gpu.ratio.notes == ()


def test_points_of_a_single_run_are_counted(joined: Joined) -> None:
    names = {point.name for point in same_points(joined).shown}
    assert all("peak-arith" not in name for name in names)
    measured = {place: sum(row_place == place for row_place, _ in joined.rows) for place in ("cpu", "gpu")}
    assert same_points(joined).single == sum(measured.values()) - 2 * len(names)


def together(tmp_path: Path, *runs: list[Record], **changes: Any) -> Joined:
    stores = [
        make_run(tmp_path / str(n), records, run_id=f"id{n}", device="cpu", **changes)
        for n, records in enumerate(runs, start=1)
    ]
    return read_runs(stores)


def test_a_noisy_run_is_inconclusive_and_too_few_samples_have_no_interval(tmp_path: Path) -> None:
    noisy = queens("cpu", 1e-2, noise=["steal: 9%"])
    few = stepped(timing(0.01, count=1, timer="steps", stop="epochs done"))
    joined = together(
        tmp_path,
        [queens("cpu", 1e-2), training("cpu", "float32", 0.02)],
        [noisy, training("cpu", "float32", 0.01, timing=few)],
    )
    disturbed, short = (point.entries[1].ratio for point in same_points(joined).shown)
    assert disturbed is not None
    (note,) = disturbed.notes
    assert note.startswith("inconclusive")
    assert short is not None
    assert (short.value[:2], short.interval) == ("× ", "")
    assert "too few samples" in short.notes[0]
    page = " ".join(Tags(render_joined(joined)).text.split())
    assert note in page


def test_different_and_synthetic_data_are_noted(tmp_path: Path) -> None:
    synthetic = Data("words", train=100, held_out=20, synthetic=True)
    joined = together(
        tmp_path,
        [training("cpu", "float32", 0.01)],
        [training("cpu", "float32", 0.01, data=synthetic)],
    )
    ((_, second),) = (point.entries for point in same_points(joined).shown)
    assert second.ratio is not None
    (note,) = second.ratio.notes
    assert all(part in note for part in ("100", "20", "synthetic data: words"))
    for shown in (printed(joined), Tags(render_joined(joined)).text):
        assert "synthetic data" in " ".join(shown.split())


def test_runs_without_a_common_point(tmp_path: Path) -> None:
    joined = together(tmp_path, [record("launch")], [record("stream")])
    assert same_points(joined).shown == ()
    for shown in (printed(joined), Tags(render_joined(joined)).text):
        assert "No point" in " ".join(shown.split())


def test_points_beyond_the_limit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points_module, "ENTRIES_SHOWN", 6)
    runs = [[queens("cpu", 1e-2, params={"n": n}) for n in range(5)]] * 2
    found = same_points(together(tmp_path, *runs))
    assert (len(found.shown), found.more, found.single) == (3, 2, 0)


@pytest.mark.slow
def test_ten_runs_have_different_labels(tmp_path: Path) -> None:
    records = [
        [*cpu_records()[:5], *(studied("lstm", "cpu", u / 10, 0.9, params={"units": u}) for u in (32, 64)), matmul()]
        for _ in range(10)
    ]
    joined = together(tmp_path, *records)
    page = render_joined(joined)
    assert len(set(joined.labels)) == 10
    assert [len(match.split(", ")) for match in re.findall(r"Rooflines of ([^<.]+)\.</strong>", page)] == [5, 5]
    assert all(label in page for label in joined.labels)
    assert "\n10 " in printed(joined)


def matmul() -> Record:
    return record("matmul", figure="flops", work=Work(flops=1e9, bytes=1e6), params={"dtype": "float32", "n": 7})


def test_names_are_text_and_not_markup(tmp_path: Path) -> None:
    found = studied("lstm", "cpu", 3.0, 0.9, params={"units": 32}, backend=HOSTILE)
    more = [found, studied("lstm", "cpu", 3.0, 0.9, params={"units": 64}, backend="jax")]
    stores = [make_run(tmp_path / name, more, run_id=f"{HOSTILE}{name}", device="cpu", suite=HOSTILE) for name in "ab"]
    joined = read_runs(stores)
    page = render_joined(joined)
    assert not {"script", "img"} & {tag for tag, _ in Tags(page).tags}
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert "\x1b" not in printed(joined)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_page_and_table_are_written_under_reports_and_the_runs_are_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stores = [
        make_run(tmp_path / device, [queens(device, 1e-2), record("fma", device)], run_id=device, device=device)
        for device in ("cpu", "gpu")
    ]
    joined = read_runs(stores)
    before = [contents(store.path) for store in stores]
    page, table = write_joined_report(joined)
    assert page.parent == table.parent == Path("reports")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert f'<a href="./{table.name}">CSV</a>' in text
    found = pd.read_csv(table)
    assert found.columns[0] == "run"
    assert found["run"].tolist() == ["cpu", "cpu", "gpu", "gpu"]
    assert {"run_id", "param.n", "rate"} <= set(found.columns)
    assert write_joined_report(joined) == (page, table)
    assert [contents(store.path) for store in stores] == before


@pytest.mark.parametrize("name", ["page.csv", "page", "cpu/report.html", "cpu/traces/page.html"])
def test_a_path_in_a_run_or_without_html_raises_user_error(
    stores: list[RunStore], joined: Joined, tmp_path: Path, name: str
) -> None:
    folder = stores[0].path.parent if name.startswith("cpu") else tmp_path
    with pytest.raises(UserError, match="--out"):
        write_joined_report(joined, folder / name)


def test_a_very_large_run_has_all_its_records_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_run, "RECORDS_HELD", 3)
    runs = [[record("fma", params={"n": n}) for n in range(5)]] * 2
    joined = together(tmp_path, *runs)
    _, table = write_joined_report(joined, tmp_path / "out" / "page.html")
    assert pd.read_csv(table)["param.n"].tolist() == [*range(5)] * 2
    assert "2 points are only in the CSV" in render_joined(joined)


def test_the_command_takes_one_run_or_several(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_run(tmp_path / name, [queens("cpu", 1e-2)], run_id=name, device="cpu", settings=Settings(seed=ord(name)))
    a, b, out = (str(tmp_path / name) for name in ("a", "b", "page.html"))
    several = CliRunner().invoke(cli, ["report", a, b, "--out", out], catch_exceptions=False)
    assert "\na " in several.output
    assert f"report {out}" in several.output
    assert f"records {tmp_path / 'page.csv'}" in several.output
    assert not (tmp_path / "a" / "report.html").exists()
    single = CliRunner().invoke(cli, ["report", a], catch_exceptions=False)
    assert f"report {tmp_path / 'a' / 'report.html'}" in single.output


def test_wrong_use_exits_with_2_and_corrupt_records_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    stores = [make_run(tmp_path / name, [record("fma")], run_id=name) for name in ("a", "b")]
    a, b, out = (str(tmp_path / name) for name in ("a", "b", "page.html"))
    assert main(["report", a, a]) == 2
    assert "twice" in capsys.readouterr().err
    assert main(["report", a, "--out", out]) == 2
    assert main(["report"]) == 2
    stores[1].records_path.write_text("{\n")
    assert main(["report", a, b, "--out", out, "--quiet"]) == 1
    assert "line 1" in capsys.readouterr().err
    assert Path(out).exists()


def test_a_single_run_has_the_page_of_a_single_run(tmp_path: Path) -> None:
    found = [record("fma")]
    single = Joined((Run.of(make_run(tmp_path / "a", found)),))
    assert '<section id="benchmarks"' in render_joined(single)
    assert '<section id="runs"' not in render_joined(single)
