from __future__ import annotations

import pytest

from accelbench.compare.runs import compare
from accelbench.errors import Damage, UserError
from accelbench.execution.store import Settings
from tests.fixtures.compare_runs import Runs, machine, shown, steady


def test_a_run_given_twice_or_on_both_sides_is_refused(runs: Runs) -> None:
    a, b = runs.stored([steady(1.0)]), runs.stored([steady(1.0)])
    with pytest.raises(UserError, match="run-1"):
        compare([a, a], [b])
    with pytest.raises(UserError, match="run-2"):
        compare([a, b], [b])


def test_several_machines_on_one_side_are_refused(runs: Runs) -> None:
    a = [runs.stored([steady(1.0)]), runs.stored([steady(1.0)], machine(cpu={"model": "EPYC 9965"}))]
    with pytest.raises(UserError, match=r"EPYC 9654.*EPYC 9965"):
        compare(a, [runs.stored([steady(1.0)])])


def test_differences_between_the_runs_of_a_side_are_printed_first(runs: Runs) -> None:
    a = [
        runs.stored([steady(1.0)]),
        runs.stored([steady(1.001)], machine(cpu={"governor": "powersave"}), settings=Settings(seed=2)),
    ]
    comparison = compare(a, [runs.stored([steady(1.0)]), runs.stored([steady(1.002)])])
    (note,) = comparison.notes
    assert "cpu.governor performance / powersave; seed 1 / 2" in note
    text = shown(comparison)
    assert text.index("seed 1 / 2") < text.index("speed of B")


def test_different_settings_of_the_sides_are_noted(runs: Runs) -> None:
    comparison = runs([steady(1.0)], [steady(1.0)], settings=Settings(seed=7, time_limit_s=60))
    (note,) = comparison.notes
    assert "seed 1 / 7; time limit none / 60" in note


def test_a_record_of_another_schema_is_reported_and_left_out(runs: Runs) -> None:
    a, b = runs.stored([steady(1.0)]), runs.stored([steady(1.0)])
    b.records_path.write_text('{"schema_version": 1}\n', encoding="utf-8")
    with pytest.warns(Damage, match="run-2/records.jsonl"):
        assert len(compare([a], [b]).only_a) == 1
