"""Plot of results against a swept size, with the machine's caches."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.execution.store import RunStore
from accelbench.profiling.analysis.roofline import ceilings, share_of_ceiling
from accelbench.profiling.records.environment import Cache
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from accelbench.report.page import render_page
from accelbench.report.rows import make_groups, make_rows
from accelbench.report.section import Run
from accelbench.report.sweep_plot import sweep
from accelbench.report.table import write_tables
from tests.fixtures.report_records import HOSTILE, record, timing
from tests.fixtures.report_runs import environment, make_run

KIB = (8, 32, 256, 1024, 32768, 262144)
STEPS = 1 << 18


def bandwidth(kib: int, rate: float, device: str = "cpu", **params: Any) -> Record:
    return record(
        "cache-bandwidth",
        device,
        params={**params, "kib": kib},
        figure="bytes",
        work=Work(bytes=1e9),
        timing=timing(1e9 / rate, seed=kib),
    )


def latency(kib: int, seconds: float, device: str = "cpu") -> Record:
    return record(
        "cache-latency",
        device,
        params={"kib": kib},
        work=Work(items=STEPS, item="accesses"),
        timing=timing(seconds * STEPS, seed=kib),
    )


def drawn(records: list[Record], **changes: Any) -> str | None:
    (group,) = make_groups(make_rows(records))
    return sweep(group, environment(**changes), "sweep")


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]


def lines_of(svg: str) -> list[int]:
    """Return the number of points of each line."""
    paths = re.findall(r'<path d="([^"]+)"[^>]*style="[^"]*fill: none[^"]*stroke: var\(--series-\d\)', svg)
    return [path.count("L") + 1 for path in paths]


def test_a_sweep_is_one_line_through_its_points_in_order_of_size() -> None:
    svg = drawn([bandwidth(kib, 4e11 / kib) for kib in reversed(KIB)])
    assert svg is not None
    (path,) = re.findall(r'<path d="([^"]+)"[^>]*style="[^"]*fill: none[^"]*stroke: var\(--series-1\)', svg)
    places = [tuple(map(float, point.split())) for point in re.findall(r"[ML] ([\d.]+ [\d.]+)", path)]
    assert len(places) == len(KIB)
    assert places == sorted(places), "ascending size, and descending rate"
    # Equal ratios are equal distances on both axes: 8 to 32 as 256 to 1024.
    assert places[1][0] - places[0][0] == pytest.approx(places[3][0] - places[2][0], abs=0.01)
    assert places[1][1] - places[0][1] == pytest.approx(places[3][1] - places[2][1], rel=0.05)


def test_the_other_axes_are_labelled_lines() -> None:
    svg = drawn([bandwidth(kib, 1e11 * (1 + (cores == "all")), cores=cores) for cores in ("one", "all") for kib in KIB])
    assert svg is not None
    assert lines_of(svg).count(len(KIB)) == 2
    assert {"cores=one", "cores=all"} <= set(texts(svg))


def test_known_caches_are_marked_and_labelled() -> None:
    svg = drawn([bandwidth(kib, 1e11) for kib in KIB])
    assert svg is not None
    assert {"L1 32 KiB", "L2 1 MiB", "L3 32 MiB"} <= set(texts(svg))
    assert svg.count("stroke-dasharray") == 3


def test_only_caches_within_the_drawing_are_marked() -> None:
    svg = drawn([bandwidth(kib, 1e11) for kib in (64, 128, 256, 512, 2048)])
    assert svg is not None
    assert [text for text in texts(svg) if text.startswith("L")] == ["L2 1 MiB"]


def test_unknown_caches_have_no_marks() -> None:
    svg = drawn([bandwidth(kib, 1e11) for kib in KIB], cpu=environment().cpu.model_copy(update={"caches": []}))
    assert svg is not None
    assert "stroke-dasharray" not in svg


def test_labels_of_caches_of_similar_size_do_not_overlap() -> None:
    caches = [Cache(level=n, kind="Unified", size_bytes=size << 10, shared_by=1) for n, size in ((1, 32), (2, 40))]
    svg = drawn([bandwidth(kib, 1e11) for kib in KIB], cpu=environment().cpu.model_copy(update={"caches": caches}))
    assert svg is not None
    heights = {}
    for element in ElementTree.fromstring(svg).iter():
        if element.tag.endswith("text") and (element.text or "").startswith("L"):
            heights[element.text] = re.findall(r"[\d.]+", element.get("transform") or element.get("y") or "")[-2:]
    assert len(heights) == 2
    assert len({str(height) for height in heights.values()}) == 2


def test_a_gpu_has_only_its_l2_cache() -> None:
    (gpu,) = environment().gpus
    records = [bandwidth(kib, 1e12, "gpu") for kib in KIB]
    svg = drawn(records, gpus=[gpu.model_copy(update={"l2_bytes": 50 << 20})])
    assert svg is not None
    assert [text for text in texts(svg) if re.match(r"L\d", text)] == ["L2 50 MiB"]
    unknown = drawn(records, gpus=[gpu])
    assert unknown is not None
    assert [text for text in texts(unknown) if re.match(r"L\d", text)] == []


def test_a_time_is_per_item() -> None:
    records = [latency(kib, 1e-9 * kib**0.5) for kib in KIB]
    (group,) = make_groups(make_rows(records))
    assert [row.reading.unit for row in group.rows] == ["ns"] * len(KIB)
    assert float(group.rows[1].reading.value) == pytest.approx(32**0.5, rel=0.01)
    svg = drawn(records)
    assert svg is not None
    assert any(text.endswith(" ns") for text in texts(svg))


def test_the_table_has_the_time_per_item(tmp_path: Any) -> None:
    store = make_run(tmp_path / "run", [latency(8, 2e-9), record("one")])
    write_tables(store, Run.of(store))
    table = pd.read_parquet(store.path / "records.parquet")
    assert table["rate"].tolist() == pytest.approx([2e-9, 1e-3], rel=0.01)
    assert table["median_s"].tolist() == pytest.approx([2e-9 * STEPS, 1e-3], rel=0.01)
    assert (table["rate_low"] <= table["rate"]).all()
    assert (table["rate"] <= table["rate_high"]).all()


@pytest.mark.parametrize(
    "records",
    [
        [bandwidth(kib, 1e11) for kib in KIB[:3]],
        [record("matmul", params={"n": n}) for n in (1, 2, 4, 8, 16)],
        [record("one")],
    ],
    ids=["few sizes", "no size", "one point"],
)
def test_without_a_swept_size_there_is_no_drawing(records: list[Record]) -> None:
    assert drawn(records) is None


def test_every_unit_of_size_is_drawn_to_scale() -> None:
    for unit in (1, 1 << 10, 1 << 20):
        size = {"figure": "bytes", "sizes": {"groesse": unit}}
        records = [record("transfer", params={"groesse": n}, work=Work(bytes=n), **size) for n in (1, 16, 256, 4096)]
        svg = drawn(records)
        assert svg is not None
        assert ("1 KiB" if unit < 1 << 20 else "1 MiB") in texts(svg)


def test_failed_points_and_infinite_rates_are_left_out() -> None:
    measured = [bandwidth(kib, 1e11) for kib in KIB]
    odd = bandwidth(64, 1e11).model_copy(update={"work": Work(bytes=1.7e308)})
    failed = bandwidth(128, 1e11).model_copy(update={"status": "failed", "reason": "killed"})
    svg = drawn([*measured, odd, failed])
    assert svg is not None
    assert lines_of(svg) == [len(KIB)]


def test_recorded_text_is_escaped() -> None:
    svg = drawn([bandwidth(kib, 1e11, mode=mode) for kib in KIB for mode in (HOSTILE, "plain")])
    assert svg is not None
    assert "<script" not in svg
    assert "<img" not in svg


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(
    st.dictionaries(st.integers(1, 1 << 24), st.floats(1e-2, 1e15), min_size=4, max_size=12),
    st.sampled_from(["cpu", "gpu"]),
)
def test_any_sizes_and_rates_can_be_drawn(points: dict[int, float], device: str) -> None:
    svg = drawn([bandwidth(kib, rate, device) for kib, rate in points.items()])
    assert svg is not None
    assert lines_of(svg) == [len(points)]


@pytest.mark.slow
def test_the_page_has_the_drawing_and_is_reproducible(tmp_path: Any) -> None:
    records = [*(bandwidth(kib, 1e11) for kib in KIB), *(latency(kib, 2e-9) for kib in KIB), record("one")]
    store: RunStore = make_run(tmp_path / "run", records)
    page = render_page(Run.of(store))
    assert page.count("against size.</strong>") == 2
    assert "<strong>Rate against size.</strong>" in page
    assert "<strong>Time against size.</strong>" in page
    assert page == render_page(Run.of(store))
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_cache_bandwidth_has_no_share_of_memory_bandwidth() -> None:
    memory = record("stream", figure="bytes", ceiling=True, work=Work(bytes=1e9), timing=timing(1e9 / 2e10))
    cached = bandwidth(8, 2e11)
    assert memory.bound.metric == "bytes"
    assert cached.bound.metric is None
    share = share_of_ceiling(cached, ceilings([memory, cached]))
    assert share.value is None
    assert "cache" in (share.reason or "")
    assert all(flag.word != "over 100 %" for row in make_rows([memory, cached]) for flag in row.flags)
