"""Tests of `accelbench cores` with a real training workload."""

from __future__ import annotations

import io
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from accelbench.commands.cores import doubling, plan_cores
from accelbench.errors import UserError
from accelbench.execution.affinity import limited_to_cores, require_cores, usable_cores
from accelbench.execution.store import RunInfo, RunStore
from accelbench.output.console import PlainConsole
from accelbench.profiling.analysis.cores_law import MIN_COUNTS
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.timing.steady import steady_steps
from accelbench.report.section import Run as Stored
from accelbench.report.sections.needed_cores import section
from tests.conftest import Run, command, environment

FED = '''
"""A small training workload that records its number of cores."""

import os
from accelbench import Data, Metric, Training, Verification, Work, benchmark

BATCH = 8
AXES = {"feeders": (1,), "fails_on": (9999,)}
LAYOUT = {"input_workers": "feeders"}


@benchmark(
    "fed",
    devices=("cpu",),
    axes=AXES,
    metric="items",
    backends=("jax",),
    limits={"feeders": (1, 64)},
    layout=LAYOUT,
)
def fed(point):
    """Train a linear model on random rows."""
    cores = len(os.sched_getaffinity(0))
    if cores == point["fails_on"]:
        raise RuntimeError(f"fails on {cores} cores")
    import keras
    import numpy as np
    import threadpoolctl
    from accelbench.workloads.distribution.none import Alone
    from accelbench.workloads.data.pipeline import feed

    x = point.rng().normal(size=(40 * BATCH, 4)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    batches = feed(point, (x, y), batch=BATCH, epochs=2)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)
    threads = max(pool["num_threads"] for pool in threadpoolctl.threadpool_info())
    return Training(
        fit=lambda callbacks: Alone(point).train(model, batches, 2, callbacks),
        evaluate=lambda: {"cores": Metric(cores), "threads": Metric(threads)},
        verify=lambda history, metrics: Verification(True, "none"),
        work=Work(items=BATCH, item="rows"),
        data=Data("random rows", len(x), 0, synthetic=True),
        model=model,
    )
'''

TWO_CORES = """
description = "A training on one core and two, then with one input worker and two."
[[benchmark]]
name = "fed"
host_cores = [1, 2]
[[benchmark]]
name = "fed"
axes = { feeders = [1, 2] }
host_cores = [2]
"""
"""Suite with the points of `accelbench cores`, which itself needs more cores than some machines have."""

Done = tuple["subprocess.CompletedProcess[str]", Path]
"""Finished command and run directory."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> str:
    """ACCELBENCH_PATH with the small training workload."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "fed.py").write_text(FED, encoding="utf-8")
    return os.pathsep.join([environment()["ACCELBENCH_PATH"], str(folder)])


@pytest.fixture(scope="module")
def done(own: str, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Run on one and two cores, then with one and two input workers."""
    folder = tmp_path_factory.mktemp("runs")
    path, suite = folder / "run", folder / "two-cores.toml"
    suite.write_text(TWO_CORES, encoding="utf-8")
    arguments = ("run", "--suite", suite, "--device", "cpu", "--no-ceilings", "--out", path)
    variables = environment(ACCELBENCH_PATH=own)
    with limited_to_cores(2):
        return subprocess.run(command(*arguments), env=variables, capture_output=True, text=True, timeout=240), path


@pytest.mark.needs("two-cpus")
def test_each_point_ran_on_its_cores(done: Done) -> None:
    process, path = done
    assert process.returncode == 0, process.stderr + process.stdout
    records = RunStore.open(path).records()
    assert all(record.status == "measured" for record in records)
    by_point = {(r.point.host_cores, r.point.params["feeders"]): r for r in records}
    assert list(by_point) == [(1, 1), (2, 1), (2, 2)]
    for (cores, _), record in by_point.items():
        assert record.metrics["cores"].value == cores
        # Libraries imported before the workload, such as the BLAS of NumPy, are limited, too.
        assert record.metrics["threads"].value <= cores


@pytest.mark.needs("two-cpus")
def test_rates_and_result_are_printed(done: Done) -> None:
    printed = done[0].stdout
    assert "rows/s" in printed
    assert "inconclusive number of cores" in printed
    assert "5% faster" in printed


@pytest.mark.needs("two-cpus")
def test_the_report_plots_the_rate_against_the_cores(done: Done) -> None:
    page = (done[1] / "report.html").read_text(encoding="utf-8")
    assert "number of host cores" in page


@pytest.mark.slow
@pytest.mark.needs("two-cpus")
def test_an_interrupted_run_is_resumed(accelbench: Run, own: str, done: Done, tmp_path: Path) -> None:
    store = RunStore.open(done[1])
    again = RunStore.create(tmp_path / "again", store.info().model_copy(update={"status": "interrupted"}))
    for record in store.records():
        if record.point.host_cores != 1:
            again.append(record)
    again.close()
    resumed = accelbench("resume", again.path, ACCELBENCH_PATH=own)
    assert resumed.returncode == 0, resumed.stderr
    assert "host_cores=1" in resumed.stdout
    kept = {str(record.point): record.started for record in store.records() if record.point.host_cores != 1}
    now = RunStore.open(again.path).records()
    assert {str(record.point): record.started for record in now if str(record.point) in kept} == kept
    assert next(record for record in now if record.point.host_cores == 1).metrics["cores"].value == 1


@pytest.mark.slow
@pytest.mark.needs("two-cpus")
def test_a_failed_point_loses_only_itself(accelbench: Run, own: str, tmp_path: Path) -> None:
    suite = 'description = "d"\n[[benchmark]]\nname = "fed"\nhost_cores = [1, 2]\naxes = { fails_on = [2] }\n'
    (tmp_path / "mine.toml").write_text(suite, encoding="utf-8")
    with limited_to_cores(2):
        ended = accelbench(
            "run", "--suite", "mine.toml", "--device", "cpu", "--no-ceilings", "--out", "run", ACCELBENCH_PATH=own
        )
    assert ended.returncode == 1
    assert "fails on 2 cores" in ended.stdout
    assert "measured with 1 " in ended.stdout
    statuses = {r.point.host_cores: r.status for r in RunStore.open(tmp_path / "run").records()}
    assert (statuses[1], statuses[2]) == ("measured", "failed")


@pytest.mark.slow
@pytest.mark.needs("two-cpus")
def test_points_of_a_suite_with_too_many_cores_are_skipped(accelbench: Run, own: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'description = "d"\n[[benchmark]]\nname = "fed"\nhost_cores = [1, 100000]\n', encoding="utf-8"
    )
    chosen = ("--suite", "mine.toml", "--device", "cpu", "--no-ceilings", "--out", "run")
    with limited_to_cores(2):
        ended = accelbench("run", *chosen, ACCELBENCH_PATH=own)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    by_cores = {record.point.host_cores: record for record in RunStore.open(tmp_path / "run").records()}
    assert by_cores[1].metrics["cores"].value == 1
    assert by_cores[100_000].status == "skipped"
    assert "100000 host cores" in by_cores[100_000].reason
    with limited_to_cores(2):
        assert accelbench("resume", "run", ACCELBENCH_PATH=own).returncode == 0, "skipped points are not measured again"


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (("behave",), "behave"),
        (("fedd",), "did you mean 'fed'?"),
        (("fed", "--cores", "0"), "--cores 0"),
        (("fed", "--cores", "1,two"), "--cores '1,two'"),
        (("fed", "--cores", "1,,2"), "--cores '1,,2'"),
        (("fed", "--cores", "-1"), "--cores '-1'"),
        (("fed", "--cores", "1"), "3 different numbers"),
        (("fed", "--cores", "100000"), "100000 host cores"),
        (("fed", "--workers", "0"), "--workers 0"),
        (("fed", "--workers", "65"), "at most 64"),
        (("paradnn-fc", "--workers", "2"), "--workers"),
        (("fed", "--param", "fails_on=3,4"), "fails_on"),
        (("fed", "--param", "feeders=1,2"), "--workers"),
        (("fed", "--param", "host_cores=2"), "axis 'host_cores'"),
        (("fed", "--backend", "torch"), "'torch'"),
    ],
)
def test_a_usage_error_is_one_line_and_leaves_no_run(
    accelbench: Run, own: str, tmp_path: Path, arguments: tuple[str, ...], key: str
) -> None:
    ended = accelbench("cores", *arguments, "--device", "cpu", ACCELBENCH_PATH=own)
    assert ended.returncode == 2
    assert key in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_doubling() -> None:
    assert [doubling(most) for most in (1, 2, 3, 8, 12)] == [[1], [1, 2], [1, 2, 3], [1, 2, 4, 8], [1, 2, 4, 8, 12]]


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.execution.affinity.usable_cores", lambda: 8)


@pytest.mark.usefixtures("eight_cores")
def test_too_few_numbers_of_cores_are_an_error_before_any_training() -> None:
    with pytest.raises(UserError, match=r"3 different numbers .*2: give --cores 1,2,4,8$"):
        plan_cores("resnet50", "cpu", [], None, cores="1,2")
    plan = plan_cores("resnet50", "cpu", [], None, cores="1,2,8", workers="1,2")
    assert [(point.host_cores, point.params["workers"]) for point in plan] == [(1, 4), (2, 4), (8, 4), (8, 1), (8, 2)]


def test_a_machine_with_two_cores_gets_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.execution.affinity.usable_cores", lambda: 2)
    with pytest.raises(UserError, match=r"may use 2: .* accelbench run resnet50 --param workers=1,2$"):
        plan_cores("resnet50", "cpu", [], None)
    with pytest.raises(UserError, match=r"may use 2: use a larger machine$"):
        plan_cores("paradnn-fc", "cpu", [], None)


@pytest.mark.slow
@pytest.mark.needs("three-cpus")
def test_the_command_measures_each_number_of_cores(accelbench: Run, own: str, tmp_path: Path) -> None:
    with limited_to_cores(MIN_COUNTS):
        ended = accelbench("cores", "fed", "--device", "cpu", "--workers", "1", "--out", "run", ACCELBENCH_PATH=own)
    assert ended.returncode == 0, ended.stderr
    assert [record.point.host_cores for record in RunStore.open(tmp_path / "run").records()] == [1, 2, 3]


@pytest.mark.needs("two-cpus")
def test_only_processes_started_inside_are_limited() -> None:
    before = os.sched_getaffinity(0)
    with limited_to_cores(1):
        inside = subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout
    assert (int(inside), os.sched_getaffinity(0)) == (1, before)
    with limited_to_cores(None):
        assert os.sched_getaffinity(0) == before


def test_a_plan_for_a_larger_machine_is_an_error() -> None:
    point = Point("fed", "cpu", {}, host_cores=usable_cores() + 1)
    with pytest.raises(UserError, match="host cores"):
        require_cores([point])


def shown(info: RunInfo, records: list[Record]) -> str:
    output = io.StringIO()
    if found := section.find(Stored(info, records)):
        assert section.terminal
        section.terminal(found, PlainConsole(file=output, width=200))
    return output.getvalue()


def with_cores(info: RunInfo, usable: int, quota: float | None) -> RunInfo:
    """Return the run as from a machine with this number of cores."""
    cpu = info.environment.cpu.model_copy(update={"usable": usable})
    limits = info.environment.limits.model_copy(update={"cpu_quota": quota})
    return info.model_copy(update={"environment": info.environment.model_copy(update={"cpu": cpu, "limits": limits})})


def at(record: Record, cores: int, seconds: float) -> Record:
    """Return the record with this number of cores, and every step within 1 % of `seconds`."""
    assert record.timing is not None
    samples = [seconds * (1 + 0.001 * (step % 21 - 10)) for step in range(60)]
    timing = record.timing.model_copy(update={"samples": samples, "steady": steady_steps([samples])})
    return record.model_copy(update={"point": replace(record.point, host_cores=cores), "timing": timing})


@pytest.mark.needs("two-cpus")
def test_the_loss_of_speed_for_the_usable_cores(
    done: Done,
) -> None:
    """8 rows per step, 100 rows/s per core up to 6 cores: two cores deliver a third."""
    store = RunStore.open(done[1])
    records = [at(store.records()[0], cores, 8 / (100 * min(cores, 6))) for cores in (1, 2, 3, 4, 6, 8, 12)]
    two = with_cores(store.info(), usable=2, quota=None)
    assert "6 cores; available: 2 (67%" in shown(two, records)
    throttled = with_cores(store.info(), usable=2, quota=1.5)
    assert "6 cores; available: 1 (83%" in shown(throttled, records)


@pytest.mark.needs("two-cpus")
def test_the_section_is_only_shown_for_runs_with_host_cores(
    done: Done,
) -> None:
    info = RunStore.open(done[1]).info()
    assert shown(info, [])
    plain = [replace(point, host_cores=None) for point in info.plan]
    assert shown(info.model_copy(update={"plan": plain}), []) == ""
