"""What the table and the page say of a profile: the verdict, what it rests on, what to open, what is missing."""

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
"""Of a page, whatever is in it; the largest suite has fewer than 60 trainings."""


def trained(found: Profile | None, **changes: Any) -> Record:
    return training("gpu", "float32", 0.021, profile=found, **changes)


def page_of(path: Path, *records: Record, **changes: Any) -> str:
    store = make_run(path / "run", list(records), **changes)
    return render_page(Run.of(store))


def text_of(page: str) -> str:
    """The page's text without its style sheet, in one line."""
    return " ".join(Tags(re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)).text.split())


def printed(path: Path, *records: Record, width: int = 100) -> str:
    store, out = make_run(path / "run", list(records)), io.StringIO()
    print_run(Run.of(store), PlainConsole(file=out, width=width, verbose=True))
    return " ".join(out.getvalue().split())


def test_the_table_says_what_a_training_is_bound_by_and_once_what_helps(tmp_path: Path) -> None:
    text = printed(tmp_path, trained(profile()), trained(profile(), params={"precision": "float64", "batch": 1}))
    assert text.count("input-bound: input 50 %, device 30 %, dispatch 13 %") == 2
    assert text.count("what would help is") == 1
    assert " ".join(HELP["input-bound"].split()[:6]) in text


def test_the_table_says_why_a_bottleneck_is_unknown(tmp_path: Path) -> None:
    text = printed(tmp_path, trained(profile(bottleneck=UNKNOWN)))
    assert "bottleneck unknown: PyTorch's profiler" in text
    assert "would help" not in text


def test_a_cpu_quota_is_named_by_how_long_it_stopped_the_process() -> None:
    found = judge(
        {"device": 0.9, "input": 0.1},
        source="trace",
        cpu=CpuTime(wall_s=10.0, run_s=4.0, wait_s=6.0, longest_wait_s=6.0, throttled_s=6.0),
    )
    assert bottleneck_line(profile(bottleneck=found)) == (
        "cpu-quota-bound: the CPU quota stopped the process for 60% of the time"
    )


def test_causes_that_are_not_told_apart_and_steps_that_are_not_alike_are_said_in_the_line() -> None:
    doubt = "a traced step takes 3.0 times a measured one"
    found = judge({"device": 0.46, "input": 0.4, "dispatch": 0.14}, source="trace", apart_text=doubt)
    line = "device-bound and input-bound: device 46 %, input 40 %, dispatch 14 %"
    assert bottleneck_line(profile(bottleneck=found)) == f"{line}; {doubt}"


def test_shares_that_round_to_nothing_are_not_in_the_line() -> None:
    found = judge({"device": 0.998, "input": 0.002}, source="trace")
    assert bottleneck_line(profile(bottleneck=found)) == "device-bound: device 100 %"


@pytest.mark.parametrize("found", [record("launch"), training("gpu", "float32", 0.01)])
def test_what_was_not_profiled_shows_nothing_of_it(tmp_path: Path, found: Record) -> None:
    page = page_of(tmp_path, found)
    assert "<summary>What holds it back" not in page
    assert 'class="badge"' not in page
    assert "bottleneck" not in printed(tmp_path / "again", found)


def test_the_page_answers_what_holds_a_training_back(tmp_path: Path) -> None:
    page = page_of(tmp_path, trained(profile()))
    text = text_of(page)
    for said in (
        "What holds it back",
        "input-bound: input 50 %, device 30 %, dispatch 13 %",
        f"What would help: {HELP['input-bound']}",
        "mean of 50 traced steps, 21.0 ms",
        "xprof's account, mean of 48 steps, 21.2 ms",
        "highly input-bound: 49.5% of the step waits for input",
        "Your program is HIGHLY input-bound.",
        "3 GiB",
        "sm90_xmma_fprop_9",
        "ParseExample",
        "held 71 % of the time: Thread-4 (worker) 60 %, MainThread 11 %",
        "about 0.6 % of the time, of 3.0 % allowed",
        "16 cores: median 62 %, from 25 % to 100 %",
        "400 ms in 7 periods",
        "And 3 more that used less.",
        "accelbench tensorboard 20260314-092653-full-a1b2",
    ):
        assert said in text, said
    assert "sm90_xmma_fprop_10" not in text  # ten of each kind
    assert "unknownthe kernel counts no steal time" in text
    assert text.count("native frames: too dear") == 1


def test_the_badge_leads_to_the_rows_own_details(tmp_path: Path) -> None:
    other = trained(profile(), params={"precision": "float64", "batch": 1})
    without = trained(None, params={"precision": "tf32", "batch": 1})
    tags = Tags(page_of(tmp_path, trained(profile()), without, other)).tags
    badges = [attrs["href"] for tag, attrs in tags if tag == "a" and attrs.get("class") == "badge"]
    ids = [attrs["id"] for _, attrs in tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert len(badges) == 2
    assert all(str(href).removeprefix("#") in ids for href in badges)


def test_every_part_of_a_step_is_also_there_to_be_read_aloud(tmp_path: Path) -> None:
    page = page_of(tmp_path, trained(profile()))
    tables = page[page.index('class="unseen"') :].split("</div>")[0]
    assert re.findall(r'<th scope="row">(.*?)</th>', tables)[:8] == [
        *("kernels", "collectives", "host to device", "device to host", "compilation", "input wait", "host", "idle")
    ]
    assert "<td>10.4 ms</td><td>50 %</td>" in tables


def test_the_parts_keep_their_colours_whatever_a_step_is_made_of(tmp_path: Path) -> None:
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
    drawing = page[page.index("Where the time of a step went, ") :].split("</svg>")[0]
    assert "--series-2" in drawing
    assert "--series-1" not in drawing


def test_links_lead_into_the_run_and_nowhere_else(tmp_path: Path) -> None:
    def hrefs(number: int, **changes: Any) -> list[str]:
        tags = Tags(page_of(tmp_path / str(number), trained(profile(**changes)))).tags
        found = [str(attrs["href"]) for tag, attrs in tags if tag == "a" and "href" in attrs]
        # The head of every page leads to places on itself and to the run's records and logs.
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


def test_a_trace_of_pytorch_is_opened_by_what_shows_it(tmp_path: Path) -> None:
    capture = Capture(file="localhost.1.pt.trace.json.gz", first_step=3, steps=50)
    page = page_of(tmp_path, trained(profile(capture=capture)))
    assert 'href="./traces/001-cnn-mnist/localhost.1.pt.trace.json.gz"' in page
    assert "trace (with ui.perfetto.dev)" in page
    assert "n TensorBoard, the curves only: accelbench tensorboard " in text_of(page)


def test_what_was_read_and_not_kept_is_said_with_the_option_that_keeps_it(tmp_path: Path) -> None:
    text = text_of(page_of(tmp_path, trained(profile(host=None, host_folder=None, trace_folder=None))))
    assert "it was read and not kept (--trace keeps it)" in text
    assert "none was asked for (--host-profile)" in text
    assert "accelbench tensorboard" not in text


def test_a_trace_that_failed_is_said_with_what_mends_it(tmp_path: Path) -> None:
    failure = device_kind("gpu").missing_from_trace()
    failed = trace_analysis(failure=failure, breakdown=None, missing={"breakdown": "no step marker"})
    text = text_of(page_of(tmp_path, trained(profile(trace=failed))))
    assert f"The trace is no evidence: {' '.join(failure.split())}" in text
    assert "the step-time breakdown: no step marker" in text


def test_nothing_but_a_reason_is_a_profile_too(tmp_path: Path) -> None:
    nothing = Profile(bottleneck=UNKNOWN, capture=Capture(reason="the disk is full"), host=None)
    page = page_of(tmp_path, trained(nothing, curves={}))
    text = text_of(page)
    assert "bottleneck unknown: PyTorch's profiler writes no xplane.pb" in text
    assert "No trace: the disk is full" in text
    assert "Where the time of a step went" not in text


def test_a_host_of_which_nothing_is_known_says_so_everywhere(tmp_path: Path) -> None:
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
    assert len(shown) == len(reasons) - 1  # periods and seconds of throttling stand in one line


def test_hostile_names_act_on_nobody(tmp_path: Path) -> None:
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
def test_many_profiled_trainings_are_still_one_small_page(tmp_path: Path) -> None:
    records = [trained(profile(), params={"precision": "float32", "batch": n}) for n in range(12)]
    store = make_run(tmp_path / "run", records)
    assert write_report(store).stat().st_size / 12 < MAX_BYTES / 60


def test_the_tables_hold_the_verdict_and_its_shares(tmp_path: Path) -> None:
    other = trained(profile(bottleneck=UNKNOWN), params={"precision": "float64", "batch": 1})
    store = make_run(tmp_path / "run", [trained(profile()), other, record("launch")])
    write_report(store)
    table = pd.read_parquet(store.path / "records.parquet")
    assert table["bottleneck"].fillna("").tolist() == ["input-bound", "", ""]
    assert table["bottleneck.input"].tolist()[0] == pytest.approx(0.5)
    assert table["bottleneck_reason"].tolist()[1] == UNKNOWN.reason


def test_a_trace_without_any_time_is_drawn_all_the_same(tmp_path: Path) -> None:
    empty = TraceAnalysis(xprof_steps=XprofSteps(steps=0, step_s=0.0, parts={}))
    assert "no time in any part" in page_of(tmp_path, trained(profile(trace=empty)))


@pytest.fixture(scope="module")
def profiled_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    hostile = profile(bottleneck=Bottleneck(reason=HOSTILE * 3, shares_text="a" * 400))
    records = [trained(profile()), trained(hostile, params={"precision": HOSTILE, "batch": 1})]
    return write_report(make_run(tmp_path_factory.mktemp("runs") / "profiled", records))


def unfold(driver: webdriver.Chrome) -> None:
    driver.execute_script("document.querySelectorAll('details').forEach(e => e.open = true)")


@pytest.mark.parametrize("width", [1280, 768, 400, 320])
def test_unfolded_it_does_not_scroll_sideways(browser: webdriver.Chrome, profiled_page: Path, width: int) -> None:
    show(browser, profiled_page, width)
    unfold(browser)
    assert ask(browser, "document.documentElement.scrollWidth") <= width
    clipped = """[...document.querySelectorAll('details *')].filter(e => !e.closest('.scroll, .unseen, pre, thead')
        && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 120))"""
    assert ask(browser, clipped) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_text_of_a_step_leaves_the_drawing_or_touches_another(
    browser: webdriver.Chrome, profiled_page: Path, scheme: str
) -> None:
    show(browser, profiled_page, scheme=scheme)
    unfold(browser)
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


def test_the_badge_unfolds_the_details(browser: webdriver.Chrome, profiled_page: Path) -> None:
    show(browser, profiled_page)
    assert ask(browser, "[...document.querySelectorAll('.profile')].map(e => e.open)") == [False, False]
    browser.execute_script("document.querySelectorAll('a.badge')[1].click()")
    assert ask(browser, "[...document.querySelectorAll('.profile')].map(e => e.open)") == [False, True]
