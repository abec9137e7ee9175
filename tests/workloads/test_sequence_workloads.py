"""The recurrent workloads have the papers' architectures, report their quality, and fail if they do not learn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.benchmark import Skip, Training
from accelbench.profiling.records.point import Point, Scalar
from accelbench.profiling.records.quality import Metric, Quality, WorstQuality
from accelbench.workloads import bilstm_har, data, rnn_imdb
from accelbench.workloads.data import Activities, Reviews, load_har, load_imdb
from accelbench.workloads.data.split import evenly
from tests.requirements import ANY_BACKEND

# XLA would take longer to compile than these short runs last.
HAR: dict[str, Scalar] = {"units": 4, "layers": 1, "batch": 32, "epochs": 1, "repeats": 1, "jit_compile": "off"}
IMDB: dict[str, Scalar] = {"units": 4, "layers": 1, "length": 20, "batch": 32, "epochs": 1, "jit_compile": "off"}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Use few examples, for a few steps."""
    monkeypatch.setenv("ACCELBENCH_DATA", str(tmp_path_factory.mktemp("data")))

    def cut(split: Any, train: int, held_out: int) -> Any:
        return replace(
            split,
            x_train=split.x_train[:train],
            y_train=split.y_train[:train],
            x_test=split.x_test[:held_out],
            y_test=split.y_test[:held_out],
        )

    har: Activities = cut(load_har(), 160, 60)
    har = replace(har, subjects_train=har.subjects_train[:160], subjects_test=har.subjects_test[:60])
    reviews: Reviews = cut(load_imdb(length=20, train=200, held_out=50), 160, 50)
    monkeypatch.setattr(data, "load_har", lambda: har)
    monkeypatch.setattr(data, "load_imdb", lambda words, length: reviews)


def prepare(name: str, **params: int) -> Training:
    declared = {
        "bilstm-har": bilstm_har.bilstm_har,
        "bilstm-imdb": rnn_imdb.bilstm_imdb,
        "bigru-imdb": rnn_imdb.bigru_imdb,
    }
    defaults = HAR if name == "bilstm-har" else IMDB
    task = declared[name](Point(name, "cpu", defaults | params, ANY_BACKEND, seed=5))
    assert isinstance(task, Training)
    return task


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(
    name=st.sampled_from(["bilstm-har", "bilstm-imdb", "bigru-imdb"]), units=st.integers(1, 9), layers=st.integers(1, 3)
)
def test_the_model_has_the_parameters_of_the_formula(name: str, units: int, layers: int) -> None:
    model = prepare(name, units=units, layers=layers).model
    if name == "bilstm-har":
        assert model.count_params() == bilstm_har.parameters(units, layers, channels=6)
    else:
        assert model.count_params() == rnn_imdb.parameters(
            {"bilstm-imdb": "LSTM", "bigru-imdb": "GRU"}[name], units, layers
        )


def test_the_papers_largest_model_by_hand() -> None:
    # Two BiLSTM(128) on nine channels, LSTM(64), six classes.
    first, second, last = 2 * 4 * 128 * (9 + 128 + 1), 2 * 4 * 128 * (256 + 128 + 1), 4 * 64 * (256 + 64 + 1)
    assert bilstm_har.parameters(128, 2, 9) == first + second + last + 65 * 6


@pytest.mark.slow
def test_repeats_start_from_new_weights_and_report_mean_and_deviation() -> None:
    task = prepare("bilstm-har", repeats=2, epochs=2)
    history = task.fit([])
    assert len(history["loss"]) == 4
    assert history["loss"][2] > history["loss"][1], "the second repeat continued from the first one's weights"
    found = task.evaluate()
    assert found["test_accuracy_std"].value >= 0
    assert found["test_f1_std"].value >= 0
    assert {quality.deviation for quality in task.qualities} == {name for name in found if name.endswith("_std")}
    assert task.data.trainings == 2
    accuracy, worst, deviation = (found[f"test_accuracy{end}"].value for end in ("", "_worst", "_std"))
    assert worst == pytest.approx(accuracy - deviation / 2**0.5), "with two, the worst is half their distance below"
    loss, worst, deviation = (found[f"test_loss{end}"].value for end in ("", "_worst", "_std"))
    assert worst == pytest.approx(loss + deviation / 2**0.5), "a higher loss is worse"
    (headline,) = (quality for quality in task.qualities if quality.headline)
    assert [each.over for each in headline.worst] == ["1 held-out subjects", "2 trainings"]
    again = prepare("bilstm-har", repeats=1, epochs=2)
    assert again.fit([])["loss"] == pytest.approx(history["loss"][:2], rel=1e-3)
    assert "test_accuracy_std" not in again.evaluate()


def test_the_worst_subject_is_the_worst_over_all_repeats() -> None:
    qualities = (
        Quality("right", worst=(WorstQuality("right_worst_subject", "2 subjects"),)),
        Quality("loss", better="lower"),
    )
    trainings = [
        {"right": Metric(0.9), "right_worst_subject": Metric(0.7), "loss": Metric(0.2), "sum_error": Metric(0.0)},
        {"right": Metric(0.8), "right_worst_subject": Metric(0.75), "loss": Metric(0.4), "sum_error": Metric(0.0)},
    ]
    found = {name: metric.value for name, metric in bilstm_har.over_trainings(qualities, trainings).items()}
    assert found == pytest.approx(
        {
            "right": 0.85,
            "right_std": 0.005**0.5,
            "right_worst": 0.8,
            "right_worst_subject": 0.7,
            "loss": 0.3,
            "loss_std": 0.02**0.5,
            "loss_worst": 0.4,
            "sum_error": 0.0,
        }
    )


def test_the_sample_has_a_note_on_its_split() -> None:
    note = prepare("bilstm-har").data.note
    assert note is not None
    assert "0.94" in note
    assert prepare("bilstm-imdb").data.note is None


def test_training_and_held_out_subjects_are_disjoint() -> None:
    har = load_har()
    assert not set(har.subjects_train) & set(har.subjects_test)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["bilstm-har", "bilstm-imdb", pytest.param("bigru-imdb", marks=pytest.mark.exhaustive)]
)
def test_training_passes_and_a_low_accuracy_fails(name: str) -> None:
    task = prepare(name, epochs=2)
    history = task.fit([])
    qualities = task.evaluate()
    outcome = task.verify(history, qualities | {"test_accuracy": Metric(0.9)})
    assert outcome.passed, outcome.found
    assert not task.verify(history, qualities | {"test_accuracy": Metric(0.1)}).passed
    assert not task.verify({"loss": [0.5, np.nan]}, qualities | {"test_accuracy": Metric(0.9)}).passed


@pytest.mark.slow
def test_a_run_on_some_of_the_windows_has_no_accuracy_target() -> None:
    task = prepare("bilstm-har", windows=64, batch=16)
    assert task.data.train == 64
    assert str(task.data.note).startswith("64 of 160 windows")
    assert (task.target, task.evaluate_training) == (None, None), "an evaluation after each epoch is unnecessary"
    history = task.fit([])
    assert task.verify(history, task.evaluate() | {"test_accuracy": Metric(0.1)}).passed
    assert not task.verify({"loss": [np.nan]}, task.evaluate()).passed
    with pytest.raises(Skip, match=r"\bwindows=161\b.*\b160\b"):
        prepare("bilstm-har", windows=161)


@given(available=st.integers(1, 10_000), share=st.floats(0, 1))
def test_selected_windows_are_evenly_spaced(available: int, share: float) -> None:
    windows = max(1, round(share * available))
    places = evenly(windows, available)
    assert len(places) == windows
    assert places[0] == 0
    gaps = np.diff([*places, available])
    assert gaps.min() >= available // windows
    assert gaps.max() <= -(-available // windows)


@pytest.mark.parametrize("name", ["bilstm-har", "bilstm-imdb"])
def test_a_batch_larger_than_the_data_is_skipped(name: str) -> None:
    with pytest.raises(Skip, match=r"\bbatch=161\b.*\b160\b"):
        prepare(name, batch=161)
