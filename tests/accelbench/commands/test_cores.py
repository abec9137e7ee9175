"""`accelbench cores`: a real training on each number of host cores, and what it needs of them."""

from __future__ import annotations

import io
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from accelbench.commands.cores import doubling, plan_cores
from accelbench.errors import UserError
from accelbench.execution.affinity import kept_to, require_cores, usable_cores
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
"""A tiny training that says on how many cores it ran."""

import os
from accelbench import Data, Metric, Training, Verification, Work, benchmark

BATCH = 8
AXES = {"feeders": (1,), "fails_on": (9999,)}
LAYOUT = {"input_workers": "feeders"}


@benchmark(
    "fed",
    devices=("cpu",),
    axes=AXES,
    figure="items",
    backends=("tensorflow",),
    limits={"feeders": (1, 64)},
    layout=LAYOUT,
)
def fed(point):
    """Train a line on random rows."""
    cores = len(os.sched_getaffinity(0))
    if cores == point["fails_on"]:
        raise RuntimeError(f"{cores} cores are not to its liking")
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
"""A run with the points of `accelbench cores`, which itself asks for more cores than each machine has."""

Done = tuple["subprocess.CompletedProcess[str]", Path]
"""The finished command, and its run's directory."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What ACCELBENCH_PATH is with the tiny training in it."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "fed.py").write_text(FED, encoding="utf-8")
    return os.pathsep.join([environment()["ACCELBENCH_PATH"], str(folder)])


@pytest.fixture(scope="module")
def done(own: str, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A run on one core and two, then with one input worker and two, as on a machine of two cores."""
    folder = tmp_path_factory.mktemp("runs")
    path, suite = folder / "run", folder / "two-cores.toml"
    suite.write_text(TWO_CORES, encoding="utf-8")
    arguments = ("run", "--suite", suite, "--device", "cpu", "--no-ceilings", "--out", path)
    variables = environment(ACCELBENCH_PATH=own)
    with kept_to(2):
        return subprocess.run(command(*arguments), env=variables, capture_output=True, text=True, timeout=240), path


@pytest.mark.needs("two-cpus")
def test_each_point_ran_on_its_cores_and_no_more(done: Done) -> None:
    process, path = done
    assert process.returncode == 0, process.stderr + process.stdout
    records = RunStore.open(path).records()
    assert all(record.status == "measured" for record in records)
    by_point = {(r.point.host_cores, r.point.params["feeders"]): r for r in records}
    assert list(by_point) == [(1, 1), (2, 1), (2, 2)]
    for (cores, _), record in by_point.items():
        assert record.metrics["cores"].value == cores
        # Libraries that were imported before the workload, NumPy's BLAS among them, know their cores, too.
        assert record.metrics["threads"].value <= cores


@pytest.mark.needs("two-cpus")
def test_it_prints_the_rates_and_the_answer(done: Done) -> None:
    printed = done[0].stdout
    assert "rows/s" in printed
    assert "cannot tell how many cores it needs: it was measured with 2 of the 3 different numbers of cores" in printed
    assert "on all cores: no number that was measured is over 5% faster" in printed


@pytest.mark.needs("two-cpus")
def test_the_report_draws_the_training_against_the_cores(done: Done) -> None:
    page = (done[1] / "report.html").read_text(encoding="utf-8")
    assert "against the number of host cores" in page


@pytest.mark.slow
@pytest.mark.needs("two-cpus")
def test_an_interrupted_run_goes_on_with_what_is_missing(accelbench: Run, own: str, done: Done, tmp_path: Path) -> None:
    store = RunStore.open(done[1])
    again = RunStore.create(tmp_path / "again", store.info().model_copy(update={"status": "interrupted"}))
    for record in store.records():
        if record.point.host_cores != 1:
            again.append(record)
    again.close()
    resumed = accelbench("resume", again.path, ACCELBENCH_PATH=own)
    assert resumed.returncode == 0, resumed.stderr
    assert "host_cores=1" in resumed.stdout
    assert "how many cores it needs" in resumed.stdout
    kept = {str(record.point): record.started for record in store.records() if record.point.host_cores != 1}
    now = RunStore.open(again.path).records()
    assert {str(record.point): record.started for record in now if str(record.point) in kept} == kept
    assert next(record for record in now if record.point.host_cores == 1).metrics["cores"].value == 1


@pytest.mark.slow
@pytest.mark.needs("two-cpus")
def test_a_point_that_fails_costs_the_point_and_no_more(accelbench: Run, own: str, tmp_path: Path) -> None:
    suite = 'description = "d"\n[[benchmark]]\nname = "fed"\nhost_cores = [1, 2]\naxes = { fails_on = [2] }\n'
    (tmp_path / "mine.toml").write_text(suite, encoding="utf-8")
    with kept_to(2):
        ended = accelbench(
            "run", "--suite", "mine.toml", "--device", "cpu", "--no-ceilings", "--out", "run", ACCELBENCH_PATH=own
        )
    assert ended.returncode == 1
    assert "2 cores are not to its liking" in ended.stdout
    assert "it was measured with 1 of the 3 different numbers of cores" in ended.stdout
    statuses = {r.point.host_cores: r.status for r in RunStore.open(tmp_path / "run").records()}
    assert (statuses[1], statuses[2]) == ("measured", "failed")


@pytest.mark.slow
@pytest.mark.needs("two-cpus")
def test_a_suite_names_cores_and_those_that_are_not_here_are_skipped(accelbench: Run, own: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'description = "d"\n[[benchmark]]\nname = "fed"\nhost_cores = [1, 2, 100000]\n', encoding="utf-8"
    )
    chosen = ("--suite", "mine.toml", "--device", "cpu", "--no-ceilings", "--out", "run")
    with kept_to(2):
        ended = accelbench("run", *chosen, ACCELBENCH_PATH=own)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    by_cores = {record.point.host_cores: record for record in RunStore.open(tmp_path / "run").records()}
    assert [by_cores[cores].metrics["cores"].value for cores in (1, 2)] == [1, 2]
    assert by_cores[100_000].status == "skipped"
    assert by_cores[100_000].reason == "100000 host cores are wanted, and this process may use 2"
    with kept_to(2):
        assert accelbench("resume", "run", ACCELBENCH_PATH=own).returncode == 0, "what was skipped is not wanted again"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("behave",), "behave is no training"),
        (("fedd",), "did you mean 'fed'?"),
        (("fed", "--cores", "0"), "--cores 0: the least is 1"),
        (("fed", "--cores", "1,two"), "--cores '1,two' is not of the form 1,2,4"),
        (("fed", "--cores", "1,,2"), "is not of the form 1,2,4"),
        (("fed", "--cores", "-1"), "is not of the form 1,2,4"),
        (("fed", "--cores", "1"), "how many cores fed needs is told by 3 different numbers of them, and"),
        (("fed", "--cores", "100000"), "100000 host cores are wanted, and this process may use"),
        (("fed", "--workers", "0"), "--workers 0: the least is 1"),
        (("fed", "--workers", "65"), "feeders is at most 64"),
        (("paradnn-fc", "--workers", "2"), "paradnn-fc declares no input workers"),
        (("fed", "--param", "fails_on=3,4"), "give one value of fails_on"),
        (("fed", "--param", "feeders=1,2"), "give one value of feeders, and the others with --workers"),
        (("fed", "--param", "host_cores=2"), "no chosen benchmark has an axis 'host_cores'"),
        (("fed", "--backend", "jax"), "does not run on backend 'jax'"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_run(
    accelbench: Run, own: str, tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    ended = accelbench("cores", *arguments, "--device", "cpu", ACCELBENCH_PATH=own)
    assert ended.returncode == 2
    assert complaint in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_cores_double_up_to_all() -> None:
    assert [doubling(most) for most in (1, 2, 3, 8, 12)] == [[1], [1, 2], [1, 2, 3], [1, 2, 4, 8], [1, 2, 4, 8, 12]]


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.execution.affinity.usable_cores", lambda: 8)


@pytest.mark.usefixtures("eight_cores")
def test_a_law_that_needs_three_numbers_refuses_two_before_anything_is_trained() -> None:
    with pytest.raises(UserError, match=r"told by 3 different numbers .* and 2 would be .*: give --cores 1,2,4,8$"):
        plan_cores("resnet50", "cpu", [], None, cores="1,2")
    plan = plan_cores("resnet50", "cpu", [], None, cores="1,2,8", workers="1,2")
    assert [(point.host_cores, point.params["workers"]) for point in plan] == [(1, 4), (2, 4), (8, 4), (8, 1), (8, 2)]


def test_a_machine_with_two_cores_is_told_what_it_can_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.execution.affinity.usable_cores", lambda: 2)
    with pytest.raises(UserError, match=r"may use 2 in all: .* accelbench run resnet50 --param workers=1,2$"):
        plan_cores("resnet50", "cpu", [], None)
    with pytest.raises(UserError, match=r"in all: take a machine with more$"):
        plan_cores("paradnn-fc", "cpu", [], None)


@pytest.mark.slow
@pytest.mark.needs("three-cpus")
def test_the_command_trains_on_each_number_of_cores(accelbench: Run, own: str, tmp_path: Path) -> None:
    with kept_to(MIN_COUNTS):
        ended = accelbench("cores", "fed", "--device", "cpu", "--workers", "1", "--out", "run", ACCELBENCH_PATH=own)
    assert ended.returncode == 0, ended.stderr
    assert [record.point.host_cores for record in RunStore.open(tmp_path / "run").records()] == [1, 2, 3]


@pytest.mark.needs("two-cpus")
def test_only_what_is_started_inside_is_kept_to_its_cores() -> None:
    before = os.sched_getaffinity(0)
    with kept_to(1):
        inside = subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout
    assert (int(inside), os.sched_getaffinity(0)) == (1, before)
    with kept_to(None):
        assert os.sched_getaffinity(0) == before


def test_a_plan_for_a_larger_machine_is_refused() -> None:
    point = Point("fed", "cpu", {}, host_cores=usable_cores() + 1)
    with pytest.raises(UserError, match="host cores are wanted"):
        require_cores([point])


def shown(info: RunInfo, records: list[Record]) -> str:
    output = io.StringIO()
    if found := section.find(Stored(info, records)):
        assert section.terminal
        section.terminal(found, PlainConsole(file=output, width=200))
    return output.getvalue()


def with_cores(info: RunInfo, usable: int, quota: float | None) -> RunInfo:
    """The run as that of a machine with so many cores."""
    cpu = info.environment.cpu.model_copy(update={"usable": usable})
    limits = info.environment.limits.model_copy(update={"cpu_quota": quota})
    return info.model_copy(update={"environment": info.environment.model_copy(update={"cpu": cpu, "limits": limits})})


def at(record: Record, cores: int, seconds: float) -> Record:
    """The record as it would be with so many cores, every step within 1 % of those seconds."""
    assert record.timing is not None
    samples = [seconds * (1 + 0.001 * (step % 21 - 10)) for step in range(60)]
    timing = record.timing.model_copy(update={"samples": samples, "steady": steady_steps([samples])})
    return record.model_copy(update={"point": replace(record.point, host_cores=cores), "timing": timing})


@pytest.mark.needs("two-cpus")
def test_the_loss_is_that_of_the_cores_the_machine_has(
    done: Done,
) -> None:
    """8 rows a step, 100 rows/s for each core up to 6: two cores feed a third of that."""
    store = RunStore.open(done[1])
    records = [at(store.records()[0], cores, 8 / (100 * min(cores, 6))) for cores in (1, 2, 3, 4, 6, 8, 12)]
    two = with_cores(store.info(), usable=2, quota=None)
    assert "fed from 6 cores on; the runtime has 2: 67% of its speed is lost" in shown(two, records)
    throttled = with_cores(store.info(), usable=2, quota=1.5)
    assert "fed from 6 cores on; the runtime has 1: 83% of its speed is lost" in shown(throttled, records)


@pytest.mark.needs("two-cpus")
def test_nothing_measured_and_other_runs_are_told_apart(
    done: Done,
) -> None:
    info = RunStore.open(done[1]).info()
    assert "no point was measured" in shown(info, [])
    plain = [replace(point, host_cores=None) for point in info.plan]
    assert shown(info.model_copy(update={"plan": plain}), []) == ""
