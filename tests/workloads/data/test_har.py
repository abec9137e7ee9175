"""Windows are cut within recordings, whole subjects are held out, and the published set is read correctly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.workloads.data import DataError, load_har
from accelbench.workloads.data.fetch import fetch
from accelbench.workloads.data.har import ACTIVITIES, SAMPLE, SAMPLE_HELD_OUT, SIGNALS, STEP, WINDOW, cut
from tests.workloads.data.archives import HAR_LABELS, HAR_SUBJECTS, har_files, har_signals, har_zip
from tests.workloads.data.serving import declare


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    (tmp_path / "har.zip").write_bytes(har_zip()[0])
    inner = har_zip()[1]
    source = declare(monkeypatch, "har", inner)
    assert source.files[0].inner_sha256 is None
    (tmp_path / "har.zip").write_bytes(inner)
    return fetch("har", [tmp_path / "har.zip"]) / "UCI HAR Dataset"


def test_the_shipped_sample_holds_out_whole_subjects() -> None:
    har = load_har()
    assert not har.synthetic
    assert set(har.subjects_test.tolist()) == set(SAMPLE_HELD_OUT)
    assert len(set(har.subjects_train.tolist())) == 15
    assert not set(har.subjects_train.tolist()) & set(har.subjects_test.tolist())
    assert "7,027 windows of 20 subjects, six channels" in har.source


def test_no_training_window_of_the_sample_shares_readings_with_a_held_out_one() -> None:
    har = load_har()
    halves = [
        {half.tobytes() for window in x for half in (window[:64], window[64:])} for x in (har.x_train, har.x_test)
    ]
    assert not halves[0] & halves[1]


def test_the_sample_is_in_g_and_rad_per_second_with_balanced_activities() -> None:
    har = load_har()
    assert (har.x_train.shape, har.x_test.shape) == ((5246, 128, 6), (1781, 128, 6))
    assert har.x_train.dtype == np.float32
    for labels in (har.y_train, har.y_test):
        share = np.bincount(labels, minlength=6) / len(labels)
        assert len(share) == len(ACTIVITIES)
        assert share.min() > 0.12
        assert share.max() < 0.21
    still = har.x_train[har.y_train == ACTIVITIES.index("standing")]
    gravity = np.linalg.norm(still[:, :, :3].mean(axis=1), axis=1)
    assert np.median(gravity) == pytest.approx(1, abs=0.05)
    assert np.abs(still[:, :, 3:]).mean() < 0.1
    laying = har.x_train[har.y_train == ACTIVITIES.index("laying")]
    assert np.abs(laying[:, :, 0].mean()) < 0.5 < still[:, :, 0].mean(), "gravity lies along x in upright subjects"


def test_the_sample_is_small_enough_to_ship() -> None:
    assert SAMPLE.stat().st_size <= 2_000_000
    assert "Reyes-Ortiz" in SAMPLE.with_suffix(".md").read_text(encoding="utf-8")


def test_a_simple_classifier_generalises_to_held_out_subjects() -> None:
    """Nearest neighbour among some hundred training windows, with two features per channel."""
    har = load_har()

    def features(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.concatenate([x.mean(axis=1), np.log(x.std(axis=1) + 0.01)], axis=1)

    train, test = features(har.x_train), features(har.x_test)
    scale = train.std(axis=0)
    distance = ((test[:, np.newaxis] / scale - train[np.newaxis, ::10] / scale) ** 2).sum(axis=2)
    accuracy = np.mean(har.y_train[::10][distance.argmin(axis=1)] == har.y_test)
    assert accuracy > 0.8


@given(st.lists(st.integers(0, 600), min_size=1, max_size=6))
def test_windows_overlap_by_half_and_do_not_cross_recordings(lengths: list[int]) -> None:
    readings = np.arange(sum(lengths), dtype=np.float32)[:, np.newaxis]
    windows, owners = cut(readings, np.array(lengths))
    ends = np.cumsum(lengths)
    expected = [
        (recording, start)
        for recording, (length, end) in enumerate(zip(lengths, ends, strict=True))
        for start in range(end - length, end - WINDOW + 1, STEP)
    ]
    assert list(zip(owners.tolist(), windows[:, 0, 0].astype(int).tolist(), strict=True)) == expected
    assert np.array_equal(windows[:, :, 0] - windows[:, :1, 0], np.tile(np.arange(WINDOW), (len(windows), 1)))


def test_the_published_set_is_read_correctly(fetched: Path) -> None:
    har = load_har()
    assert (har.source, har.channels) == ("UCI HAR, nine channels", SIGNALS)
    assert har.x_train == pytest.approx(har_signals("train"), rel=1e-6)
    assert har.x_test == pytest.approx(har_signals("test"), rel=1e-6)
    assert har.y_train.tolist() == [label - 1 for label in HAR_LABELS["train"]]
    assert har.subjects_train.tolist() == HAR_SUBJECTS["train"]
    assert har.subjects_test.tolist() == HAR_SUBJECTS["test"]


def test_damage_is_an_error_without_fallback(fetched: Path) -> None:
    (fetched / "train/y_train.txt").write_text("1\n1\n1\n1\n1\n")
    with pytest.raises(DataError, match=r"train/y_train.txt.*'accelbench data fetch har'"):
        load_har()


def test_a_folder_without_checksums_is_an_error_without_fallback(cache: Path) -> None:
    (cache / "har/UCI HAR Dataset").mkdir(parents=True)
    with pytest.raises(DataError, match=r"'accelbench data fetch har'"):
        load_har()


def test_a_signal_of_the_wrong_length_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = har_files()
    files["test/Inertial Signals/body_acc_x_test.txt"] = b"1 2 3\n"
    (tmp_path / "har.zip").write_bytes(har_zip(files)[1])
    declare(monkeypatch, "har", har_zip(files)[1])
    fetch("har", [tmp_path / "har.zip"])
    with pytest.raises(DataError, match=r"UCI HAR Dataset"):
        load_har()
