"""The report: everything in it comes from the store, survives odd records, and reads well."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from math import inf, nan
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from accelbench.errors import UserError
from accelbench.report import write_report
from accelbench.report.figures import digits, headline, metric, percent, plain, read
from accelbench.report.page import render_page
from accelbench.report.rows import make_groups, make_rows, reproduce
from accelbench.report.table import COLUMNS
from accelbench.report.terminal import WIDTH, print_table
from accelbench.store import RunStore, Settings
from profiling.benchmark import Metric, Work
from profiling.record import Record
from profiling.roofline import ceilings, share_of_ceiling, share_of_peak
from tests.accelbench.report_runs import (
    HOSTILE,
    environment,
    make_run,
    record,
    rich_records,
    timing,
    training,
    unmeasured,
)

OUTPUTS = ("report.html", "records.csv", "records.parquet")


@pytest.fixture(scope="module")
def rich_run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    store = make_run(tmp_path_factory.mktemp("runs") / "rich", rich_records())
    assert write_report(store) == store.path / "report.html"
    return store


@pytest.fixture(scope="module")
def page(rich_run: RunStore) -> str:
    return (rich_run.path / "report.html").read_text(encoding="utf-8")


def printed(store: RunStore, width: int = WIDTH) -> str:
    out = io.StringIO()
    print_table(store.info(), store.records(), Console(file=out, width=width, highlight=False))
    return out.getvalue()


def page_of(path: Path, records: list[Record], **changes: Any) -> str:
    store = make_run(path / "run", records, **changes)
    return render_page(store.info(), store.records())


class Tags(HTMLParser):
    """Every start tag of a page with its attributes, and every text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_everything_is_rebuilt_identically_from_the_store_alone(rich_run: RunStore) -> None:
    before = {name: (rich_run.path / name).read_bytes() for name in OUTPUTS}
    for name in OUTPUTS:
        (rich_run.path / name).unlink()
    write_report(RunStore.open(rich_run.path))
    assert {name: (rich_run.path / name).read_bytes() for name in OUTPUTS} == before


def test_another_process_with_other_plot_settings_builds_the_same_page(rich_run: RunStore, tmp_path: Path) -> None:
    before = (rich_run.path / "report.html").read_bytes()
    (tmp_path / "matplotlibrc").write_text("font.size: 40\naxes.facecolor: red\nsvg.fonttype: path\n")
    code = "import sys, pathlib; from accelbench.store import RunStore; from accelbench.report import write_report\n"
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


def test_no_part_files_are_left_beside_the_outputs(rich_run: RunStore) -> None:
    found = {path.name for path in rich_run.path.iterdir()}
    assert found == {*OUTPUTS, "run.json", "records.jsonl", ".lock"}


def test_an_output_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", [record("launch")])
    (store.path / "report.html").mkdir()
    with pytest.raises(UserError, match=r"cannot write .*report\.html"):
        write_report(store)
    assert not list(store.path.glob(".report*"))


def test_every_point_is_in_the_page_with_its_figure_or_its_reason(rich_run: RunStore, page: str) -> None:
    text = " ".join(Tags(page).text.split())
    for found in rich_run.records():
        if found.status == "measured":
            figure = next(row.reading for row in make_rows([found]))
            assert f"{figure.value} {figure.unit}" in text
            assert reproduce(found, rich_run.info().settings) in text
        else:
            assert found.reason is not None
            assert found.reason in text


def test_the_page_says_what_each_share_is_of(page: str) -> None:
    text = " ".join(Tags(page).text.split())
    assert "89 % of the measured float32 arithmetic, 1.71 TFLOP/s" in text
    assert "of 989 TFLOP/s" in text
    assert "at the observed clock" in text
    assert "MFU: of vendor's peak" in text
    assert "a virtual machine hides the clock and the vector units" in text


def test_counters_that_counted_nothing_share_one_line(page: str) -> None:
    text = " ".join(Tags(page).text.split())
    assert "Zero at every point on the cpu: cgroup throttled." in text
    assert "cpu steal" in text


def test_unknown_facts_of_the_machine_are_unknown_with_their_reason(page: str) -> None:
    text = " ".join(Tags(page).text.split())
    assert "frequency governorunknownthe kernel shows no frequency governor" in text


def test_the_page_needs_nothing_from_outside(page: str) -> None:
    tags = Tags(page).tags
    assert not {"script", "iframe", "object", "embed", "base", "img"} & {tag for tag, _ in tags}
    for tag, attributes in tags:
        for name in ("src", "href", "xlink:href", "action", "data"):
            target = attributes.get(name) or "#"
            assert target.startswith(("#", "data:")), f"<{tag} {name}={target}>"
    style = page[page.index("<style>") : page.index("</style>")]
    assert "@import" not in style
    assert "url(" not in style


def test_ids_are_unique_and_every_reference_has_its_target(page: str) -> None:
    ids = [attributes["id"] for _, attributes in Tags(page).tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    references = re.findall(r'(?:url\(|href=")#([^)"]+)', page)
    references += re.findall(r'aria-labelledby="([^"]+)"', page)
    assert references
    assert set(references) <= set(ids)


def test_drawings_and_tables_tell_a_screen_reader_what_they_are(page: str) -> None:
    tags = Tags(page).tags
    drawings = [attributes for tag, attributes in tags if tag == "svg"]
    assert len(drawings) >= 12
    assert all(a.get("role") == "img" and a.get("aria-labelledby") for a in drawings)
    assert all(a.get("scope") in ("col", "row") for tag, a in tags if tag == "th")


def test_drawings_take_their_colours_from_the_page(page: str) -> None:
    for drawing in re.findall(r"<svg.*?</svg>", page, flags=re.S):
        assert "var(--ink)" in drawing
        assert not re.search(r"(?:fill|stroke): #", drawing)
        assert "<style" not in drawing


@pytest.mark.parametrize(
    "where", ["reason", "output_tail", "noise", "params", "backend", "metrics", "unit", "item", "curves", "machine"]
)
def test_a_hostile_string_is_shown_and_does_nothing(where: str, tmp_path: Path) -> None:
    found = training("cpu", "float32", 0.01)
    possible: dict[str, dict[str, Any]] = {
        "reason": {"status": "failed", "reason": HOSTILE, "timing": None},
        "output_tail": {"status": "failed", "reason": "it crashed", "output_tail": [HOSTILE], "timing": None},
        "noise": {"noise": [HOSTILE]},
        "params": {"params": {"precision": HOSTILE, "batch": 1}},
        "backend": {"backend": HOSTILE},
        "metrics": {"metrics": {HOSTILE: Metric(1.0, "s")}},
        "unit": {"metrics": {"m": Metric(1.0, HOSTILE)}},
        "item": {"work": Work(flops=1e9, items=3, item=HOSTILE)},
        "curves": {"curves": {HOSTILE: [1.0, 2.0]}},
        "machine": {},
    }
    machine = environment()
    if where == "machine":
        machine = machine.model_copy(update={"cpu": machine.cpu.model_copy(update={"model": HOSTILE})})
    second = found.model_copy(update={"params": {"precision": "float32", "batch": 2}})
    html = page_of(tmp_path, [found.model_copy(update=possible[where]), second], environment=machine)
    tags = {tag for tag, _ in Tags(html).tags}
    assert not {"script", "img"} & tags
    assert "&lt;script&gt;" in html or "&lt;script&gt;" in html.replace("_", " ")
    assert "\x1b" not in html
    out = printed(RunStore.open(tmp_path / "run"))
    assert "\x1b" not in out


def test_a_page_of_nothing_measured_is_still_a_page(tmp_path: Path) -> None:
    failed = unmeasured("matmul", "failed", "the worker was killed by SIGKILL")
    html = page_of(tmp_path, [failed])
    assert "the worker was killed by SIGKILL" in html
    assert "0 of 1 points measured" in html
    empty = page_of(tmp_path / "empty", [], status="interrupted")
    assert "interrupted" in empty


def test_a_single_sample_an_unfinished_run_and_training_that_diverged_are_shown(tmp_path: Path) -> None:
    once = record("queens", figure="items", work=Work(items=10, item="nodes"), timing=timing(2.0, count=1))
    diverged = training("cpu", "float32", 0.01, curves={"loss": [1.0, inf, nan], "val_loss": [nan, nan, nan]})
    store = make_run(tmp_path / "run", [once, diverged], plan=[], status="interrupted")
    html = render_page(store.info(), store.records())
    assert "1 sample: the interval covers the median with 0%" in html
    assert "interrupted" in html


def test_noise_and_other_flags_are_named_in_the_page_and_in_the_table(rich_run: RunStore, page: str) -> None:
    out = " ".join(printed(rich_run).split())
    text = " ".join(Tags(page).text.split())
    for meaning in (
        "steal time: the hypervisor took 2.6 % of the CPU time",
        "power limit reached: the SM clock fell to 1395 MHz",
        "3 samples were discarded because the device was throttled",
    ):
        assert meaning in text
        assert meaning in out


def test_the_table_leaves_a_long_list_of_disturbances_to_the_report(tmp_path: Path) -> None:
    noisy = [record("launch", params={"n": n}, noise=[f"other processes used {n} CPUs"]) for n in range(9)]
    out = printed(make_run(tmp_path / "run", noisy))
    assert "other processes used 1 CPUs (launch n=1)" in out
    assert "other processes used 2 CPUs" not in out
    assert "noisy: 7 more points, each explained in the report" in out


def test_a_figure_beyond_its_bound_is_flagged(tmp_path: Path) -> None:
    ceiling = record("fma", figure="flops", ceiling=True, work=Work(flops=1e9), timing=timing(1.0))
    beyond = record("matmul", figure="flops", work=Work(flops=2e9), timing=timing(1.0))
    (_, row) = make_rows([ceiling, beyond])
    assert [flag.word for flag in row.flags] == ["over 100 %"]


def test_counts_of_flops_that_differ_are_named_and_those_that_agree_are_not(tmp_path: Path) -> None:
    for ratio, told in ((1.049, False), (1.12, True), (0.12, True)):
        metrics = {"framework_flops_ratio": Metric(ratio)}
        store = make_run(tmp_path / str(ratio), [training("cpu", "float32", 0.01, metrics=metrics)])
        sentence = f"FLOPs: tensorflow counts {ratio:.3g}"
        for text in (printed(store), render_page(store.info(), store.records())):
            assert (sentence in " ".join(text.split())) == told


def test_a_training_stands_under_the_roofline_by_the_bytes_it_must_move(tmp_path: Path) -> None:
    roofs = [
        record("peak-arith", "cpu", figure="flops", ceiling=True, work=Work(flops=1e9), params={"dtype": "float32"}),
        record("stream", "cpu", figure="bytes", ceiling=True, work=Work(bytes=1e9)),
    ]
    trained = training("cpu", "float32", 0.1, work=Work(flops=9e9, bytes=1.5e8, items=128, item="images"))
    page = page_of(tmp_path, [*roofs, trained])
    assert "1 point under the roofs" in page
    assert "60.0 FLOP a byte" in page


def test_the_table_fits_100_columns_and_holds_every_point(rich_run: RunStore) -> None:
    lines = printed(rich_run).splitlines()
    table = lines[: next(i for i, line in enumerate(lines) if line.startswith("peak"))] + lines[-1:]
    assert max(map(len, lines[2 : len(table)])) <= WIDTH
    out = "\n".join(lines)
    for group in make_groups(make_rows(rich_run.records())):
        for row in group.rows:
            assert f"{row.reading.value} {row.reading.unit}" in out
    for unlucky in rich_run.records():
        if unlucky.reason:
            assert unlucky.reason in out
    assert "29 of 33 points measured and verified, 2 failed, 2 skipped" in out


@pytest.mark.parametrize("width", [80, 60])
def test_the_table_is_readable_on_a_narrow_terminal(rich_run: RunStore, width: int) -> None:
    out = printed(rich_run, width)
    assert "peak-arith cpu" in out
    assert re.search(r"op=triad .* 185 GB/s", out)


def test_a_column_in_which_nothing_is_known_gives_way_to_its_reason(tmp_path: Path) -> None:
    lone = record("matmul", figure="flops", work=Work(flops=1e9))
    out = printed(make_run(tmp_path / "run", [lone]))
    assert "of peak" not in out
    assert "peak –: no peak is known for this device" in out
    assert "ceiling –: no float32 arithmetic was measured as a ceiling on cpu in this run" in out


def test_printing_the_table_imports_no_heavy_library(rich_run: RunStore) -> None:
    code = """
import pathlib, sys
from rich.console import Console
from accelbench.store import RunStore
from accelbench.report.terminal import print_table
store = RunStore.open(pathlib.Path(sys.argv[1]))
print_table(store.info(), store.records(), Console(file=sys.stderr))
print(sorted({"pandas", "pyarrow", "matplotlib", "jinja2", "numpy", "scipy"} & set(sys.modules)))
"""
    process = subprocess.run([sys.executable, "-c", code, rich_run.path], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


def test_a_reproducing_command_is_the_point_again_whatever_its_values() -> None:
    odd = record("matmul", "gpu", params={"impl": "it's; rm -rf", "n": 2048}, backend="jax", seed=7)
    words = shlex.split(reproduce(odd, Settings(max_seconds=3)))
    assert words == [
        *("accelbench", "run", "matmul", "--device", "gpu", "--param", "impl=it's; rm -rf", "--param", "n=2048"),
        *("--backend", "jax", "--seed", "7", "--max-seconds", "3"),
    ]


def test_the_command_line_understands_the_reproducing_command() -> None:
    from accelbench.__main__ import cli

    command = reproduce(record("x", params={"n": 3}, backend="jax"), Settings(max_seconds=3, time_limit_s=9))
    result = CliRunner().invoke(cli, [*shlex.split(command)[1:], "--help"])
    assert result.exit_code == 0
    options = set(re.findall(r"--[a-z-]+", command))
    assert options <= set(re.findall(r"--[a-z-]+", result.output))


def test_csv_and_parquet_hold_the_same_documented_table(rich_run: RunStore) -> None:
    csv = pd.read_csv(rich_run.path / "records.csv")
    parquet = pd.read_parquet(rich_run.path / "records.parquet")
    assert list(csv.columns) == list(parquet.columns)
    assert len(csv) == len(parquet) == len(rich_run.records())
    schema = pq.read_schema(rich_run.path / "records.parquet")
    assert all(field.metadata[b"description"] for field in schema)
    assert set(COLUMNS) <= set(csv.columns)
    assert {"param.n", "param.op", "metric.test_accuracy", "telemetry.gpu.power", "counter.gpu.energy_j"} <= set(csv)
    assert str(parquet["param.n"].dtype) == "Int64"


def test_the_table_holds_the_records_numbers_exactly(rich_run: RunStore) -> None:
    records = rich_run.records()
    measured = ceilings(records)
    table = pd.read_parquet(rich_run.path / "records.parquet")
    for (_, line), found in zip(table.iterrows(), records, strict=True):
        assert (line["benchmark"], line["status"]) == (found.benchmark, found.status)
        expected: dict[str, float | None] = {
            "median_s": found.timing.summary.median if found.timing else None,
            "rate": found.rate(),
            "share_of_peak": share_of_peak(found).value,
            "share_of_ceiling": share_of_ceiling(found, measured).value,
            "peak": found.peak.value if found.peak else None,
        }
        for column, value in expected.items():
            assert (None if pd.isna(line[column]) else line[column]) == value
        if found.timing:
            assert line["rate_low"] <= line["rate"] <= line["rate_high"]


def test_an_axis_of_words_here_and_numbers_there_is_one_column(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", [record("a", params={"order": 3}), record("b", params={"order": "random"})])
    write_report(store)
    assert pd.read_parquet(store.path / "records.parquet")["param.order"].tolist() == ["3", "random"]


@given(st.floats(1e-12, 1e24), st.sampled_from(["FLOP/s", "B/s", "images/s", "s"]))
def test_a_figure_keeps_three_digits_of_its_value(value: float, unit: str) -> None:
    reading = read(value, unit)
    prefix = reading.unit.removesuffix(unit).strip()
    factor = {"E": 1e18, "P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9}
    assert float(reading.value.replace(",", "")) * factor[prefix] == pytest.approx(value, rel=6e-3)


@given(st.floats(-1e20, 1e20), st.integers(1, 6))
def test_digits_round_to_that_many(value: float, significant: int) -> None:
    assert float(digits(value, significant).replace(",", "")) == pytest.approx(value, rel=10.0 ** (1 - significant))


@given(st.text())
def test_plain_text_has_no_control_characters_and_loses_nothing_else(text: str) -> None:
    kept = plain(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", kept)
    if "\x1b" not in text:
        assert kept == re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", text)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((102.34e9, "FLOP/s", 102.0e9, 102.7e9), "102.3 GFLOP/s ±0.4 %"),
        ((102.34e9, "FLOP/s", 99e9, 103e9), "102 GFLOP/s 99.0–103"),
        ((999.96e9, "B/s"), "1.00 TB/s"),
        ((12_345.0, "images/s"), "12,300 images/s"),
        ((1.31e9, "nodes/s"), "1.31 G nodes/s"),
        ((5.87e-6, "s", 5.8e-6, 5.95e-6), "5.87 µs ±1.4 %"),
        ((61e-3, "s"), "61.0 ms"),
        ((0.0, "s"), "0 s"),
        ((float("nan"), "s"), "nan s"),
    ],
)
def test_figures_read_as_people_write_them(arguments: tuple[Any, ...], text: str) -> None:
    assert str(read(*arguments)) == text


def test_small_shares_keep_a_digit() -> None:
    assert [percent(x) for x in (0.0, 4e-9, 0.0004, 0.032, 0.92, 1.04)] == [
        "0.0 %",
        "<0.001 %",
        "0.04 %",
        "3.2 %",
        "92 %",
        "104 %",
    ]


def test_a_count_is_exact_and_a_quality_has_four_digits() -> None:
    found = [metric(Metric(*of)) for of in ((1_199_882.0,), (0.97312,), (1.0,), (0.0021, "s"), (4.1, "%"))]
    assert found == ["1,199,882", "0.9731", "1", "2.10 ms", "4.10 %"]


def test_the_headline_of_an_unmeasured_point_is_its_reason() -> None:
    assert headline(unmeasured("x", "failed", "it\x1b[31m crashed")) == "failed: it crashed"
    assert headline(record("launch", timing=timing(2e-6, spread=0.0))) == "2.000 µs ±0.0 %"
