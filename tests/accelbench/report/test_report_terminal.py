"""Table on the terminal, and flags in terminal and page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from accelbench.execution.store import RunStore, Settings
from accelbench.export.terminal import WIDTH
from accelbench.profiling.records.quality import Data, Metric
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.statistics import summarize
from accelbench.report.page import render_page
from accelbench.report.rows import make_groups, make_rows
from accelbench.report.section import Run
from accelbench.report.table import write_tables
from tests.fixtures.report_pages import Tags, printed
from tests.fixtures.report_records import record, stepped, timing, training
from tests.fixtures.report_runs import make_run


def test_the_table_fits_100_columns_and_has_every_point(rich_run: RunStore) -> None:
    lines = printed(rich_run).splitlines()
    table = lines[: next(i for i, line in enumerate(lines) if line.startswith("peak"))] + lines[-1:]
    assert max(map(len, lines[2 : len(table)])) <= WIDTH
    out = "\n".join(lines)
    for group in make_groups(make_rows(rich_run.records())):
        for row in group.rows:
            assert f"{row.reading.value} {row.reading.unit}" in out
    for unmeasured in rich_run.records():
        if unmeasured.reason:
            assert unmeasured.reason in out
    assert "29 of 33 points" in out
    assert "2 of them noisy, 2 failed, 2 skipped" in out


@pytest.mark.parametrize("width", [120, 80, 60, 40])
def test_the_table_is_readable_on_a_narrow_terminal(rich_run: RunStore, width: int) -> None:
    lines = printed(rich_run, width).splitlines()
    assert max(len(line.rstrip()) for line in lines[2:] if line.startswith(" ")) <= width
    out = " ".join(" ".join(lines).split())
    assert "peak-arith cpu" in out
    assert re.search(r"op=triad (result )?~185 GB/s( · interval)? ±2.4 %( · of ceiling| –) 90 %", out)
    assert "dtype=float32 n=8192" in out


def test_the_table_uses_the_width_of_the_terminal(rich_run: RunStore) -> None:
    narrow, wide = (printed(rich_run, width).splitlines() for width in (80, 120))
    assert len(wide) < len(narrow)
    assert max(len(line) for line in wide if line.startswith("──")) > 100


def test_wrapped_values_of_axes_are_indented(tmp_path: Path) -> None:
    params = [{"implementation": "v" * 20, "algorithm": "w" * 20, "n": n} for n in (1, 2)]
    for width in (80, 60, 40):
        out = printed(make_run(tmp_path / str(width), [record("queens", params=each) for each in params]), width)
        heading = next(line for line in out.splitlines() if line.startswith("queens"))
        wrapped = [line for line in out.splitlines() if "w" * 20 in line and line != heading]
        assert all(line.startswith("    ") for line in wrapped)
        assert wrapped or width == 80


def test_a_column_without_known_values_is_replaced_by_the_reason(tmp_path: Path) -> None:
    lone = record("matmul", figure="flops", work=Work(flops=1e9))
    store = make_run(tmp_path / "run", [lone])
    out = printed(store)
    assert "peak" not in out
    assert "% of peak unknown: " in printed(store, verbose=True)
    assert "% of ceiling unknown: " in out


def test_printing_the_table_imports_no_heavy_library(rich_run: RunStore) -> None:
    code = """
import pathlib, sys
from accelbench.execution.store import RunStore
from accelbench.output.console import PlainConsole
from accelbench.report.section import Run
from accelbench.report.terminal import print_run
store = RunStore.open(pathlib.Path(sys.argv[1]))
print_run(Run.of(store), PlainConsole(file=sys.stderr))
print(sorted({"pandas", "pyarrow", "matplotlib", "jinja2", "scipy.stats"} & set(sys.modules)))
"""
    process = subprocess.run([sys.executable, "-c", code, rich_run.path], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


def test_noise_and_other_flags_are_in_page_and_table(rich_run: RunStore, page: str) -> None:
    out = " ".join(printed(rich_run).split())
    text = " ".join(Tags(page).text.split())
    for meaning in (
        "steal time: the hypervisor took 2.6 %",
        "SM clock fell to 1395 MHz",
        "3 samples were discarded",
    ):
        assert meaning in text
        assert meaning in out


@pytest.mark.parametrize("width", [WIDTH, 80])
def test_a_noisy_run_lists_each_cause_once_and_marks_its_results(tmp_path: Path, width: int) -> None:
    ceiling = {"figure": "flops", "ceiling": True, "work": Work(flops=1e12)}
    noisy = [
        record("fma", params={"dtype": dtype}, noise=[f"other processes used 0.{n} of 2 CPUs"], **ceiling)
        for n, dtype in enumerate(("float16", "bfloat16", "float32", "float64"), start=5)
    ]
    swapped = record("queens", noise=["other processes used 1.3 of 2 CPUs", "the machine swapped 12 MiB"])
    out = printed(make_run(tmp_path / "run", [*noisy, swapped, record("launch")]), width)
    words = " ".join(out.split())
    assert words.count("other processes") == 1
    assert "5 of 6 results" in words
    assert "0.5–1.3 of 2 CPUs" in words
    assert "swapped 12 MiB (1 result)" in words
    assert out.count("% of ceiling unknown") == 0
    assert out.count("≈ 100 %") == 4
    assert all(f"{dtype} arithmetic" in words for dtype in ("float16", "bfloat16", "float32", "float64"))
    assert out.count("~0.9998 PFLOP/s") + out.count("~1.000 ms") == 5
    assert words.count("noisy") == 5  # column title, ceilings, bottleneck, confidence and counts


def test_noisy_repetitions_are_listed_unless_all_are_noisy(tmp_path: Path) -> None:
    def noise_of(*noisy: int) -> str:
        rounds = [record("queens", round=n, order=n, noise=NOISY if n in noisy else []) for n in (1, 2, 3)]
        store = make_run(tmp_path / str(noisy), rounds, plan=[rounds[0].point], settings=Settings(rounds=3))
        return " ".join(cause.sentence for cause in Run.of(store).causes if cause.word == "noisy")

    assert noise_of(2) == f"{NOISY[0]} in repetition 2"
    assert noise_of(1, 3) == f"{NOISY[0]} in repetitions 1 and 3"
    assert noise_of(1, 2, 3) == NOISY[0]


def test_the_page_lists_each_cause_of_noise_once_with_its_points(tmp_path: Path) -> None:
    noisy = [record("launch", params={"n": n}, noise=[f"other processes used {n} CPUs"]) for n in range(1, 10)]
    page = render_page(Run.of(make_run(tmp_path / "run", noisy)))
    flags = " ".join(Tags(page[page.index('id="flags"') :]).text.split())
    assert flags.count("used 1–9 CPUs") == 1
    assert all(f"launch cpu n={n}" in flags for n in range(1, 10))


def test_steps_in_bursts_are_flagged(tmp_path: Path) -> None:
    steps = [0.01, 0.01, 0.01, 0.05] * 10
    bursty = timing(0.01).model_copy(update={"samples": steps, "summary": summarize(steps), "timer": "steps"})
    store = make_run(tmp_path / "run", [training("cpu", "float32", 0.01, timing=stepped(bursty))])
    assert "bursts" in printed(store)
    assert '<span class="flag">bursts</span>' in render_page(Run.of(store))


def test_a_quality_metric_has_its_interval_and_the_data_have_their_note(tmp_path: Path) -> None:
    data = Data("digits", train=4500, held_out=500, note="an easier split than the published one")
    store = make_run(tmp_path / "run", [training("cpu", "float32", 0.01, data=data)])
    for shown in (" ".join(printed(store, verbose=True).split()), render_page(Run.of(store))):
        assert "0.9731 (0.955–0.984" in shown
        assert "an easier split" in shown


def test_a_result_above_its_bound_is_flagged(tmp_path: Path) -> None:
    ceiling = record("fma", figure="flops", ceiling=True, work=Work(flops=1e9), timing=timing(1.0))
    beyond = record("matmul", figure="flops", work=Work(flops=2e9), timing=timing(1.0))
    (_, row) = make_rows([ceiling, beyond])
    assert [flag.word for flag in row.flags] == ["over 100 %"]


def test_different_flop_counts_are_shown(tmp_path: Path) -> None:
    for ratio, is_shown in ((1.049, False), (1.12, True), (0.12, True)):
        metrics = {"framework_flops_ratio": Metric(ratio)}
        store = make_run(tmp_path / str(ratio), [training("cpu", "float32", 0.01, metrics=metrics)])
        note = f"FLOPs counted by tensorflow: {ratio:.3g}"
        for text in (printed(store), render_page(Run.of(store))):
            assert (note in " ".join(text.split())) == is_shown


def test_lines_below_a_name_are_indented(tmp_path: Path) -> None:
    metrics = {"framework_flops_ratio": Metric(1.12)}
    out = printed(make_run(tmp_path / "run", [training("cpu", "float32", 0.01, metrics=metrics)]), 60)
    lines = out.splitlines()
    first = next(number for number, line in enumerate(lines) if "FLOPs counted" in line)
    assert [line[:3].rstrip() for line in lines[first : first + 2]] != ["", ""], lines


NOISY = ["other processes used 0.9 of 2 CPUs"]


def test_a_run_of_noisy_points_is_marked_in_the_terminal(tmp_path: Path) -> None:
    quiet, noisy = record("queens", figure="items", work=Work(items=10)), record("stream", noise=NOISY)
    out = printed(make_run(tmp_path / "some", [quiet, noisy]))
    assert "1 of them noisy" in out
    assert "accelbench doctor" in " ".join(out.split())
    assert "all of them noisy" in printed(make_run(tmp_path / "all", [noisy]))
    assert "of them noisy" not in printed(make_run(tmp_path / "none", [quiet]))


def test_a_run_without_ceilings_has_no_shares_of_a_ceiling(tmp_path: Path) -> None:
    ceiling = record("fma", figure="flops", ceiling=True, work=Work(flops=2e9))
    point = record("matmul", figure="flops", work=Work(flops=1e9))
    store = make_run(tmp_path / "run", [ceiling, point], settings=Settings(ceilings=False))
    assert "% of ceiling unknown: " in printed(store)
    assert "50%" not in printed(store)
    assert 'id="ceilings"' not in render_page(Run.of(store))
    write_tables(store, Run.of(store))
    table = pd.read_parquet(store.path / "records.parquet")
    assert table["share_of_ceiling"].isna().all()
