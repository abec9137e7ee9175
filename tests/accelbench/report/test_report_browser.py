"""The report in a browser without a network: no requests, no overflow, everything visible."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from axe_core_python.selenium import Axe
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from accelbench.execution.store import RunStore
from accelbench.report import write_joined_report, write_report
from accelbench.report.index import write_index
from accelbench.report.joined import read_runs
from accelbench.report.prices import HourlyPrice
from accelbench.report.run_entries import entry_of
from accelbench.report.section import Run
from tests.browser import open_browser
from tests.fixtures.report_node import rich_records, study_records
from tests.fixtures.report_profiles import profile
from tests.fixtures.report_records import HOSTILE, training, unmeasured
from tests.fixtures.report_runs import make_run

pytestmark = pytest.mark.slow

SCHEMES = ("light", "dark")
CLIPPED = """[...document.querySelectorAll('main *, header *')].filter(e => !e.closest('.scroll, pre, svg, thead')
    && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 120))"""
"""Elements that extend beyond the window."""
OUTSIDE = """[...document.querySelectorAll('svg')].flatMap(s => { const b = s.getBoundingClientRect();
    return [...s.querySelectorAll('text')].filter(t => { const r = t.getBoundingClientRect();
    return r.left < b.left - 1 || r.right > b.right + 1 || r.top < b.top - 2 || r.bottom > b.bottom + 2; })
    .map(t => t.textContent.slice(0, 60)) }).filter(t => !t.includes('<script>'))"""
"""Texts outside of their drawing."""
TOUCHING = """[...document.querySelectorAll('{}')].flatMap(s => {{
    const texts = [...s.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    return texts.flatMap(([a, p], i) => texts.slice(i + 1).filter(([b, q]) => p.left < q.right && q.left < p.right
    && p.top + 2 < q.bottom && q.top + 2 < p.bottom).map(([b]) => a + ' | ' + b)) }})"""
"""Overlapping texts in the drawings of a selector."""
UNFOLD = "document.querySelectorAll('details').forEach(fold => fold.open = true)"
BROKEN = """[...document.querySelectorAll('thead th, td.figure, .dense td, .phases td')].flatMap(cell => {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [];
    while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/[\\p{L}\\p{N}.,]+/gu)) {
        const range = document.createRange();
        range.setStart(texts.currentNode, word.index);
        range.setEnd(texts.currentNode, word.index + word[0].length);
        if (range.getClientRects().length > 1) broken.push(word[0]) }
    return broken })"""
"""Words of headings, and numbers, that are broken across lines."""
UNDER_THE_NEXT = """[...document.querySelectorAll('td[data-label]')].filter(cell => cell.checkVisibility()
    && parseFloat(getComputedStyle(cell, '::before').height) > cell.getBoundingClientRect().height + 1)
    .map(cell => cell.dataset.label)"""
"""Labels of cells (on a narrow screen) that are higher than their cell."""
MINIMUM_CONTRAST = 4.5
"""WCAG 2.2, success criterion 1.4.3, for text of normal size."""


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with open_browser(logs=True) as chrome:
        chrome.execute_cdp_cmd("Network.enable", {})
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        chrome.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
        yield chrome


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    hostile = training("gpu", "float32", 0.004, noise=[HOSTILE], curves={f"loss {HOSTILE}": [2.0, 1.0]})
    profiled = [
        training("gpu", precision, 0.021, profile=profile(), params={"precision": precision, "batch": 128})
        for precision in ("float32", "bfloat16")
    ]
    records = [*rich_records(), *study_records(), *profiled, hostile]
    return write_report(make_run(tmp_path_factory.mktemp("runs") / "rich", records))


@pytest.fixture(scope="module")
def joined_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of two runs on CPUs and one on a GPU, with the price of each."""
    folder = tmp_path_factory.mktemp("joined")
    found = [*rich_records(), *study_records()]
    stores = [
        make_run(folder / name, [one for one in found if one.point.device == device], run_id=name, device=device)
        for name, device in (("one", "cpu"), ("two", "cpu"), ("three", "gpu"))
    ]
    prices = tuple(HourlyPrice(amount, "EUR") for amount in (0.4, 1200.0, 2.49))
    return write_joined_report(replace(read_runs(stores), prices=prices), folder / "page.html")[0]


@pytest.fixture(scope="module")
def failed_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    failed = unmeasured("matmul", "failed", "the worker was killed by SIGKILL")
    return write_report(make_run(tmp_path_factory.mktemp("failed") / "run", [failed]))


@pytest.fixture(scope="module")
def index_page(page: Path, failed_page: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    stores = [RunStore.open(one.parent) for one in (page, failed_page)]
    return write_index([entry_of(Run.of(store), store) for store in stores], tmp_path_factory.mktemp("index"))


def show(browser: webdriver.Chrome, page: Path, width: int = 1280, scheme: str = "light", media: str = "") -> None:
    """Load the page in a window of that width and colour scheme."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    browser.get(page.as_uri())


def ask(browser: webdriver.Chrome, script: str) -> Any:
    return browser.execute_script(f"return {script}")


def test_the_page_makes_no_request_and_logs_no_message(browser: webdriver.Chrome, page: Path) -> None:
    browser.get_log("performance")  # type: ignore[no-untyped-call]
    browser.get_log("browser")  # type: ignore[no-untyped-call]
    show(browser, page)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]  # type: ignore[no-untyped-call]
    requested = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert page.as_uri() in requested
    assert [url for url in requested if not url.startswith(("data:", page.as_uri()))] == []
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def test_scripts_in_a_record_are_not_executed(browser: webdriver.Chrome, page: Path) -> None:
    show(browser, page)
    assert browser.title == "20260314-092653-full-a1b2 · accelbench"
    assert ask(browser, "document.scripts.length + document.images.length") == 0


@pytest.mark.parametrize("width", [1280, 768, 400, 320])
def test_the_page_never_scrolls_sideways(browser: webdriver.Chrome, page: Path, width: int) -> None:
    show(browser, page, width)
    assert ask(browser, "document.documentElement.scrollWidth") <= width
    assert ask(browser, CLIPPED) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [1280, 400])
def test_every_drawing_is_visible(browser: webdriver.Chrome, page: Path, width: int, scheme: str) -> None:
    show(browser, page, width, scheme)
    for drawings, count, height in (("svg.plot", 8, 50), (".strip svg", 13, 20)):
        boxes = f"[...document.querySelectorAll('{drawings}')].map(s => s.getBoundingClientRect())"
        sizes = ask(browser, f"{boxes}.map(r => [r.width, r.height])")
        assert len(sizes) >= count
        assert all(w >= 300 and h >= height for w, h in sizes)
    marks = "s.querySelectorAll('[style*=\"var(--series\"], use').length"
    assert all(count > 0 for count in ask(browser, f"[...document.querySelectorAll('svg')].map(s => {marks})"))


def test_strips_of_samples_fill_a_narrow_screen_and_cards_fill_their_rows(
    browser: webdriver.Chrome, page: Path
) -> None:
    edges = """[...document.querySelectorAll('{}')].map(e => e.getBoundingClientRect())
        .map(r => [Math.round(r.left), Math.round(r.right)])"""
    for width in (1280, 400):
        show(browser, page, width)
        cards, (row,) = (ask(browser, edges.format(name)) for name in (".card", ".cards"))
        assert [cards[0][0], cards[-1][1]] == row
    assert all(edge == row for edge in ask(browser, edges.format(".strip svg")))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_stay_in_their_drawing(browser: webdriver.Chrome, page: Path, scheme: str) -> None:
    show(browser, page, scheme=scheme)
    assert ask(browser, OUTSIDE) == []


def test_studies_are_linked_and_their_texts_do_not_overlap(browser: webdriver.Chrome, page: Path) -> None:
    show(browser, page)
    assert ask(browser, "document.querySelector('nav a[href=\"#studies\"]').textContent") == "Studies"
    assert ask(browser, "document.querySelectorAll('#studies svg').length") == 2
    assert ask(browser, TOUCHING.format("#studies svg")) == []


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_of_several_runs_fits_and_its_texts_do_not_overlap(
    browser: webdriver.Chrome, joined_page: Path, width: int
) -> None:
    show(browser, joined_page, width, "dark")
    assert ask(browser, "document.documentElement.scrollWidth") <= width
    assert ask(browser, CLIPPED) == []
    assert ask(browser, "document.querySelectorAll('svg').length") == 4
    assert ask(browser, OUTSIDE) == []
    assert ask(browser, TOUCHING.format("svg")) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_and_lines_have_sufficient_contrast(browser: webdriver.Chrome, page: Path, scheme: str) -> None:
    show(browser, page, scheme=scheme)
    color = """(name => { const e = document.createElement('i'); e.style.color = `var(${name})`;
        document.body.append(e); const c = getComputedStyle(e).color.match(/[0-9.]+/g).map(Number);
        e.remove(); return c })"""

    def luminance(name: str) -> float:
        # WCAG 2.2, "relative luminance".
        channels: list[float] = [c / 255 for c in ask(browser, f"{color}('{name}')")[:3]]
        r, g, b = (c / 12.92 if c <= 0.04045 else math.pow((c + 0.055) / 1.055, 2.4) for c in channels)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    grounds = {
        "--surface": ("--ink", "--muted", "--accent", "--good", "--bad", *(f"--series-{n}" for n in range(1, 7)))
    }
    grounds |= {
        "--raised": ("--ink", "--muted", "--accent"),
        "--warn-back": ("--warn",),
        "--bad-back": ("--bad", "--ink"),
    }
    for ground, names in grounds.items():
        for name in names:
            low, high = sorted((luminance(ground), luminance(name)))
            assert (high + 0.05) / (low + 0.05) >= MINIMUM_CONTRAST, f"{name} on {ground}"


def test_print_expands_commands_and_fits(browser: webdriver.Chrome, page: Path) -> None:
    show(browser, page, width=740, media="print")
    assert ask(browser, "document.documentElement.scrollWidth") <= 740
    heights = "[...document.querySelectorAll('details pre')].map(e => e.getBoundingClientRect().height)"
    assert all(height > 20 for height in ask(browser, heights))
    # Print is dark on white in any colour scheme.
    show(browser, page, width=740, scheme="dark", media="print")
    assert ask(browser, "getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("which", ["page", "joined_page", "failed_page", "index_page"])
def test_axe_finds_no_accessibility_violation(
    browser: webdriver.Chrome, request: pytest.FixtureRequest, which: str, scheme: str
) -> None:
    show(browser, request.getfixturevalue(which), scheme=scheme)
    browser.execute_script(UNFOLD)
    browser.set_script_timeout(120)
    found = Axe().run(browser, options={"resultTypes": ["violations"]})["violations"]
    assert [(rule["impact"], rule["help"], [node["html"][:120] for node in rule["nodes"][:3]]) for rule in found] == []


def test_print_does_not_break_headings_and_numbers(browser: webdriver.Chrome, page: Path) -> None:
    show(browser, page, width=688, media="print")  # A4 without margins
    assert ask(browser, "document.documentElement.scrollWidth") <= 688
    assert ask(browser, BROKEN) == []
    widths = "[...document.querySelectorAll('#telemetry tbody th')].map(e => e.getBoundingClientRect().width)"
    assert min(ask(browser, widths)) >= 80
    assert ask(browser, "[...document.querySelectorAll('.on-screen')].filter(e => e.checkVisibility()).length") == 0


def test_labels_of_cells_do_not_overlap_on_a_narrow_screen(browser: webdriver.Chrome, page: Path) -> None:
    show(browser, page, width=400)
    browser.execute_script(UNFOLD)
    assert ask(browser, "document.documentElement.scrollWidth") <= 400
    assert ask(browser, CLIPPED) == []
    assert ask(browser, UNDER_THE_NEXT) == []


def test_long_tables_are_collapsed_and_commands_are_selected_completely(browser: webdriver.Chrome, page: Path) -> None:
    show(browser, page, width=400)
    for table in ("#phases table", "#telemetry table"):
        assert not ask(browser, f"document.querySelector('{table}').checkVisibility()")
    assert ask(browser, "getComputedStyle(document.querySelector('#method pre code')).userSelect") == "all"
    show(browser, page, width=688, media="print")
    for table in ("#phases table", "#telemetry table"):
        assert ask(browser, f"document.querySelector('{table}').getBoundingClientRect().height") > 200


def test_the_list_of_runs_is_filtered_by_the_keyboard(browser: webdriver.Chrome, index_page: Path) -> None:
    show(browser, index_page)
    rows = "return [...document.querySelectorAll('#runs tbody tr')].filter(row => row.checkVisibility()).length"
    count = "return document.getElementById('count').textContent"
    assert browser.execute_script(rows) == 2
    browser.find_element("tag name", "body").send_keys("/")
    field = browser.switch_to.active_element
    assert field.get_attribute("id") == "filter"
    field.send_keys("RICH")
    assert (browser.execute_script(rows), browser.execute_script(count)) == (1, "1 of 2")
    field.send_keys(" nowhere")
    assert browser.execute_script(rows) == 0
    field.send_keys(Keys.ESCAPE)
    assert (browser.execute_script(rows), browser.execute_script(count)) == (2, "2 of 2")
