"""Tests of the page of a fleet: strips, tables, trend, size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver import Chrome

from accelbench.__main__ import main
from accelbench.fleet.fleet_document import FleetComparison
from accelbench.fleet.observations import FleetData
from accelbench.fleet.odd import compare_nodes
from accelbench.fleet.page import MOST_GROUPS, MOST_NODES, MOST_STRIPS, render_fleet
from accelbench.fleet.shared import shared_attributes
from accelbench.fleet.trend import trends
from tests.accelbench.fleet.test_changes import write_twice
from tests.accelbench.fleet.test_fleet import write_answer
from tests.browser import open_browser
from tests.fixtures.compare_runs import NOW


def comparison(data: FleetData) -> FleetComparison:
    for machine, node in set(zip(data.machines, data.nodes, strict=True)):
        data.add(machine, node, [])
    return FleetComparison(data, compare_nodes(data), [])


def made_up(nodes: int, metrics: int = 1, slow: int = 0) -> FleetData:
    """Return a fleet with one value of each metric and node, of which the first `slow` nodes are 30 % slower."""
    rng, data = np.random.default_rng(1), FleetData()
    for metric in range(metrics):
        speeds = rng.lognormal(sigma=0.01, size=nodes) * np.where(np.arange(nodes) < slow, 0.7, 1.0)
        for number, speed in enumerate(speeds.tolist()):
            data.add_values("EPYC", f"n{number}", f"copy {metric} (B/s)", [1e9 * speed], is_time=False, unit="B/s")
    return data


def test_odd_nodes_are_marked_in_strips_and_listed(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for number in range(20):
        name = "<b>bad</b>" if number == 3 else f"n{number}"
        rates = 100 * rng.lognormal(sigma=0.005, size=3) * (0.8 if number == 3 else 1)
        write_answer(tmp_path / "gates", name, rates.tolist(), file=f"{number}")
    path = tmp_path / "fleet.html"
    assert main(["fleet", str(tmp_path / "gates"), "--page", str(path)]) == 0
    page = path.read_text(encoding="utf-8")
    assert "<b>bad" not in page
    assert page.count('class="plot" role="img"') == 1
    odd = page[page.index('<section id="odd">') : page.index('<section id="group-1">')]
    assert re.findall(r'<th scope="row">(.*?)</th>', odd) == ["&lt;b&gt;bad&lt;/b&gt;"]
    assert len(re.findall(r"<title>copy \(B/s\): &lt;b&gt;bad&lt;/b&gt; −19", page)) == 1, "tooltip of a diamond"
    assert "://" not in page.replace("http://www.w3.org", "")
    assert "99.9 B/s" in page or "100 B/s" in page
    assert "10.0 ms" in page, "a time, and not its reciprocal"


def test_the_page_of_two_measurements_has_changes(tmp_path: Path) -> None:
    before, after = write_twice(tmp_path, nodes=12, change=-0.05, changed=[3])
    path = tmp_path / "changes.html"
    assert main(["fleet", str(before), "--", str(after), "--page", str(path)]) == 0
    page = path.read_text(encoding="utf-8")
    assert len(re.findall(r'data-label="change">−[45]\.\d %', page)) == 2
    assert '<th scope="row">n3</th>' in page


def test_large_fleets_have_small_pages() -> None:
    page = render_fleet(comparison(made_up(1500, metrics=MOST_STRIPS + 2, slow=MOST_NODES + 100)))
    assert len(page) < 1_000_000
    odd = page[page.index('<section id="odd">') : page.index('<section id="group-1">')]
    assert odd.count('<th scope="row">') == MOST_NODES
    assert "100 more odd nodes" in odd
    assert page.count('data-label="of nodes"') == MOST_STRIPS + 2, "the table has all metrics"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with open_browser() as chrome:
        yield chrome


def many_groups(groups: int = 40, nodes: int = 50) -> FleetComparison:
    """Return a fleet in which the first two nodes of most groups are slow, and alone have a new driver."""
    rng, data = np.random.default_rng(1), FleetData()
    for group in range(groups):
        machine, size = f"EPYC 9654 96-Core Processor, 192 CPUs, {group + 1}× NVIDIA H200", nodes if group else 3
        for number in range(size):
            name, slow = f"g{group:02}n{number:02}", group % 4 > 0 and number < 2
            data.add(machine, name, [("driver", "580" if slow else "550"), ("rack", f"r{number}")])
            for metric in ("copy", "product", "launch"):
                speeds = 1e9 * rng.lognormal(sigma=0.005, size=2) * (0.8 if slow and metric == "copy" else 1)
                data.add_values(machine, name, f"{metric} (B/s)", speeds.tolist(), is_time=False, unit="B/s")
    rows = compare_nodes(data)
    return FleetComparison(data, rows, shared_attributes(data, slow_nodes(rows)))


def slow_nodes(rows: pd.DataFrame) -> dict[str, set[str]]:
    return {str(machine): set(part["node"]) for machine, part in rows[rows["odd"]].groupby("machine")}


def test_the_page_of_many_groups_is_complete_and_small() -> None:
    fleet = many_groups()
    page = render_fleet(fleet)
    assert len(page) < 700_000
    head, rest = page[: page.index('<section id="odd">')], page[page.index('<section id="odd">') :]
    assert re.findall(r"(\d+) of (\d+) odd nodes in (\d+) groups have driver=580", head) == [("60", "60", "30")]
    assert re.findall(r'href="#([\w-]+)"', head) == ["odd", "groups"]
    assert "too few to compare" in head or "too few to compare" in rest
    odd, groups = rest[: rest.index('<section id="groups">')], rest[rest.index('<section id="groups">') :]
    expected = {name for names in slow_nodes(fleet.rows).values() for name in names}
    assert len(expected) == 60
    assert {*re.findall(r'<th scope="row">(g\d\dn\d\d)', odd)} == expected
    rows = re.findall(r'href="#(group-\d+)">.*?data-label="odd">(\d+)<.*?data-label="of nodes">(\d+)<', groups)
    assert [int(count) for _, count, _ in rows] == [2] * 30 + [0] * 10
    assert sum(int(nodes) for _, _, nodes in rows) == len(fleet.data.attributes) == 39 * 50 + 3
    assert re.findall(r'<section id="(group-\d+)">', groups) == [anchor for anchor, _, _ in rows]
    assert groups.count('data-label="slowest"') == 40 * 3, "every metric of every group"
    assert groups.count('class="plot" role="img"') == MOST_GROUPS


def test_an_attribute_of_one_group_is_named_with_the_group() -> None:
    fleet = many_groups(groups=2)
    (sentence,) = fleet.shared_sentences
    for fact in ("2 of 2", "EPYC 9654 96-Core Processor, 192 CPUs, 2× NVIDIA H200", "driver=580"):
        assert fact in sentence


def test_many_small_groups_are_one_note() -> None:
    data = FleetData()
    for number in range(20):
        data.add_values(f"EPYC {number}", f"n{number}", "copy (B/s)", [1e9], is_time=False, unit="B/s")
    (note,) = comparison(data).notes
    assert note.startswith("20 groups of fewer than 5 nodes")


@pytest.mark.parametrize("width", [1400, 500])
def test_the_page_of_many_groups_fits_the_window(browser: Chrome, tmp_path: Path, width: int) -> None:
    path = tmp_path / "fleet.html"
    path.write_text(render_fleet(many_groups(groups=8, nodes=30)), encoding="utf-8")
    browser.set_window_size(width, 900)
    browser.get(path.as_uri())
    wide, visible = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide <= visible


def test_a_page_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    write_answer(tmp_path / "gates", "n0", [1.0])
    assert main(["fleet", str(tmp_path / "gates"), "--page", str(tmp_path / "missing" / "x.html")]) == 2


def with_days(nodes: int, days: int, loss: float = 0.01) -> FleetData:
    """Return a fleet that loses speed each day; each node has its own speed."""
    data = FleetData()
    for number in range(nodes):
        for day in range(days):
            value = (100 + 10 * number) * (1 - loss * day)
            data.add_values("EPYC", f"n{number}", "copy (B/s)", [value], False, 738_000 + day, "B/s")
    return data


def test_a_trend_is_of_the_same_nodes() -> None:
    (trend,) = trends(with_days(6, 5))
    assert trend.nodes == 6
    assert np.diff(trend.changes).tolist() == pytest.approx([-0.0102] * 4, abs=3e-4)
    assert (trend.days[-1] - trend.days[0]).days == 4
    assert "Trend of EPYC over days" in render_fleet(comparison(with_days(6, 5)))


@pytest.mark.parametrize("data", [with_days(6, 1), with_days(4, 5)], ids=["one day", "few nodes"])
def test_one_day_or_few_nodes_have_no_trend(data: FleetData) -> None:
    assert trends(data) == []


def test_days_are_read_from_the_answers(tmp_path: Path) -> None:
    for number in range(5):
        for day in range(2):
            started = NOW + timedelta(days=day)
            write_answer(
                tmp_path, f"n{number}", [100.0 - day], id=f"{number}-{day}", file=f"{number}-{day}", started=started
            )
    found = trends(FleetComparison.of([str(tmp_path)]).data)
    assert {tuple(trend.days) for trend in found} == {(NOW.date(), NOW.date() + timedelta(days=1))}
