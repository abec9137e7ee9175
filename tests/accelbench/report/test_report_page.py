"""The page: everything of the store is in it, nothing from outside, and odd records and hostile words do no harm."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from accelbench.execution.store import OtherRank, RunStore
from accelbench.profiling.records.environment import Cuda
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.telemetry import Placement
from accelbench.profiling.records.work import Work
from accelbench.report import write_report
from accelbench.report.page import render_page
from accelbench.report.rows import make_rows, shell_command
from accelbench.report.section import Run
from tests.fixtures.report_node import study_records
from tests.fixtures.report_pages import Tags, page_of, printed
from tests.fixtures.report_records import HOSTILE, record, timing, training, unmeasured
from tests.fixtures.report_runs import environment, make_run


def test_every_point_is_in_the_page_with_its_figure_or_its_reason(rich_run: RunStore, page: str) -> None:
    text = " ".join(Tags(page).text.split())
    for found in rich_run.records():
        if found.status == "measured":
            figure = next(row.reading for row in make_rows([found]))
            assert f"{figure.value} {figure.unit}" in text
            assert shell_command(found, rich_run.info().settings) in text
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
            assert target.startswith(("#", "data:", "./")), f"<{tag} {name}={target}>"
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
        "params": {"point": replace(found.point, params={"precision": HOSTILE, "batch": 1})},
        "backend": {"point": replace(found.point, backend=HOSTILE)},
        "metrics": {"metrics": {HOSTILE: Metric(1.0, "s")}},
        "unit": {"metrics": {"m": Metric(1.0, HOSTILE)}},
        "item": {"work": Work(flops=1e9, items=3, item=HOSTILE)},
        "curves": {"curves": {HOSTILE: [1.0, 2.0]}},
        "machine": {},
    }
    machine = environment()
    if where == "machine":
        machine = machine.model_copy(update={"cpu": machine.cpu.model_copy(update={"model": HOSTILE})})
    second = found.model_copy(update={"point": replace(found.point, params={"precision": "float32", "batch": 2})})
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
    html = render_page(Run.of(store))
    assert "1 sample: the interval covers the median with 0%" in html
    assert "interrupted" in html


def test_the_marks_under_the_roofs_tell_the_implementations_apart_and_the_pointer_each_point(page: str) -> None:
    drawing = page[page.index("Roofline of the cpu:") :].partition("</svg>")[0]
    legend = re.findall(r"<text[^>]*>([^<]*)</text>", drawing)
    assert {"matmul numba", "matmul vendor", "stream dot", "stream triad", "measured roof"} <= set(legend)
    assert "<title>matmul cpu impl=numba dtype=float32 n=2048: 921 GFLOP/s, 341 FLOP a byte</title>" in drawing


def test_a_training_stands_under_the_roofline_by_the_bytes_it_must_move(tmp_path: Path) -> None:
    roofs = [
        record("peak-arith", "cpu", figure="flops", ceiling=True, work=Work(flops=1e9), params={"dtype": "float32"}),
        record("stream", "cpu", figure="bytes", ceiling=True, work=Work(bytes=1e9)),
    ]
    trained = training("cpu", "float32", 0.1, work=Work(flops=9e9, bytes=1.5e8, items=128, item="images"))
    page = page_of(tmp_path, [*roofs, trained])
    assert "1 point under the roofs" in page
    assert "60.0 FLOP a byte" in page


def test_a_training_on_several_devices_is_not_drawn_under_the_roofs_of_one(tmp_path: Path) -> None:
    roofs = [
        record("matmul", "gpu", figure="flops", ceiling=True, work=Work(flops=1e9), params={"dtype": "float32"}),
        record("stream", "gpu", figure="bytes", ceiling=True, work=Work(bytes=1e9)),
    ]
    work = Work(flops=9e9, bytes=1.5e8, items=128, item="images")
    one = training("gpu", "float32", 0.1, work=work)
    two = training("gpu", "float32", 0.1, work=work, params={"precision": "float32", "batch": 128, "processes": 2})
    page = page_of(tmp_path, [*roofs, one, two])
    assert "1 point under the roofs" in page


def test_cards_of_one_benchmark_name_their_frameworks(tmp_path: Path) -> None:
    trained = [training("cpu", "float32", 0.1, backend=backend) for backend in ("tensorflow", "torch")]
    page = page_of(tmp_path, trained)
    glance = page[page.index('id="glance"') : page.index('id="benchmarks"')]
    assert re.findall(r'class="device">(\w+)<', glance) == ["tensorflow", "torch"]
    assert 'class="device">tensorflow' not in page_of(tmp_path / "one", trained[:1])


def test_the_page_says_which_ranks_were_where_and_how_they_differ(tmp_path: Path) -> None:
    there, newer = environment(), environment(cuda=Cuda(driver="580.65.06", driver_cuda="13.0"))
    others = [OtherRank(rank=rank, node=node, environment=seen) for rank, node, seen in ((1, 0, there), (2, 1, newer))]
    page = page_of(tmp_path, [training("gpu", "float32", 0.1)], other_ranks=others, device="gpu")
    machine = page[page.index('id="machine"') :]
    assert "<dt>node 0</dt><dd>ranks 0, 1: AMD EPYC 9454" in machine
    assert "1× NVIDIA H200" in machine
    assert "<dt>node 1</dt><dd>rank 2: AMD EPYC 9454" in machine
    assert "<dt>rank 2 differs</dt><dd>cuda.driver is 580.65.06, not 570.86.15" in machine
    assert "<dt>rank 1 differs" not in machine
    assert "<h3>Ranks" not in page_of(tmp_path / "alone", [training("gpu", "float32", 0.1)])


def test_a_page_of_disturbed_points_has_no_green_dot(tmp_path: Path) -> None:
    noisy = record("stream", figure="bytes", ceiling=True, work=Work(bytes=1e9), noise=["steal: 9%"])
    page = page_of(tmp_path / "noisy", [noisy])
    assert '<p class="verdict disturbed">1 of 1 points measured and verified, all of them disturbed' in page
    assert '<a class="card disturbed"' in page
    assert "Low confidence: 1 of 1 results is noisy" in page
    text = " ".join(Tags(page).text.split())
    assert "No share is of a ceiling in doubt memory bandwidth was disturbed: steal: 9%." in text
    quiet = page_of(tmp_path / "quiet", [noisy.model_copy(update={"noise": []})])
    assert '<p class="verdict good">' in quiet
    assert 'class="card disturbed"' not in quiet
    failed = page_of(tmp_path / "failed", [noisy, unmeasured("fma", "failed", "it crashed")])
    assert '<p class="verdict bad">' in failed


def test_the_head_links_the_data_and_what_the_workers_printed(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", [record("queens")])
    for logs in (False, True):
        if logs:
            (store.path / "logs").mkdir()
        page = write_report(store).read_text(encoding="utf-8")
        links = [str(fields["href"]) for tag, fields in Tags(page).tags if tag == "a" and "./" in str(fields["href"])]
        assert links == ["./records.csv", "./records.parquet", "./records.jsonl"] + ["./logs/"] * logs
        assert all((store.path / link).exists() for link in links)


def test_a_study_stands_first_where_the_suite_is_one(tmp_path: Path) -> None:
    for study, order in ((True, ["studies", "glance"]), (False, ["glance", "studies"])):
        page = page_of(tmp_path / str(study), study_records(), study=study)
        assert sorted(order, key=lambda anchor: page.index(f'<section id="{anchor}"')) == order


def test_a_column_that_would_say_unknown_in_every_row_is_not_there(tmp_path: Path, page: str) -> None:
    ceiling = record("stream", figure="bytes", ceiling=True, work=Work(bytes=1e9))
    column = '<th scope="col">of vendor\'s peak</th>'
    assert column in page
    assert column not in page_of(tmp_path / "cpu", [ceiling])


def test_the_cpus_that_a_one_core_point_was_pinned_to_stand_beside_its_figure(tmp_path: Path) -> None:
    pinned = Placement(first=1, last=1, allowed=[1], pinned=True)
    free = Placement(first=0, last=1, allowed=[0, 1])
    assert "on CPU 1<" in page_of(tmp_path / "pinned", [record("queens", placement=pinned)])
    assert "on CPU" not in page_of(tmp_path / "free", [record("queens", placement=free)])


def test_cpus_that_the_probe_found_slower_and_settings_below_the_cpu_stand_with_the_machine(tmp_path: Path) -> None:
    there = environment()
    cpu = there.cpu.model_copy(update={"bandwidths": {0: 250e9, 1: 140e9}})
    software = there.software.model_copy(update={"settings": {"OPENBLAS_CORETYPE": "Haswell"}})
    held = there.model_copy(update={"cpu": cpu, "software": software})
    machine = page_of(tmp_path, [record("queens")], environment=held).partition('id="machine"')[2]
    assert "CPU 1 ×1.79 slower than CPU 0" in machine
    assert "OPENBLAS_CORETYPE=Haswell keeps OpenBLAS to AVX2, and this CPU has AVX-512" in machine
