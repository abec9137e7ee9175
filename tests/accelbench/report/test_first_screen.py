"""First screen of the page: tiles, step time with contention, doubtful shares, cards with plain names."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from accelbench.execution.plan import discover
from accelbench.profiling.analysis.bottleneck import HELP, judge, seconds_by_cause
from accelbench.profiling.analysis.roofline import ceilings
from accelbench.profiling.host.stacks import Frame, Stack, write_speedscope
from accelbench.profiling.records.bottleneck import Bottleneck, CpuTime
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.trace import PARTS, Breakdown
from accelbench.profiling.records.work import Work
from accelbench.report.flame_graph import flame_graph, without_own_frames
from accelbench.report.measured_roofs import make_roofline
from accelbench.report.page import render_page
from accelbench.report.plain_names import PLAIN_NAMES, plain_name
from accelbench.report.rows import make_rows
from accelbench.report.section import Run
from accelbench.report.sections import _columns
from accelbench.report.sections.benchmarks import FLAMES_DRAWN
from accelbench.report.step_bars import Bar, bar_of_causes, bar_of_parts
from tests.fixtures.report_node import cpu_records
from tests.fixtures.report_pages import Tags, page_of, printed
from tests.fixtures.report_profiles import host_profile, profile, trace_analysis
from tests.fixtures.report_records import cpu_telemetry, record, training
from tests.fixtures.report_runs import environment, make_run

BUSY_CPU = CpuTime(wall_s=10.0, run_s=10.0, wait_s=10.0, longest_wait_s=4.0)
NOISE = ["other processes used 0.9 of 2 CPUs"]


def breakdown() -> Breakdown:
    parts = dict.fromkeys(PARTS, 0.0) | {"kernel": 0.096, "host": 0.003, "input_wait": 0.001}
    return Breakdown(steps=10, step_s=0.1, parts=parts)


def contended() -> Bottleneck:
    doubt = "a traced step takes 2.1× the time of a measured one"
    return judge(seconds_by_cause(breakdown()), source="trace of 10 steps", cpu=BUSY_CPU, apart_text=doubt)


def shares(bar: Bar) -> dict[str, float]:
    return {part.label: part.share for part in bar.slices if part.share > 0}


def noisy_records() -> list[Record]:
    telemetry = cpu_telemetry().model_copy(update={"counters": {"wall_s": 10.0, "cpu.other_s": 9.0}})
    return [found.model_copy(update={"noise": NOISE, "telemetry": telemetry}) for found in cpu_records()]


def test_the_bars_of_causes_and_of_parts_have_the_shares_of_the_verdict() -> None:
    found = contended()
    causes, parts = bar_of_causes(profile(bottleneck=found), "cnn"), bar_of_parts(breakdown(), found)
    assert causes is not None
    assert sum(shares(causes).values()) == pytest.approx(1.0)
    assert sum(shares(parts).values()) == pytest.approx(1.0)
    waiting = "waiting for a CPU (contention)"
    assert shares(causes)[waiting] == shares(parts)[waiting] == found.shares["contention"] > 0.2
    assert shares(parts)["kernels"] == pytest.approx(shares(causes)["device"]) == found.shares["device"]
    assert shares(parts)["input wait"] == pytest.approx(0.01)
    assert causes.doubt == parts.doubt == found.apart_text


def test_kernels_that_count_as_dispatch_keep_the_share_of_dispatch() -> None:
    found = judge(seconds_by_cause(breakdown()), source="trace", kernel_s=1e-6)
    parts = shares(bar_of_parts(breakdown(), found))
    assert found.shares["dispatch"] == pytest.approx(parts["kernels"] + parts["host"])


def test_page_and_terminal_have_the_same_shares_and_the_doubt(tmp_path: Path) -> None:
    found = contended()
    trace = trace_analysis(breakdown=breakdown(), xprof_steps=None)
    traced = training("cpu", "float32", 0.048, profile=profile(bottleneck=found, trace=trace, host=None))
    store = make_run(tmp_path / "run", [traced], device="cpu")
    page = page_of(tmp_path / "page", [traced], device="cpu")
    device, waiting = (f"{100 * found.shares[cause]:.0f} %" for cause in ("device", "contention"))
    legends = re.findall(r'<ul class="legend">(.*?)</ul>', page)
    assert len(legends) == 2
    assert all(f"<strong>{device}" in legend and f"<strong>{waiting}" in legend for legend in legends)
    words = " ".join(printed(store).split())
    assert f"device-bound: device {device}, contention {waiting}" in words
    assert "doubtful: a traced step takes 2.1×" in words
    assert words.index(HELP["cpu-contended"]) < words.index("a faster device")
    assert "96 %" not in page.replace("96 % (", "")  # the share of kernels before contention is separated


def test_shares_of_noisy_ceilings_are_shown_as_doubtful_with_one_banner(tmp_path: Path) -> None:
    cpu = environment().cpu.model_copy(update={"logical": 2})
    changes = {"device": "cpu", "environment": environment(cpu=cpu)}
    page = page_of(tmp_path / "noisy", noisy_records(), **changes)
    assert page.count('<p class="notice disturbed"') == 1
    assert "0.90 of 2 CPUs (up to 0.90)" in page
    assert page.count('class="meter doubtful"') >= 8
    assert "≈ 89 %" in page
    assert "share of the ceiling unknown" not in page
    roofline = page[page.index("Roofline of the cpu:") :].split("</svg>")[0]
    assert "noisy roof (doubtful)" in roofline
    assert ">measured roof<" not in roofline
    quiet = page_of(tmp_path / "quiet", cpu_records()[:4], **changes)
    assert '<p class="notice disturbed"' not in quiet
    assert "doubtful" not in quiet.partition("</style>")[2].partition('id="ceilings"')[0]


def test_only_roofs_that_are_noisy_are_doubtful() -> None:
    records = [found.model_copy(update={"noise": NOISE * (number < 4)}) for number, found in enumerate(cpu_records())]
    roofline = make_roofline("cpu", make_rows(records), ceilings(records))
    assert roofline is not None
    assert roofline.doubtful == {"float32", "float64"}


def test_each_tile_has_a_number_a_bar_and_a_word(tmp_path: Path) -> None:
    page = page_of(tmp_path, [*cpu_records()[:-1], training("cpu", "float32", 0.05, profile=profile())], device="cpu")
    tiles = re.findall(r'<div class="tile">(.*?)</div>', page, flags=re.DOTALL)
    assert [re.findall("<dt>(.*?)</dt>", tile) for tile in tiles] == [["Speed"], ["Bottleneck"], ["Confidence"]]
    for tile in tiles:
        assert re.search(r'<dd class="light (good|disturbed|bad)">\w', tile)
        assert re.search(r'<dd class="big">\d', tile)
        assert re.search('class="(meter|stack)"', tile)
    order = ('class="tiles"', "Step time", 'class="roofline"', 'id="glance"', 'id="benchmarks"')
    assert sorted(order, key=page.index) == list(order)


def test_a_run_without_shares_has_tiles_without_bars(tmp_path: Path) -> None:
    page = page_of(tmp_path, [record("queens")], device="cpu")
    assert page.count('<div class="tile">') == 3
    assert page.count('class="light unknown"') == 2


def test_built_in_benchmarks_have_plain_names_and_others_their_own() -> None:
    declared = discover()
    assert sorted(PLAIN_NAMES) == sorted(declared)
    assert all(set(axes) <= set(declared[name].axes) for name, (_, axes) in PLAIN_NAMES.items())
    ceiling = cpu_records()[1]
    assert plain_name(ceiling) == "Arithmetic, float32, all cores"
    assert plain_name(record("mine", params={"dtype": "float32"})) == "mine"


@pytest.mark.parametrize("cards", range(1, 8))
def test_the_last_row_of_cards_is_at_least_three_quarters_full(cards: int) -> None:
    columns = _columns(cards)
    assert columns <= 5
    assert (cards % columns or columns) / columns >= 0.75


def test_details_are_no_column_of_the_tables(tmp_path: Path) -> None:
    tags = Tags(page_of(tmp_path, cpu_records(), device="cpu")).tags
    assert {"result", "verified"} <= {attrs.get("data-label") for _, attrs in tags}
    assert not {"also", "details"} & {attrs.get("data-label") for _, attrs in tags}


def stack(*files: str) -> Stack:
    return Stack(1, "MainThread", tuple(Frame(f"f{number}", file, number) for number, file in enumerate(files)))


def test_the_flame_graph_is_in_the_page_without_accelbench_frames(tmp_path: Path) -> None:
    own = ("<frozen runpy>", "accelbench/execution/worker.py", "accelbench/profiling/measure/training.py")
    stacks = {
        stack(*own, "accelbench/workloads/cnn_mnist.py", "keras/src/trainers/trainer.py"): 8,
        stack("train.py", "accelbench/profiling/attach/marks.py", "PIL/Image.py"): 3,
        stack(*own): 2,
    }
    kept = {tuple(frame.file for frame in found.frames): count for found, count in without_own_frames(stacks).items()}
    assert kept == {
        ("accelbench/workloads/cnn_mnist.py", "keras/src/trainers/trainer.py"): 8,
        ("train.py", "PIL/Image.py"): 3,
    }
    folder = tmp_path / "run" / "host"
    folder.mkdir(parents=True)
    write_speedscope(stacks, folder / "host.speedscope.json", "Host time")
    found = profile(host=host_profile(files={"speedscope": "host.speedscope.json"}), host_folder="host")
    drawing = flame_graph(found, tmp_path / "run", "flames", "Flame graph")
    assert drawing is not None
    names = re.findall(r"<g><title>(.*?):", drawing)
    assert "all" in names
    assert not any("accelbench/profiling" in name or "runpy" in name for name in names)
    outside = found.model_copy(update={"host_folder": "../run/host"})
    assert flame_graph(outside, tmp_path / "other", "flames", "Flame graph") is None
    (folder / "host.speedscope.json").write_text('{"shared": 1}', encoding="utf-8")
    assert flame_graph(found, tmp_path / "run", "flames", "Flame graph") is None


def test_flame_graphs_are_embedded_for_a_few_profiled_workloads(tmp_path: Path) -> None:
    found = profile(host=host_profile(files={"speedscope": "host.speedscope.json"}), host_folder="host")
    for count, embedded in ((1, 1), (FLAMES_DRAWN + 1, 0)):
        rows = [training("gpu", "float32", 0.05, profile=found, params={"batch": n}) for n in range(1, count + 1)]
        store = make_run(tmp_path / str(count), rows)
        (store.path / "host").mkdir()
        write_speedscope({stack("train.py"): 2}, store.path / "host" / "host.speedscope.json", "Host time")
        page = render_page(Run.of(store))
        assert page.count("Flame graph of cnn-mnist gpu") == embedded
        ids = [attrs["id"] for _, attrs in Tags(page).tags if "id" in attrs]
        assert len(ids) == len(set(ids))


def test_a_profile_that_is_not_of_the_leading_workload_is_in_the_tile(tmp_path: Path) -> None:
    slow = training("gpu", "float32", 0.05, profile=profile())
    page = page_of(tmp_path, [training("gpu", "mixed_float16", 0.01), slow])
    tile = page[page.index("<dt>Bottleneck</dt>") :].split("</div>")[0]
    assert "input-bound" in tile
    assert "50 %" in tile


def test_shares_of_kernels_are_in_the_tile_without_training(tmp_path: Path) -> None:
    products = [
        record("matmul", params={"n": n}, figure="flops", work=Work(flops=rate)) for n, rate in ((1, 1e9), (2, 3e9))
    ]
    ceiling = record("fma", figure="flops", ceiling=True, work=Work(flops=4e9))
    page = page_of(tmp_path, [ceiling, *products], device="cpu")
    tile = page[page.index("<dt>Bottleneck</dt>") :].split("</div>")[0]
    assert '<dd class="big">25 %' in tile
    assert np.isclose(float(re.findall(r"width: ([\d.]+)%", tile)[0]), 25.0)
