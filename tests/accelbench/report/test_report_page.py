"""The page: complete, self-contained, and robust against unusual records and hostile text."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from accelbench.execution.store import OtherRank, RunStore
from accelbench.profiling.records.environment import Cache, CoreKind, Cuda
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


def test_every_point_is_in_the_page_with_its_result_or_reason(rich_run: RunStore, page: str) -> None:
    text = " ".join(Tags(page).text.split())
    for found in rich_run.records():
        if found.status == "measured":
            reading = next(row.reading for row in make_rows([found]))
            assert f"{reading.value} {reading.unit}" in text
            assert shell_command(found, rich_run.info().settings) in text
        else:
            assert found.reason is not None
            assert found.reason in text


def test_each_share_has_its_reference(page: str) -> None:
    text = " ".join(Tags(page).text.split())
    assert "float32 arithmetic, 1.71 TFLOP/s" in text
    assert "of 989 TFLOP/s" in text
    assert "at the observed clock" in text
    assert "MFU: of vendor's peak" in text
    assert "a virtual machine" in text


def test_counters_that_are_always_zero_share_one_line(page: str) -> None:
    text = " ".join(Tags(page).text.split())
    assert "on the cpu: cgroup throttled." in text
    assert "cpu steal" in text


def test_unknown_facts_of_the_machine_are_unknown_with_their_reason(page: str) -> None:
    text = " ".join(Tags(page).text.split())
    assert "frequency governorunknown" in text


def test_the_page_is_self_contained(page: str) -> None:
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


def test_drawings_and_tables_are_labelled_for_screen_readers(page: str) -> None:
    tags = Tags(page).tags
    drawings = [attributes for tag, attributes in tags if tag == "svg"]
    assert len(drawings) >= 12
    assert all(a.get("role") == "img" and a.get("aria-labelledby") for a in drawings)
    assert all(a.get("scope") in ("col", "row") for tag, a in tags if tag == "th")


def test_drawings_use_the_colours_of_the_page(page: str) -> None:
    for drawing in re.findall(r"<svg.*?</svg>", page, flags=re.S):
        assert "var(--ink)" in drawing
        assert not re.search(r"(?:fill|stroke): #", drawing)
        assert "<style" not in drawing


@pytest.mark.parametrize(
    "where", ["reason", "output_tail", "noise", "params", "backend", "metrics", "unit", "item", "curves", "machine"]
)
def test_hostile_text_is_escaped(where: str, tmp_path: Path) -> None:
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


def test_a_run_without_results_has_a_page(tmp_path: Path) -> None:
    failed = unmeasured("matmul", "failed", "killed by SIGKILL")
    html = page_of(tmp_path, [failed])
    assert "killed by SIGKILL" in html
    assert "0 of 1 points" in html
    empty = page_of(tmp_path / "empty", [], status="interrupted")
    assert "interrupted" in empty


def test_a_single_sample_an_unfinished_run_and_a_diverged_training_are_shown(tmp_path: Path) -> None:
    once = record("queens", figure="items", work=Work(items=10, item="nodes"), timing=timing(2.0, count=1))
    diverged = training("cpu", "float32", 0.01, curves={"loss": [1.0, inf, nan], "val_loss": [nan, nan, nan]})
    store = make_run(tmp_path / "run", [once, diverged], plan=[], status="interrupted")
    html = render_page(Run.of(store))
    assert "1 sample: " in html
    assert "interrupted" in html


def test_roofline_markers_identify_implementations_and_tooltips_identify_points(page: str) -> None:
    drawing = page[page.index("Roofline of the cpu:") :].partition("</svg>")[0]
    legend = re.findall(r"<text[^>]*>([^<]*)</text>", drawing)
    assert {"matmul numba", "matmul vendor", "stream dot", "stream triad", "measured roof"} <= set(legend)
    assert "<title>matmul cpu impl=numba dtype=float32 n=2048: 921 GFLOP/s, 341 FLOP/byte</title>" in drawing


def test_a_training_workload_is_in_the_roofline_by_its_minimum_traffic(tmp_path: Path) -> None:
    roofs = [
        record("peak-arith", "cpu", figure="flops", ceiling=True, work=Work(flops=1e9), params={"dtype": "float32"}),
        record("stream", "cpu", figure="bytes", ceiling=True, work=Work(bytes=1e9)),
    ]
    trained = training("cpu", "float32", 0.1, work=Work(flops=9e9, bytes=1.5e8, items=128, item="images"))
    page = page_of(tmp_path, [*roofs, trained])
    assert "1 point under the roofs" in page
    assert "60.0 FLOP/byte" in page


def test_a_training_workload_on_several_devices_is_not_in_the_roofline(tmp_path: Path) -> None:
    roofs = [
        record("matmul", "gpu", figure="flops", ceiling=True, work=Work(flops=1e9), params={"dtype": "float32"}),
        record("stream", "gpu", figure="bytes", ceiling=True, work=Work(bytes=1e9)),
    ]
    work = Work(flops=9e9, bytes=1.5e8, items=128, item="images")
    one = training("gpu", "float32", 0.1, work=work)
    two = training("gpu", "float32", 0.1, work=work, params={"precision": "float32", "batch": 128, "processes": 2})
    page = page_of(tmp_path, [*roofs, one, two])
    assert "1 point under the roofs" in page


def test_cards_of_one_benchmark_have_their_frameworks(tmp_path: Path) -> None:
    trained = [training("cpu", "float32", 0.1, backend=backend) for backend in ("tensorflow", "torch")]
    page = page_of(tmp_path, trained)
    glance = page[page.index('id="glance"') : page.index('id="benchmarks"')]
    assert re.findall(r'class="device">(\w+)<', glance) == ["tensorflow", "torch"]
    assert 'class="device">tensorflow' not in page_of(tmp_path / "one", trained[:1])


def test_the_page_lists_the_ranks_of_each_node_and_their_differences(tmp_path: Path) -> None:
    there, newer = environment(), environment(cuda=Cuda(driver="580.65.06", driver_cuda="13.0"))
    others = [OtherRank(rank=rank, node=node, environment=own) for rank, node, own in ((1, 0, there), (2, 1, newer))]
    page = page_of(tmp_path, [training("gpu", "float32", 0.1)], other_ranks=others, device="gpu")
    machine = page[page.index('id="machine"') :]
    assert "<dt>node 0</dt><dd>ranks 0, 1: AMD EPYC 9454" in machine
    assert "1× NVIDIA H200" in machine
    assert "<dt>node 1</dt><dd>rank 2: AMD EPYC 9454" in machine
    assert re.search("<dt>rank 2 differs</dt><dd>cuda.driver[^<]*580.65.06[^<]*570.86.15", machine)
    assert "<dt>rank 1 differs" not in machine
    assert "<h3>Ranks" not in page_of(tmp_path / "single", [training("gpu", "float32", 0.1)])


def test_a_page_of_noisy_points_is_marked(tmp_path: Path) -> None:
    noisy = record("stream", figure="bytes", ceiling=True, work=Work(bytes=1e9), noise=["steal: 9%"])
    page = page_of(tmp_path / "noisy", [noisy])
    assert '<p class="verdict disturbed">' in page
    assert '<a class="card disturbed"' in page
    assert "1 of 1 results" in page
    assert 'title="' in page[page.index('<section id="ceilings"') :].partition("</table>")[0]
    quiet = page_of(tmp_path / "quiet", [noisy.model_copy(update={"noise": []})])
    assert '<p class="verdict good">' in quiet
    assert 'class="card disturbed"' not in quiet
    failed = page_of(tmp_path / "failed", [noisy, unmeasured("fma", "failed", "it crashed")])
    assert '<p class="verdict bad">' in failed


def test_the_head_links_data_and_logs(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", [record("queens")])
    for logs in (False, True):
        if logs:
            (store.path / "logs").mkdir()
        page = write_report(store).read_text(encoding="utf-8")
        links = [str(fields["href"]) for tag, fields in Tags(page).tags if tag == "a" and "./" in str(fields["href"])]
        assert links == ["./records.csv", "./records.parquet", "./records.jsonl"] + ["./logs/"] * logs
        assert all((store.path / link).exists() for link in links)


def test_studies_are_first_for_the_suite_of_a_study(tmp_path: Path) -> None:
    for study, order in ((True, ["studies", "glance"]), (False, ["glance", "studies"])):
        page = page_of(tmp_path / str(study), study_records(), study=study)
        assert sorted(order, key=lambda anchor: page.index(f'<section id="{anchor}"')) == order


def test_a_column_without_known_values_is_omitted(tmp_path: Path, page: str) -> None:
    ceiling = record("stream", figure="bytes", ceiling=True, work=Work(bytes=1e9))
    column = '<th scope="col">of vendor\'s peak</th>'
    assert column in page
    assert column not in page_of(tmp_path / "cpu", [ceiling])


def test_the_cpus_of_a_pinned_point_are_shown(tmp_path: Path) -> None:
    pinned = Placement(first=1, last=1, allowed=[1], pinned=True)
    free = Placement(first=0, last=1, allowed=[0, 1])
    assert "on CPU 1<" in page_of(tmp_path / "pinned", [record("queens", placement=pinned)])
    assert "on CPU" not in page_of(tmp_path / "free", [record("queens", placement=free)])


def test_slow_cpus_and_limiting_settings_are_shown_with_the_machine(tmp_path: Path) -> None:
    there = environment()
    cpu = there.cpu.model_copy(update={"bandwidths": {0: 250e9, 1: 140e9}})
    software = there.software.model_copy(update={"settings": {"OPENBLAS_CORETYPE": "Haswell"}})
    held = there.model_copy(update={"cpu": cpu, "software": software})
    machine = page_of(tmp_path, [record("queens")], environment=held).partition('id="machine"')[2]
    assert "1.79" in machine
    assert "OPENBLAS_CORETYPE=Haswell" in machine


def test_kinds_of_cores_and_the_one_of_points_on_one_core_are_shown(tmp_path: Path) -> None:
    there = environment()
    caches = [Cache(level=2, kind="Unified", size_bytes=2 << 20, shared_by=1)]
    kinds = [
        CoreKind(name="Cortex-X925", cpus=[5, 6], cores=2, frequency_mhz=3900, caches=caches),
        CoreKind(name="Cortex-A725", cpus=[0, 1], cores=2),
    ]
    cpu = there.cpu.model_copy(update={"kinds": kinds, "one_core_kind": "Cortex-X925"})
    placement = Placement(first=5, last=5, allowed=[5], pinned=True, core_kind="Cortex-X925")
    page = page_of(tmp_path, [record("queens", placement=placement)], environment=there.model_copy(update={"cpu": cpu}))
    machine = page.partition('id="machine"')[2]
    first = "2 cores, CPUs 5-6, 3,900 MHz, L2 2 MiB, 16 FLOP per cycle in float64"
    assert f"<dt>kind 1: Cortex-X925</dt><dd>{first}" in machine
    assert "<dt>kind 2: Cortex-A725</dt><dd>2 cores, CPUs 0-1, 16 FLOP" in machine
    assert "<dt>one core</dt><dd>Cortex-X925</dd>" in machine
    assert "on CPU 5 (Cortex-X925)" in page
    assert "one core: Cortex-X925" in printed(RunStore.open(tmp_path / "run"))
