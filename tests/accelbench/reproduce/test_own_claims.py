"""Claims that one machine decides, both ways: slopes, frameworks, overheads, parameters and arithmetic."""

from __future__ import annotations

import pytest

from accelbench.reproduce.evidence import Evidence
from accelbench.reproduce.judging import judge_claim
from accelbench.reproduce.paper import Claim
from profiling.records.quality import Metric
from profiling.records.record import Record
from profiling.records.step import Seen, StepParts
from tests.fixtures.made_up_runs import card, claim, judged, machine, run_of, trained
from tests.fixtures.report_records import stepped, timing


def lstm(units: int, seconds: float, **changes: object) -> Record:
    return trained("bilstm-har", "cpu", seconds, units=units, layers=2, batch=64, **changes)


@pytest.mark.parametrize(
    ("times", "word"),
    [
        ((1.0, 1.1, 1.2, 4.0, 16.0), "confirmed"),
        ((1.0, 4.0, 16.0, 17.0, 18.0), "refuted"),
        ((1, 2, 4, 8, 16), "cannot tell"),
    ],
)
def test_k1_the_time_grows_faster_from_64_units_on(times: tuple[float, ...], word: str) -> None:
    points = [lstm(units, seconds) for units, seconds in zip((16, 32, 64, 128, 256), times, strict=True)]
    found = judged("K1", run_of(*points))
    assert found.word == word
    assert found.reason == ("interval too wide" if word == "cannot tell" else None)


def test_k1_needs_units_on_both_sides_of_64() -> None:
    found = judged("K1", run_of(lstm(64, 1.0), lstm(128, 4.0)))
    assert (found.word, found.reason) == ("cannot tell", "no such point")


def test_k1_a_disturbed_point_in_the_middle_is_told_as_such() -> None:
    points = [lstm(16, 1.0), lstm(64, 1.2, noise=["steal time"]), lstm(256, 16.0)]
    found = judged("K1", run_of(*points))
    assert (found.word, found.reason) == ("cannot tell", "disturbed")
    assert "units=64" in found.why
    assert judged("K1", run_of(*points), even_if_disturbed=True).word == "confirmed"


def framework(backend: str, seconds: float, **params: int) -> Record:
    return trained("resnet50", "cpu", seconds, backend=backend, image=64, batch=8, **params)


@pytest.mark.parametrize(("other", "word"), [(2.0, "confirmed"), (1.05, "cannot tell")])
def test_w1_two_frameworks_that_differ_confirm_it(other: float, word: str) -> None:
    found = judged("W1", run_of(framework("tensorflow", 1.0), framework("torch", other)))
    assert found.word == word
    assert "torch" in found.evidence[0]


def test_w1_frameworks_that_are_the_same_in_many_runs_refute_it() -> None:
    times = (1.0, 1.001, 0.999, 1.0, 1.0005, 0.9995)
    runs = [run_of(framework("tensorflow", a), framework("torch", b)) for a, b in zip(times, times[::-1], strict=True)]
    assert judged("W1", *runs).word == "refuted"


def test_w1_frameworks_in_other_numbers_of_processes_are_not_compared() -> None:
    found = judged("W1", run_of(framework("tensorflow", 1.0, processes=2), framework("torch", 2.0, processes=1)))
    assert (found.word, found.reason) == ("cannot tell", "no such point")


def shared(step_s: float, own_s: float) -> Record:
    """A made-up training of two processes, whose step takes so long and rank 0's computing so long."""
    apart = timing(own_s, count=20).samples
    parts = StepParts(
        step_s=step_s, compute_s=own_s, input_s=0.0, wait_s=0.0, exposed_s=max(0.0, step_s - own_s), hidden_s=0.0,
        exchange_s={"with and without": step_s - own_s}, bytes=4e6, unexplained_s=0.0,
    )  # fmt: skip
    seen = Seen(apart_s=apart, input_s=0.0, alone_s=[0.01], bytes=4e6)
    steps = stepped(timing(step_s, count=48, timer="steps", stop="epochs done"))
    record = framework("tensorflow", step_s, processes=2)
    return record.model_copy(update={"parts": parts, "seen": seen, "timing": steps})


@pytest.mark.parametrize(("own", "word"), [(0.6, "confirmed"), (1.5, "refuted"), (0.9999, "cannot tell")])
def test_w2_a_step_longer_than_its_computing_has_overhead(own: float, word: str) -> None:
    found = judged("W2", run_of(shared(1.0, own)))
    assert found.word == word
    if word == "confirmed":
        assert "40 %" in found.ours
        assert "the largest is exchange" in found.evidence[0]


def test_w2_takes_two_processes() -> None:
    found = judged("W2", run_of(framework("tensorflow", 1.0)))
    assert (found.word, found.reason) == ("cannot tell", "no such point")


@pytest.mark.parametrize(("parameters", "word"), [(16_835_461, "confirmed"), (16_835_462, "refuted")])
def test_l2_the_parameters_are_exact(parameters: int, word: str) -> None:
    metrics = {"parameters": Metric(parameters)}
    found = judged("L2", run_of(trained("deep-mnist-embryo", "cpu", 0.1, image=64, batch=50, metrics=metrics)))
    assert found.word == word
    assert found.ours == f"{parameters:,}"


@pytest.mark.parametrize(("parameters", "word"), [(618_118, "confirmed"), (615_046, "confirmed"), (600_000, "refuted")])
def test_k9_the_model_has_the_parameters_of_its_description(parameters: int, word: str) -> None:
    from workloads.bilstm_har import parameters as counted

    assert parameters == 600_000 or parameters in (counted(128, 2, 9), counted(128, 2, 6))
    noisy = lstm(128, 1.0, metrics={"parameters": Metric(parameters)}, noise=["steal time"])
    assert judged("K9", run_of(noisy)).word == word


def with_rule(name: str, **changes: object) -> Claim:
    """The claim with other parameters of its rule."""
    found = claim(name)
    return Claim.model_validate(found.model_dump() | {"rule": found.rule.model_dump() | changes})


@pytest.mark.parametrize(("gives", "word"), [(61_280, "confirmed"), (61_281, "refuted")])
def test_l1_the_images_add_up(gives: int, word: str) -> None:
    sums = [{"terms": [49_024, 12_256], "by": "adding", "gives": gives}]
    assert judge_claim(with_rule("L1", sums=sums), Evidence(())).word == word
    assert judged("L1").word == "confirmed"


@pytest.mark.parametrize(("gives", "word"), [(46e12, "confirmed"), (92e12, "refuted")])
def test_k10_the_multipliers_give_what_was_published(gives: float, word: str) -> None:
    sums = [{"terms": [65_536, 700e6], "by": "multiplying", "gives": gives, "within": 0.005}]
    assert judge_claim(with_rule("K10a", sums=sums), Evidence(())).word == word
    found = judged("K10a")
    assert found.word == "confirmed"
    assert "45.88·10¹²" in found.ours


def test_k10_operations_on_small_integers_are_no_floating_point_operations() -> None:
    found = judged("K10b")
    assert found.word == "refuted"
    assert found.why.endswith("they are operations on 8-bit integers, and not floating-point operations")
    right = with_rule("K10b", known="floating-point operations")
    assert judge_claim(right, Evidence(())).word == "confirmed"


@pytest.mark.parametrize(("gives", "word"), [(1.455e12, "confirmed"), (2.91e12, "refuted")])
def test_l10_a_vendors_figure_is_compared_with_our_table(gives: float, word: str) -> None:
    half = [{"card": "K80", "at": "flops.float64.plain", "gives": gives}]
    assert judge_claim(with_rule("L10", figures=half), Evidence(())).word == word


def test_l10_a_figure_that_the_table_lacks_is_told() -> None:
    wanted = [{"card": "K80", "at": "board.smell", "gives": 1.0}]
    found = judge_claim(with_rule("L10", figures=wanted), Evidence(()))
    assert (found.word, found.reason) == ("cannot tell", "no such point")
    assert "no board.smell of K80" in found.why


@pytest.mark.parametrize(("times", "word"), [((1.0, 2.0, 4.0), "confirmed"), ((1.0, 4.0, 2.0), "refuted")])
def test_s4_the_time_rises_with_the_parameters(times: tuple[float, ...], word: str) -> None:
    points = [trained("bilstm-imdb", "cpu", s, units=u, batch=32) for u, s in zip((16, 64, 256), times, strict=True)]
    found = judged("S4", run_of(*points))
    assert found.word == word
    assert "no such point in these runs: dbn-mnist" in found.why
    assert "quality" in claim("S4").not_decided


@pytest.mark.parametrize("name", ["C6", "L4", "L11"])
def test_what_no_measurement_decides_says_why(name: str) -> None:
    found = judged(name, run_of(lstm(64, 1.0)))
    assert found.word == "cannot tell"
    assert found.reason == ("opinion" if name == "C6" else "not measured here")
    assert found.why


def test_w3_w4_and_k11_are_shown_and_not_judged() -> None:
    scaled = [framework("tensorflow", 1.0, processes=count) for count in (1, 2)]
    for name, expected in (("W3", "efficiency over replicas: 100 % on 1"), ("W4", "no such point"), ("K11", "no such")):
        found = judged(name, run_of(*scaled))
        assert (found.word, found.reason) == ("cannot tell", "no published figure")
        assert expected in found.evidence[0]


def test_s4_a_cpu_and_a_gpu_of_one_machine_are_two_sweeps() -> None:
    where = machine(8, [card()])
    runs = [
        run_of(*(trained("bilstm-imdb", device, s * t, units=u, batch=32) for t, u in ((1, 16), (3, 64))), where=where)
        for device, s in (("cpu", 1.0), ("gpu", 0.01))
    ]
    found = judged("S4", *runs)
    assert found.word == "confirmed"
    assert len(found.evidence) == 2
