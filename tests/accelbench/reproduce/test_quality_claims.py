"""Claims about the quality of trained models are decided by real data and whole trainings, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelbench.reproduce.evidence import Evidence
from accelbench.reproduce.judging import judge_claim
from accelbench.reproduce.paper import Claim
from profiling.records.quality import Data, Metric
from profiling.records.record import Record
from tests.fixtures.made_up_runs import DRAWN, HAR, SAMPLE, claim, judged, run_of, trained
from tests.workloads.data.archives import har_zip
from tests.workloads.data.serving import declare
from workloads.data import CACHE_VARIABLE
from workloads.data.fetch import fetch

OWN = Data("4,000 images of the folder embryo", train=3200, held_out=800)


def activity(
    units: int, accuracy: float, device: str = "tpu", data: Data = HAR, layers: int = 2, **params: int
) -> Record:
    metrics = {"test_accuracy": Metric(accuracy), "test_accuracy_std": Metric(0.005)}
    whole = {"batch": 64, "epochs": 30, "repeats": 5} | params
    return trained("bilstm-har", device, 0.1, units=units, layers=layers, data=data, metrics=metrics, **whole)


@pytest.mark.parametrize(
    ("best", "word", "reason"),
    [
        ({128: 0.95}, "confirmed", None),
        ({64: 0.95}, "refuted", None),
        ({128: 0.905}, "cannot tell", "interval too wide"),
    ],
)
def test_k6_the_best_has_to_beat_the_next_by_more_than_the_spread(
    best: dict[int, float], word: str, reason: str | None
) -> None:
    found = judged("K6", run_of(*(activity(units, best.get(units, 0.90)) for units in (32, 64, 128, 256))))
    assert (found.word, found.reason) == (word, reason)


@pytest.mark.parametrize(("layers", "word"), [(3, "confirmed"), (1, "refuted")])
def test_k7_the_best_is_at_both_values(layers: int, word: str) -> None:
    points = [
        activity(units, 0.95 if (units, count) == (32, layers) else 0.90, "gpu", layers=count)
        for units in (32, 128)
        for count in (1, 3)
    ]
    assert judged("K7", run_of(*points)).word == word


def test_a_sample_of_the_data_says_what_to_fetch() -> None:
    found = judged("K6", run_of(activity(128, 0.95, data=SAMPLE), activity(32, 0.9, data=SAMPLE)))
    assert (found.word, found.reason) == ("cannot tell", "no real data")
    assert "accelbench data fetch har" in found.why


def test_synthetic_data_decide_nothing_about_quality() -> None:
    found = judged("K6", run_of(activity(128, 0.95, data=DRAWN), activity(32, 0.9, data=DRAWN)))
    assert (found.word, found.reason) == ("cannot tell", "synthetic data")


def test_short_trainings_decide_nothing_about_quality() -> None:
    found = judged("K6", run_of(activity(128, 0.95, epochs=1), activity(32, 0.9, epochs=1)))
    assert (found.word, found.reason) == ("cannot tell", "no such point")


def embryos(accuracy: float, data: Data = OWN, epochs: int = 25) -> Record:
    metrics = {"test_accuracy": Metric(accuracy)}
    return trained("deep-mnist-embryo", "gpu", 0.1, image=64, batch=50, epochs=epochs, data=data, metrics=metrics)


@pytest.mark.parametrize(("accuracy", "word"), [(0.86, "confirmed"), (0.97, "refuted"), (0.7, "refuted")])
def test_l3_the_published_accuracy_lies_in_the_interval(accuracy: float, word: str) -> None:
    assert judged("L3", run_of(embryos(accuracy))).word == word


def test_l3_drawn_images_decide_nothing() -> None:
    found = judged("L3", run_of(embryos(0.87, DRAWN)))
    assert (found.word, found.reason) == ("cannot tell", "synthetic data")
    assert "put images of your own" in found.why


def test_k8_says_what_to_fetch_where_the_set_is_not_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    found = judged("K8")
    assert (found.word, found.reason) == ("cannot tell", "no real data")
    assert "accelbench data fetch har" in found.why


@pytest.mark.parametrize(("train", "word"), [(2, "confirmed"), (21, "refuted")])
def test_k8_counts_the_people_of_the_fetched_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, train: int, word: str
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    inner = har_zip()[1]
    declare(monkeypatch, "har", inner)
    (tmp_path / "har.zip").write_bytes(inner)
    fetch("har", [tmp_path / "har.zip"])
    k8 = claim("K8")
    rule = k8.rule.model_dump() | {"train": train, "held_out": 2, "classes": 6}
    found = judge_claim(Claim.model_validate(k8.model_dump() | {"rule": rule}), Evidence(()))
    assert found.word == word
    assert "2 people trained on" in found.evidence
