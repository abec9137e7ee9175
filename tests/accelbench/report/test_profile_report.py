"""Profiles in table and page: bottleneck, evidence, links to files, and missing parts."""

from __future__ import annotations

import io
import re
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from selenium import webdriver

from accelbench.output.console import PlainConsole
from accelbench.profiling.analysis.bottleneck import HELP, judge
from accelbench.profiling.devices import device_kind
from accelbench.profiling.records.bottleneck import Bottleneck, CpuTime
from accelbench.profiling.records.host import HostCounters, Sampling, ThreadShare
from accelbench.profiling.records.record import Profile, Record
from accelbench.profiling.records.trace import Breakdown, Capture, Operation, OperationKind, TraceAnalysis, XprofSteps
from accelbench.report import write_report
from accelbench.report.bottleneck_text import bottleneck_line
from accelbench.report.page import render_page
from accelbench.report.section import Run
from accelbench.report.terminal import print_run
from tests.accelbench.report.test_report_browser import SCHEMES, ask, browser, show
from tests.fixtures.report_pages import Tags
from tests.fixtures.report_profiles import host_profile, profile, trace_analysis
from tests.fixtures.report_records import HOSTILE, record, training
from tests.fixtures.report_runs import make_run

__all__ = ["browser"]  # a fixture

UNKNOWN = Bottleneck(reason="PyTorch's profiler writes no xplane.pb; py-spy may not attach")
MAX_BYTES = 5_000_000
"""Maximum size of a page; the largest suite has fewer than 60 training workloads."""


def trained(found: Profile | None, **changes: Any) -> Record:
    return training("gpu", "float32", 0.021, profile=found, **changes)


def page_of(path: Path, *records: Record, **changes: Any) -> str:
    store = make_run(path / "run", list(records), **changes)
    return render_page(Run.of(store))


def text_of(page: str) -> str:
    """Return the page's text without its style sheet, on one line."""
    return " ".join(Tags(re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)).text.split())


def printed(path: Path, *records: Record, width: int = 100) -> str:
    store, out = make_run(path / "run", list(records)), io.StringIO()
    print_run(Run.of(store), PlainConsole(file=out, width=width, verbose=True))
    return " ".join(out.getvalue().split())


def test_a_profile_of_other_steps_is_doubtful_in_the_short_line(tmp_path: Path) -> None:
    for number, apart in enumerate((None, "a traced step takes 2.1 times a measured one")):
        found = judge({"device": 0.7, "contention": 0.3}, source="trace", apart_text=apart)
        store, out = make_run(tmp_path / str(number), [trained(profile(bottleneck=found))]), io.StringIO()
        print_run(Run.of(store), PlainConsole(file=out, width=140))
        assert (f"doubtful: {apart}" in out.getvalue()) is (apart is not None)


def test_the_table_has_the_bottleneck_of_each_training_workload_and_the_advice_once(tmp_path: Path) -> None:
    text = printed(tmp_path, trained(profile()), trained(profile(), params={"precision": "float64", "batch": 1}))
    assert text.count("input-bound: input 50 %, device 30 %, dispatch 13 %") == 2
    assert text.count(" ".join(HELP["input-bound"].split()[:6])) == 1


def test_the_table_has_the_reason_for_an_unknown_bottleneck(tmp_path: Path) -> None:
    text = printed(tmp_path, trained(profile(bottleneck=UNKNOWN)))
    assert "bottleneck unknown: PyTorch's profiler" in text
    assert "To speed it up" not in text


def test_a_cpu_quota_is_the_bottleneck_with_its_share_of_the_time() -> None:
    found = judge(
        {"device": 0.9, "input": 0.1},
        source="trace",
        cpu=CpuTime(wall_s=10.0, run_s=4.0, wait_s=6.0, longest_wait_s=6.0, throttled_s=6.0),
    )
    line = bottleneck_line(profile(bottleneck=found))
    assert line.startswith("cpu-quota-bound")
    assert "60%" in line


def test_the_line_has_all_causes_of_similar_size_and_the_caveat() -> None:
    caveat = "a traced step takes 3.0 times a measured one"
    found = judge({"device": 0.46, "input": 0.4, "dispatch": 0.14}, source="trace", apart_text=caveat)
    line = bottleneck_line(profile(bottleneck=found))
    assert line.startswith("device-bound and input-bound: device 46 %, input 40 %, dispatch 14 %; ")
    assert line.endswith(caveat)


def test_negligible_shares_are_not_in_the_line() -> None:
    found = judge({"device": 0.998, "input": 0.002}, source="trace")
    assert bottleneck_line(profile(bottleneck=found)) == "device-bound: device 100 %"


@pytest.mark.parametrize("found", [record("launch"), training("gpu", "float32", 0.01)])
def test_an_unprofiled_row_has_no_profile_section(tmp_path: Path, found: Record) -> None:
    page = page_of(tmp_path, found)
    assert "<summary>Bottleneck" not in page
    assert 'class="badge"' not in page
    assert "-bound" not in printed(tmp_path / "again", found)


def test_the_page_has_bottleneck_breakdown_and_host_profile(tmp_path: Path) -> None:
    page = page_of(tmp_path, trained(profile()))
    text = text_of(page)
    for part in (
        "Bottleneck",
        "input-bound: input 50 %, device 30 %, dispatch 13 %",
        HELP["input-bound"],
        "mean of 50 traced steps, 21.0 ms",
        "mean of 48 steps, 21.2 ms",
        "highly input-bound: 49.5% of the step waits for input",
        "Your program is HIGHLY input-bound.",
        "3 GiB",
        "sm90_xmma_fprop_9",
        "ParseExample",
        "Thread-4 (worker) 60 %, MainThread 11 %",
        "0.6 %",
        "16 cores: median 62 %, from 25 % to 100 %",
        "400 ms in 7 periods",
        "3 more threads",
        "accelbench tensorboard 20260314-092653-full-a1b2",
    ):
        assert part in text, part
    assert "sm90_xmma_fprop_10" not in text  # ten of each kind
    assert "no steal time" in text
    assert text.count("native frames:") == 1


def test_the_badge_links_to_the_details_of_its_row(tmp_path: Path) -> None:
    other = trained(profile(), params={"precision": "float64", "batch": 1})
    without = trained(None, params={"precision": "tf32", "batch": 1})
    tags = Tags(page_of(tmp_path, trained(profile()), without, other)).tags
    badges = [attrs["href"] for tag, attrs in tags if tag == "a" and attrs.get("class") == "badge"]
    ids = [attrs["id"] for _, attrs in tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert len(badges) == 2
    assert all(str(href).removeprefix("#") in ids for href in badges)


def test_every_part_of_a_step_is_listed_as_text(tmp_path: Path) -> None:
    page = page_of(tmp_path, trained(profile()))
    legend = page[page.index("mean of 50 traced steps") :].split("</ul>")[0]
    assert re.findall(r"</span>([a-z ]+) <strong>", legend) == [
        *("kernels", "host to device", "device to host", "compilation", "input wait", "host", "idle")
    ]
    assert "input wait <strong>50 %, 10.5 ms</strong>" in legend


def test_the_colours_of_the_parts_are_fixed(tmp_path: Path) -> None:
    only_input = trace_analysis(
        breakdown=Breakdown(
            steps=5,
            step_s=1.0,
            parts={
                "kernel": 0.0,
                "collective": 0.0,
                "host_to_device": 0.0,
                "device_to_host": 0.0,
                "compile": 0.0,
                "input_wait": 1.0,
                "idle": 0.0,
                "host": 0.0,
            },
        ),
        xprof_steps=None,
    )
    page = page_of(tmp_path, trained(profile(trace=only_input), curves={}))
    drawing = page[page.index("mean of 5 traced steps") :].split("</figure>")[0]
    assert "--series-2" in drawing
    assert "--series-1" not in drawing


def test_links_stay_in_the_run(tmp_path: Path) -> None:
    def hrefs(number: int, **changes: Any) -> list[str]:
        tags = Tags(page_of(tmp_path / str(number), trained(profile(**changes)))).tags
        found = [str(attrs["href"]) for tag, attrs in tags if tag == "a" and "href" in attrs]
        # Without the links to sections, records and logs that every page has.
        return [href for href in found if not href.startswith(("#", "./records.", "./logs/"))]

    assert hrefs(1) == [
        "./host/001-cnn-mnist/host.svg",
        "./host/001-cnn-mnist/host.speedscope.json",
        "./traces/001-cnn-mnist/",
    ]
    assert hrefs(2, host_folder="javascript:alert(1)//", trace_folder="//tracker.invalid") == [
        "./javascript%3Aalert%281%29/host.svg",
        "./javascript%3Aalert%281%29/host.speedscope.json",
    ]
    assert hrefs(3, host_folder="/etc", trace_folder="../../etc") == []
    assert hrefs(4, host_folder=None, trace_folder=None) == []


def test_a_trace_of_pytorch_is_linked_with_its_viewer(tmp_path: Path) -> None:
    capture = Capture(file="localhost.1.pt.trace.json.gz", first_step=3, steps=50)
    page = page_of(tmp_path, trained(profile(capture=capture)))
    assert 'href="./traces/001-cnn-mnist/localhost.1.pt.trace.json.gz"' in page
    assert "trace (with ui.perfetto.dev)" in page
    assert "curves only: accelbench tensorboard " in text_of(page)


def test_deleted_files_are_listed_with_the_options_that_keep_them(tmp_path: Path) -> None:
    text = text_of(page_of(tmp_path, trained(profile(host=None, host_folder=None, trace_folder=None))))
    assert "--trace" in text
    assert "--host-profile" in text
    assert "accelbench tensorboard" not in text


def test_an_unusable_trace_is_reported_with_advice(tmp_path: Path) -> None:
    failure = device_kind("gpu").missing_from_trace()
    failed = trace_analysis(failure=failure, breakdown=None, missing={"breakdown": "no step marker"})
    text = text_of(page_of(tmp_path, trained(profile(trace=failed))))
    assert " ".join(failure.split()) in text
    assert "no step marker" in text


def test_a_profile_may_be_only_a_reason(tmp_path: Path) -> None:
    only_reason = Profile(bottleneck=UNKNOWN, capture=Capture(reason="the disk is full"), host=None)
    page = page_of(tmp_path, trained(only_reason, curves={}))
    text = text_of(page)
    assert "writes no xplane.pb" in text
    assert "the disk is full" in text
    assert 'class="legend"' not in page


def test_all_unknown_facts_of_the_host_have_reasons(tmp_path: Path) -> None:
    reasons = {name: f"no {name} here" for name in HostCounters.model_fields if name not in ("elapsed_s", "unknown")}
    blank = host_profile(
        step_thread=None,
        cpu=None,
        data_makers=None,
        gil_held=None,
        gil_holders={},
        threads=[],
        counters=HostCounters(elapsed_s=0.0, unknown=reasons),
        sampling=Sampling(budget=0.03, elapsed_s=0.0),
        files={},
        missing=["py-spy is not installed"],
    )
    text = text_of(page_of(tmp_path, trained(profile(host=blank, trace=None))))
    assert "py-spy is not installed" in text
    shown = [reason for reason in reasons.values() if reason in text]
    assert len(shown) == len(reasons) - 1  # periods and seconds of throttling share a line


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    trace = trace_analysis(
        operations=[Operation(name=HOSTILE * 2000, kind=HOSTILE, where="host", occurrences=0, self_s=nan)],
        kinds=[OperationKind(kind=HOSTILE, where="host", operations=0, occurrences=0, self_s=nan, share=2.0)],
        operations_by=HOSTILE,
        input_verdict=HOSTILE,
        xprof_verdict=HOSTILE,
        xprof_covers=HOSTILE,
        xprof_steps=XprofSteps(steps=1, step_s=0.0, parts={HOSTILE: 1.0, "input": -1.0, "output": nan}),
        devices=[HOSTILE],
        profiler_errors=[HOSTILE],
        xprof_version=HOSTILE,
        failure=HOSTILE,
        missing={HOSTILE: HOSTILE, "memory_peak_bytes": HOSTILE},
        memory_peak_bytes=None,
    )
    host = host_profile(
        gil_holders={HOSTILE: 1.0},
        threads=[ThreadShare(name=HOSTILE, threads=1, cpu_s=1.0, wait_s=None, shares={})],
        files={"flamegraph": HOSTILE, HOSTILE: HOSTILE},
        missing=[HOSTILE],
    )
    found = profile(
        bottleneck=Bottleneck(reason=HOSTILE, shares_text=HOSTILE, help=HOSTILE),
        capture=Capture(file=HOSTILE, reason=HOSTILE),
        trace=trace,
        host=host,
        trace_folder=HOSTILE,
        host_folder=HOSTILE,
    )
    page = page_of(tmp_path, trained(found), run_id=f"run {HOSTILE}")
    tags = Tags(page).tags
    assert not {"script", "img"} & {tag for tag, _ in tags}
    assert all(not name.startswith("on") for _, attrs in tags for name in attrs)
    assert all(str(attrs["href"]).startswith(("#", "./", "data:,")) for _, attrs in tags if "href" in attrs)
    assert "\x1b" not in page
    assert len(page) < 200_000
    assert "\x1b" not in printed(tmp_path / "again", trained(found))


@pytest.mark.slow
def test_the_size_per_profile_is_limited(tmp_path: Path) -> None:
    records = [trained(profile(), params={"precision": "float32", "batch": n}) for n in range(12)]
    store = make_run(tmp_path / "run", records)
    assert write_report(store).stat().st_size / 12 < MAX_BYTES / 60


def test_the_tables_have_the_bottleneck_and_its_shares(tmp_path: Path) -> None:
    other = trained(profile(bottleneck=UNKNOWN), params={"precision": "float64", "batch": 1})
    store = make_run(tmp_path / "run", [trained(profile()), other, record("launch")])
    write_report(store)
    table = pd.read_parquet(store.path / "records.parquet")
    assert table["bottleneck"].fillna("").tolist() == ["input-bound", "", ""]
    assert table["bottleneck.input"].tolist()[0] == pytest.approx(0.5)
    assert table["bottleneck_reason"].tolist()[1] == UNKNOWN.reason


def test_a_trace_without_any_time_is_drawn(tmp_path: Path) -> None:
    empty = TraceAnalysis(xprof_steps=XprofSteps(steps=0, step_s=0.0, parts={}))
    assert "no time" in page_of(tmp_path, trained(profile(trace=empty)))


@pytest.fixture(scope="module")
def profiled_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    hostile = profile(bottleneck=Bottleneck(reason=HOSTILE * 3, shares_text="a" * 400))
    records = [trained(profile()), trained(hostile, params={"precision": HOSTILE, "batch": 1})]
    return write_report(make_run(tmp_path_factory.mktemp("runs") / "profiled", records))


def expand(driver: webdriver.Chrome) -> None:
    driver.execute_script("document.querySelectorAll('details').forEach(e => e.open = true)")


@pytest.mark.parametrize("width", [1280, 768, 400, 320])
def test_expanded_details_do_not_scroll_sideways(browser: webdriver.Chrome, profiled_page: Path, width: int) -> None:
    show(browser, profiled_page, width)
    expand(browser)
    assert ask(browser, "document.documentElement.scrollWidth") <= width
    clipped = """[...document.querySelectorAll('details *')].filter(e => !e.closest('.scroll, .unseen, pre, thead')
        && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 120))"""
    assert ask(browser, clipped) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_of_a_step_do_not_overlap_or_leave_the_drawing(
    browser: webdriver.Chrome, profiled_page: Path, scheme: str
) -> None:
    show(browser, profiled_page, scheme=scheme)
    expand(browser)
    texts = "[...s.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()])"
    outside = f"""[...document.querySelectorAll('.profile svg')].flatMap(s => {{ const b = s.getBoundingClientRect();
        return {texts}.filter(([t, r]) => r.left < b.left - 1 || r.right > b.right + 1 || r.top < b.top - 2
        || r.bottom > b.bottom + 2).map(([t]) => t) }})"""
    assert ask(browser, outside) == []
    touching = f"""[...document.querySelectorAll('.profile svg')].flatMap(s => {{ const all = {texts};
        return all.flatMap(([a, p], i) => all.slice(i + 1).filter(([b, q]) => p.left < q.right && q.left < p.right
        && p.top + 2 < q.bottom && q.top + 2 < p.bottom).map(([b]) => a + ' | ' + b)) }})"""
    assert ask(browser, touching) == []
    assert ask(browser, "document.querySelectorAll('.profile svg').length") == 2


def test_the_badge_expands_the_details(browser: webdriver.Chrome, profiled_page: Path) -> None:
    show(browser, profiled_page)
    assert ask(browser, "[...document.querySelectorAll('.profile')].map(e => e.open)") == [True, True]
    browser.execute_script("document.querySelectorAll('.profile').forEach(e => e.open = false)")
    browser.execute_script("document.querySelectorAll('a.badge')[1].click()")
    assert ask(browser, "[...document.querySelectorAll('.profile')].map(e => e.open)") == [False, True]
