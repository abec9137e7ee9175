from __future__ import annotations

import pytest

from accelbench.compare.runs import compare
from tests.fixtures.compare_runs import MATMUL, Runs, evidence_of, failed, machine, measured, samples, shown, steady


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_environment_comes_before_the_points_and_the_sum_last(runs: Runs, width: int) -> None:
    points = {n: {**MATMUL, "n": n} for n in (256, 512, 1024)}
    nearly = (1.0, 1.003, 0.998, 1.001)
    a = [runs.stored([steady(x, params=point) for point in points.values()]) for x in nearly]
    times = list(zip(points.values(), (1.5, 0.5, 1.0), strict=True))
    slow = machine(cpu={"governor": "powersave"})
    b = [runs.stored([steady(x * t, params=p) for p, t in times], slow) for x in nearly]
    text = shown(compare(a, b), width)
    assert text.index("What differs and matters") < text.index("powersave") < text.index("speed of B")
    for told in ("matmul cpu", "impl=vendor", "n=256", "× 0.6", "slower", "p < 0.0001", "× 2.0", "faster", "same"):
        assert told in text
    assert "all points: the interval is that of 4 and 4 runs" in text
    assert text.endswith("B: 1 slower, 1 faster, 1 same (same: within ±3.0 %)")


def test_the_same_is_told_with_how_little_differs_and_never_with_a_p_value(runs: Runs) -> None:
    a, b = ([runs.stored([steady(median * x)]) for x in (1.0, 1.0001, 0.9999)] for median in (1.0, 1.01))
    comparison = compare(a, b)
    assert evidence_of(comparison.changes[0]).p < 1e-4
    text = shown(comparison)
    assert "within 1.0 %" in text
    assert "p <" not in text


def test_equal_environments_are_said_to_be_equal(runs: Runs) -> None:
    record = measured(samples(1.0))
    assert "The environments agree in everything that matters." in shown(runs([record], [record]))


def test_text_of_a_stored_run_cannot_steer_the_terminal(runs: Runs) -> None:
    bad = failed("[bold]\x1b[2Jgone[/nonsense]", params={"impl": "\x1b]0;title\x07x"})
    text = shown(runs([bad], [bad], (machine(), machine(cpu={"model": "\x1b[31mred"}))))
    assert "\x1b" not in text
    assert "[bold]gone[/nonsense]" in text
    assert "red" in text
