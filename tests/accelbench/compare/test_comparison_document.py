from __future__ import annotations

import pytest

from accelbench.compare.runs import compare
from tests.fixtures.compare_runs import MATMUL, Runs, evidence_of, failed, machine, measured, samples, shown, steady


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_output_is_environments_then_points_then_a_summary(runs: Runs, width: int) -> None:
    points = {n: {**MATMUL, "n": n} for n in (256, 512, 1024)}
    nearly = (1.0, 1.003, 0.998, 1.001)
    a = [runs.stored([steady(x, params=point) for point in points.values()]) for x in nearly]
    times = list(zip(points.values(), (1.5, 0.5, 1.0), strict=True))
    slow = machine(cpu={"governor": "powersave"})
    b = [runs.stored([steady(x * t, params=p) for p, t in times], slow) for x in nearly]
    text = shown(compare(a, b), width)
    assert text.index("cpu.governor") < text.index("powersave") < text.index("speed of B")
    for part in ("matmul cpu", "impl=vendor", "n=256", "× 0.6", "slower", "p < 0.0001", "× 2.0", "faster", "same"):
        assert part in text
    assert "4 and 4 runs" in text
    assert text.index("speed of B") < text.index("1 slower, 1 faster, 1 same")


def test_the_same_is_printed_with_the_largest_difference_and_without_a_p_value(runs: Runs) -> None:
    a, b = ([runs.stored([steady(median * x)]) for x in (1.0, 1.0001, 0.9999)] for median in (1.0, 1.01))
    comparison = compare(a, b)
    assert evidence_of(comparison.changes[0]).p < 1e-4
    text = shown(comparison)
    assert "within 1.0 %" in text
    assert "p <" not in text


def test_equal_environments_have_no_table_of_differences(runs: Runs) -> None:
    record = measured(samples(1.0))
    other = machine(cpu={"governor": "powersave"})
    assert "cpu.governor" not in shown(runs([record], [record]))
    assert "cpu.governor" in shown(runs([record], [record], (None, other)))


def test_stored_text_is_printed_without_control_sequences(runs: Runs) -> None:
    bad = failed("[bold]\x1b[2Jgone[/nonsense]", params={"impl": "\x1b]0;title\x07x"})
    text = shown(runs([bad], [bad], (machine(), machine(cpu={"model": "\x1b[31mred"}))))
    assert "\x1b" not in text
    assert "[bold]gone[/nonsense]" in text
    assert "red" in text
