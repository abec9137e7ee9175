"""Tests of the public names of the package: measure, run, load."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import psutil
import pytest

import accelbench
from accelbench import Point, Task, Verification, Work, api, benchmark, load, measure, run, verify_close
from accelbench.errors import Damage, UserError
from accelbench.measurement import WrongAnswer
from accelbench.profiling.benchmark import REGISTRY
from accelbench.profiling.devices import DeviceMissing
from accelbench.profiling.devices.nvidia import Nvidia
from accelbench.profiling.machine.nvidia import nvbench
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.timing.host import sample_seconds, time_host
from tests.conftest import ROOT, environment

QUICK = 0.05


def test_every_public_name_is_imported_from_its_module_and_documented() -> None:
    places = {name: place for place, names in accelbench._PLACES.items() for name in names}
    assert sorted(places) == accelbench.__all__
    assert set(accelbench.__all__) <= set(dir(accelbench))
    for name, place in places.items():
        assert getattr(accelbench, name) is getattr(import_module(f"accelbench.{place}"), name)
        assert re.search(rf"`{name}`", str(accelbench.__doc__)), name
        assert getattr(accelbench, name).__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        accelbench.tune  # noqa: B018
    with pytest.raises(ImportError):
        exec("from accelbench import tune")


LOADED = """
import sys, accelbench
FRAMEWORKS = {"jax", "keras", "pandas", "scipy", "tensorflow", "torch"}
print(*{"click", "numpy", "pydantic", *FRAMEWORKS} & {*sys.modules})
from accelbench import Point, Task, Work, benchmark, training
print(*FRAMEWORKS & {*sys.modules})
"""


def test_the_package_and_declarations_import_no_framework() -> None:
    command = [sys.executable, "-c", LOADED]
    process = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=ROOT)
    assert process.stdout == "\n\n", process.stdout + process.stderr


TYPED = """
from accelbench import Measurement, Point, StoredRun, Task, Verification, Work, benchmark, load, measure, training
@benchmark("typed", devices=("cpu",), axes={"n": (1,)}, metric="time")
def typed(point: Point) -> Task:
    return Task(lambda: None, lambda: Verification(True, "none"), Work(items=point["n"]))
found: Measurement = measure(sum, [1, 2])
stored: StoredRun = load("latest")
seconds: float = found.seconds
wrong: str = found.seconds
load(1.5)
"""


@pytest.mark.slow
@pytest.mark.exhaustive
def test_public_names_are_typed(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(TYPED, encoding="utf-8")
    process = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", tmp_path, "user.py"],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    errors = re.findall(r"^user\.py:(\d+): error:.*\[([a-z-]+)\]", process.stdout, re.MULTILINE)
    assert errors == [("9", "assignment"), ("10", "arg-type")], process.stdout + process.stderr


def test_a_measurement_has_an_interval_and_all_samples() -> None:
    found = measure(sleep, 0.002, max_seconds=10 * QUICK)
    low, high = found.interval
    timing = found.record.timing
    assert timing
    assert low <= found.seconds <= high
    assert len(found.samples) == timing.summary.count > 1
    assert 0 < found.confidence <= 1
    assert min(found.phases.first_call_s, found.phases.warmup_s, found.phases.measure_s) > 0
    assert (found.name, found.rate, found.verified) == ("sleep", None, False)
    assert isinstance(found.record, Record)
    assert str(found).count("\n") == 1 + bool(found.noise)
    value = r"≤ [\d.,]+ [mµ]?s" if timing.upper_bound else r"[\d.,]+ [mµ]?s (± [\d.]+ %|\([\d.–]+\))"
    assert re.match(rf"sleep: {value}\n", str(found)), str(found)
    assert repr(found) == str(found)


def test_short_calls_are_repeated_within_a_sample_and_work_gives_a_rate() -> None:
    a = np.ones((20, 20))
    found = measure(np.dot, a, a, work=Work(flops=16_000.0), max_seconds=QUICK, name="dot")
    assert found.record.timing is not None
    assert found.record.timing.loops > 1
    assert found.rate == pytest.approx(16_000.0 / found.seconds)
    assert "FLOP/s" in str(found)


class Texts(HTMLParser):
    """Texts and tags of an HTML page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_notebook_table_escapes_names() -> None:
    shown = Texts(measure(lambda: None, max_seconds=QUICK, name="<script>x</script>")._repr_html_())
    assert "<script>x</script>" in shown.texts
    assert shown.tags == {"table", "caption", "tr", "th", "td"}


def test_verify_is_called_once_before_timing() -> None:
    calls: list[str] = []

    def verify() -> Verification:
        calls.append("verify")
        return verify_close(np.ones(3), np.ones(3), 0.0, "comparison")

    found = measure(lambda: calls.append("call"), verify=verify, max_seconds=QUICK)
    assert found.verified
    assert calls[:2] == ["call", "verify"]
    assert calls.count("verify") == 1
    with pytest.raises(WrongAnswer):
        measure(lambda: None, verify=lambda: verify_close(np.ones(3), np.zeros(3), 0.1, "comparison"))


def test_an_exception_of_the_callable_is_passed_on_and_leaves_no_process() -> None:
    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(ZeroDivisionError):
        measure(lambda: 1 / 0)
    assert set(psutil.Process().children(recursive=True)) <= before


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"device": "abacus"}, ValueError),
        ({"max_seconds": 0}, ValueError),
        ({"max_seconds": float("nan")}, ValueError),
        ({"on_stream": True}, ValueError),
    ],
)
def test_invalid_arguments_are_an_error_before_the_first_call(arguments: Any, error: type[Exception]) -> None:
    calls: list[int] = []
    with pytest.raises(error):
        measure(calls.append, 1, **arguments)
    assert calls == []


def test_a_missing_device_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(kind: Nvidia, root: Path = Path("/")) -> str:
        raise DeviceMissing("no GPU", "use the CPU")

    monkeypatch.setattr(Nvidia, "find", missing)
    with pytest.raises(DeviceMissing):
        measure(lambda: None, device="gpu")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fake GPU that records its synchronizations."""
    waits: list[str] = []
    monkeypatch.setattr(Nvidia, "find", lambda kind, root=Path("/"): "fake GPU")
    monkeypatch.setattr(Nvidia, "require", lambda kind, root=Path("/"): None)
    monkeypatch.setattr(Nvidia, "cards", lambda kind, count: [])
    monkeypatch.setattr(Nvidia, "synchronize", lambda kind: waits.append("wait"))
    return waits


def test_a_gpu_call_includes_synchronization(gpu: list[str]) -> None:
    calls: list[str] = []
    found = measure(calls.append, "call", device="gpu", max_seconds=QUICK)
    assert len(gpu) == len(calls) > 1
    assert found.record.point.device == "gpu"
    assert found.record.timing is not None
    assert found.record.timing.timer == "host"


def test_on_stream_uses_nvbench(gpu: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    streams: list[tuple[int, str]] = []

    def time_nvbench(run: Callable[[int], object], max_seconds: float, launched: list[float] | None) -> Timing:
        timing = time_host(lambda loops: sample_seconds(lambda: run(1234), loops), max_seconds)
        return timing.model_copy(update={"timer": "nvbench"})

    monkeypatch.setattr(nvbench, "time_nvbench", time_nvbench)

    def enqueue(stream: int, word: str) -> None:
        streams.append((stream, word))

    found = measure(enqueue, "x", device="gpu", on_stream=True, max_seconds=QUICK)
    assert set(streams) == {(0, "x"), (1234, "x")}
    assert found.record.timing is not None
    assert found.record.timing.timer == "nvbench"


NQUEENS: dict[str, Any] = {"impl": "tuned", "cores": "all", "queens": [5, 6]}


@pytest.mark.slow
def test_a_run_from_python_is_stored_like_a_run_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    options: dict[str, Any] = {"device": "cpu", "ceilings": False, "max_seconds": 0.1, "rounds": 1, "quiet": True}
    found = run("nqueens", params=NQUEENS, out=out, name="from Python", tags=["t"], **options)
    assert [record.status for record in found.records] == ["measured", "measured"]
    assert [record.point["queens"] for record in found.records] == [5, 6]
    assert (found.info.label.name, found.info.label.tags) == ("from Python", ("t",))
    assert found.info.command[:3] == ["accelbench", "run", "nqueens"]
    assert len(capfd.readouterr().out.splitlines()) == 2
    table = found.table()
    assert list(table["param.queens"]) == [5, 6]
    assert list(table["median_s"]) == [record.timing.summary.median for record in found.records if record.timing]
    assert {"table", "p"} <= Texts(found._repr_html_()).tags
    assert found.info.run_id in repr(found)
    for word in (out, str(out), out / "records.jsonl"):
        again = load(word)
        assert (again.info, again.records) == (found.info, found.records)
    with (out / "records.jsonl").open("a", encoding="utf-8") as file:
        file.write("{partial line\n")
    with pytest.warns(Damage):
        assert load(out).records == found.records


def test_unknown_benchmarks_and_runs_are_user_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_main(point: Point) -> Task:
        return Task(lambda: None, lambda: Verification(True, "none"), Work())

    of_main.__module__ = "__main__"
    monkeypatch.setattr("accelbench.profiling.benchmark.REGISTRY", dict(REGISTRY))
    monkeypatch.setattr(api, "REGISTRY", import_module("accelbench.profiling.benchmark").REGISTRY)
    benchmark("of-a-notebook", devices=("cpu",), axes={}, metric="time")(of_main)
    monkeypatch.chdir(tmp_path)
    for name in ("of-a-notebook", "no-such-benchmark"):
        with pytest.raises(UserError):
            run(name, device="cpu")
    with pytest.raises(UserError):
        run("nqueens", device="cpu", params={"queens": "many"})
    monkeypatch.setattr(api, "find_cluster", lambda variables: object())
    with pytest.raises(UserError):
        run("nqueens", device="cpu")
    with pytest.raises(UserError):
        load(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
