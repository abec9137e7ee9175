"""Files of the studies: completeness, references to benchmarks and suites, and errors with their lines."""

from __future__ import annotations

import pytest

from accelbench.errors import UserError
from accelbench.execution.plan import make_plan
from accelbench.execution.suite import load_suite
from accelbench.reproduce.observations import value_of
from accelbench.reproduce.paper import load_paper, paper_names, parse_paper

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
rule = { name = "ratio", must_be = "above" }
[[claim.points]]
benchmark = "nqueens"
devices = ["cpu", "gpu"]

[[claim]]
id = "X2"
says = "It is not so."
[claim.rule]
name = "equal"
of = "colab"
facts = { GPUs = 1 }
within = 0
"""


@pytest.mark.parametrize("name", paper_names())
def test_the_suites_of_a_study_exist(name: str) -> None:
    paper = load_paper(name)
    assert load_suite(paper.suite).description
    assert load_suite(paper.small).description
    assert paper.processes == (2 if name == "wang2019" else 1)


@pytest.mark.parametrize("name", paper_names())
def test_the_suite_of_a_study_measures_the_points_of_its_claims(name: str) -> None:
    paper = load_paper(name)
    suite = load_suite(paper.suite)
    planned = {device: make_plan((), suite, device, (), None, paper.processes) for device in ("cpu", "gpu", "tpu")}
    for claim in paper.claim:
        for points in () if claim.rule.name == "open" else claim.points:
            found = [point for device in points.devices for point in planned[device] if points.select(point)]
            assert found, f"{claim.id}: {points}"
            if points.swept:
                assert len({value_of(point, points.swept) for point in found}) > 1, f"{claim.id}: {points}"


def test_an_unknown_study_raises_user_error_with_suggestions() -> None:
    with pytest.raises(UserError, match="carneiro2018, kimm2021"):
        load_paper("knuth1968")
    with pytest.raises(UserError, match="'kimm2021'"):
        load_paper("kimm2012")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'rule = { name = "ratio", must_be = "above" }',
            'rule = { name = "ratio", must_be = "slowest" }',
            "mine.toml line 13: .*must_be",
        ),
        ('rule = { name = "ratio", must_be = "above" }', "", "mine.toml line 10: claim.0.rule"),
        ("within = 0", 'within = "exactly"', "mine.toml line 25: .*valid number"),
        ('of = "colab"', "", "mine.toml line 21: .*is missing"),
        ('devices = ["cpu", "gpu"]', 'devices = ["abacus"]', "mine.toml line 16: .*abacus"),
        ('devices = ["cpu", "gpu"]', 'devices = ["cpu"]', "mine.toml line 10: claim.0: .*2 devices"),
        ('rule = { name = "ratio", must_be = "above" }', 'rule = { name = "slope" }', "line 10: .*swept axis"),
        (
            'rule = { name = "ratio", must_be = "above" }',
            'rule = { name = "opinion" }',
            "mine.toml line 13: .*'opinion' .*equal, .*growth, .*slope",
        ),
        ('name = "equal"', 'name = "equals"', "mine.toml line 22: .*'equals' .*equal, "),
        ('name = "equal"', "", "mine.toml line 21: claim.1.rule.name is missing"),
        (
            'must_be = "above" }',
            'must_be = "above", by = "impel" }',
            "line 10: .*'impel' .*cores, host_cores, impl, queens",
        ),
        ('benchmark = "nqueens"', 'benchmark = "nqueen"', "mine.toml line 15: .*'nqueen'.*'nqueens'"),
        ('benchmark = "nqueens"', 'benchmark = "x"', "mine.toml line 15: .*'x'.*matmul, .*nqueens"),
        (
            '["cpu", "gpu"]',
            '["cpu", "gpu"]\nfixed = { board = [8] }',
            "line 17: .*'board' .*cores, host_cores, impl, queens",
        ),
        ('["cpu", "gpu"]', '["cpu", "gpu"]\n[[claim.points]]\nbenchmark = "y"', "mine.toml line 18: .*'y'"),
        (
            'benchmark = "nqueens"\ndevices = ["cpu"',
            'benchmark = "numa-latency"\ndevices = ["gpu"',
            "line 16: .*gpu .*cpu",
        ),
        ('id = "X2"', 'id = "X1"', "mine.toml line 19: .*X1"),
        (
            '[[claim]]\nid = "X2"',
            '[[note]]\nid = "X3"\nsays = "."\n[[claim]]\nid = "X2"',
            "line 18: note.0.note is missing",
        ),
        ("year = 2020", 'year = "long ago"', "mine.toml line 8: .*valid integer"),
        ('about = "A study."', "about = ", "mine.toml .*line 3"),
        ('about = "A study."', 'about = "A study."\nmood = "good"', "mine.toml line 4: unknown key mood"),
    ],
)
def test_an_invalid_file_is_reported_with_its_line(old: str, new: str, message: str) -> None:
    assert len(parse_paper("mine", GOOD, "mine.toml").claim) == 2
    with pytest.raises(UserError, match=message) as caught:
        parse_paper("mine", GOOD.replace(old, new), "mine.toml")
    assert "\n" not in str(caught.value)
