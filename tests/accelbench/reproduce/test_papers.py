"""The claims of the five papers are files: all are there, each names what exists, and a wrong line is told."""

from __future__ import annotations

import pytest

from accelbench.errors import UserError
from accelbench.reproduce.paper import load_paper, paper_names, parse_paper
from accelbench.reproduce.points import HOST_CORES, Points, value_of
from accelbench.run.plan import discover, make_plan
from accelbench.run.suite import load_suite

CLAIMS = {
    "carneiro2018": [f"C{number}" for number in range(1, 7)],
    "kimm2021": [*(f"K{number}" for number in range(1, 10)), "K10a", "K10b", "K10c", "K10d", "K11"],
    "lawrence2017": [f"L{number}" for number in range(1, 12)],
    "sitito2021": [f"S{number}" for number in range(1, 5)],
    "wang2019": [f"W{number}" for number in range(1, 5)],
}
POINTS = [points for name in CLAIMS for claim in load_paper(name).claim for points in claim.points]
GOOD = """suite = "quick"
small = "quick"
about = "A study."

[citation]
authors = "A. Author"
title = "A title"
year = 2020

[[claim]]
id = "X1"
says = "It is so."
rule = { name = "slower" }
[[claim.points]]
benchmark = "nqueens"
devices = ["cpu", "gpu"]

[[claim]]
id = "X2"
says = "It is not so."
[claim.rule]
name = "runtime-is"
runtime = "colab"
gpus = 1
"""


def test_each_paper_has_all_of_its_claims() -> None:
    assert {name: [claim.id for claim in load_paper(name).claim] for name in paper_names()} == CLAIMS
    assert sum(map(len, CLAIMS.values())) == 39


@pytest.mark.parametrize("name", CLAIMS)
def test_a_paper_names_suites_that_exist(name: str) -> None:
    paper = load_paper(name)
    assert load_suite(paper.suite).description
    assert load_suite(paper.small).description
    assert paper.processes == (2 if name == "wang2019" else 1)


@pytest.mark.parametrize("points", POINTS, ids=str)
def test_the_points_that_decide_name_axes_that_their_benchmark_declares(points: Points) -> None:
    benchmark = discover()[points.benchmark]
    known = {*benchmark.axis_names, HOST_CORES}
    assert {*points.fixed, *points.free, *filter(None, [points.swept])} <= known
    assert set(points.devices) <= set(benchmark.devices)


@pytest.mark.parametrize("name", CLAIMS)
def test_the_suite_of_a_paper_measures_the_points_that_its_claims_ask_for(name: str) -> None:
    paper = load_paper(name)
    suite = load_suite(paper.suite)
    planned = {device: make_plan((), suite, device, (), None, paper.processes) for device in ("cpu", "gpu", "tpu")}
    for claim in paper.claim:
        for points in () if claim.rule.name == "shown" else claim.points:
            found = [point for device in points.devices for point in planned[device] if points.ask_for(point)]
            assert found, f"{claim.id}: {points}"
            if points.swept:
                assert len({value_of(point, points.swept) for point in found}) > 1, f"{claim.id}: {points}"


def test_a_paper_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(UserError, match="no paper is called 'knuth1968'; there is: carneiro2018, kimm2021"):
        load_paper("knuth1968")
    with pytest.raises(UserError, match="did you mean 'kimm2021'"):
        load_paper("kimm2012")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('rule = { name = "slower" }', 'rule = { name = "slowest" }', "mine.toml line 13: .*slowest"),
        ('rule = { name = "slower" }', "", "mine.toml line 10: claim.0.rule: Field required"),
        ("gpus = 1", 'gpus = "one"', "mine.toml line 24: .*valid integer"),
        ('runtime = "colab"', "", "mine.toml line 21: .*Field required"),
        ('devices = ["cpu", "gpu"]', 'devices = ["abacus"]', "mine.toml line 16: .*abacus"),
        ('devices = ["cpu", "gpu"]', 'devices = ["cpu"]', "mine.toml line 10: claim.0: .*takes 2 devices"),
        ('rule = { name = "slower" }', 'rule = { name = "steeper", above = 64 }', "line 10: .*takes a swept axis"),
        ('rule = { name = "slower" }', 'rule = { name = "opinion" }', "mine.toml line 13: .*opinion"),
        ('id = "X2"', 'id = "X1"', "mine.toml line 19: X1 is there twice"),
        ("year = 2020", 'year = "long ago"', "mine.toml line 8: .*valid integer"),
        ('about = "A study."', "about = ", "mine.toml is not valid TOML: Invalid value .at line 3"),
        ('about = "A study."', 'about = "A study."\nmood = "good"', "mine.toml line 4: mood: Extra inputs"),
    ],
)
def test_a_malformed_file_is_told_by_its_line(old: str, new: str, message: str) -> None:
    assert len(parse_paper("mine", GOOD, "mine.toml").claim) == 2
    with pytest.raises(UserError, match=message) as caught:
        parse_paper("mine", GOOD.replace(old, new), "mine.toml")
    assert "\n" not in str(caught.value)
