"""Joint reports of several runs: labels, differences, studies and rooflines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.errors import DataDamaged, UserError, collect_damage
from accelbench.execution.store import Label, RunInfo, Settings
from accelbench.history.run_labels import label_runs
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.quality import Data
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from accelbench.report.joined import Joined, read_runs
from accelbench.report.section import Run
from tests.fixtures.report_node import cpu_records, gpu_records, study_records
from tests.fixtures.report_records import STARTED, record, studied, timing, training, unmeasured
from tests.fixtures.report_runs import environment, make_run


def run(device: str = "cpu", records: list[Record] | None = None, run_id: str = "one", **changes: Any) -> Run:
    """Return a run without a store."""
    found = records or []
    fields: dict[str, Any] = {
        "run_id": run_id,
        "created": STARTED,
        "status": "finished",
        "command": [],
        "suite": "full",
        "device": device,
        "settings": Settings(),
        "plan": [one.point for one in found],
        "environment": environment(),
    }
    return Run(RunInfo(**fields | changes), found)


def in_container(engine: str | None, image: str | None = None) -> Environment:
    there = environment()
    return there.model_copy(
        update={"system": there.system.model_copy(update={"container": engine, "image": image}), "gpus": []}
    )


def other_host() -> Environment:
    there = environment()
    return there.model_copy(update={"cpu": there.cpu.model_copy(update={"model": "Xeon"})})


def labels(*runs: Run) -> tuple[str, ...]:
    return Joined(runs).labels


def test_runs_of_different_devices_are_labelled_by_device() -> None:
    assert labels(run("cpu", environment=in_container("docker")), run("gpu")) == ("cpu", "gpu")


def test_a_run_is_labelled_by_name_else_node_else_directory(tmp_path: Path) -> None:
    stores = [
        make_run(tmp_path / f"run-{n}", [record("fma")], run_id=f"id{n}", device="cpu", label=label)
        for n, label in enumerate((Label(name="old BIOS", tags=("node=n1",)), Label(tags=("node=n2",)), Label()))
    ]
    assert read_runs(stores).labels == ("old BIOS", "n2", "run-2")


def test_equal_labels_have_the_directory_in_addition_and_equal_directories_the_id(tmp_path: Path) -> None:
    name = Label(name="n1")
    named = [make_run(tmp_path / d, [], run_id=f"id-{d}", device="cpu", label=name) for d in ("a", "b")]
    assert read_runs(named).labels == ("n1 (a)", "n1 (b)")
    alike = [make_run(tmp_path / d / "run", [], run_id=f"id-{d}", device="cpu") for d in ("c", "d")]
    assert read_runs(alike).labels == ("run (id-c)", "run (id-d)")


def test_labels_do_not_depend_on_what_was_measured() -> None:
    runs = [run(run_id=name, records=[record("fma")], suite=name, environment=other_host()) for name in ("a", "b")]
    trained = run(run_id="c", records=[training("cpu", "float32", 0.1)], settings=Settings(seed=7))
    assert labels(*runs, trained) == ("a", "b", "c")


LABELS = st.builds(Label, name=st.sampled_from(["", "n", "n (a)", "a"]), tags=st.sampled_from([(), ("node=n",)]))


@given(st.lists(st.tuples(st.sampled_from(["cpu", "gpu"]), LABELS, st.sampled_from("ab")), min_size=1, max_size=8))
def test_labels_are_unique(choices: list[tuple[str, Label, str]]) -> None:
    runs = [
        (run(device, run_id=f"id{number}", label=label).info, Path(directory))
        for number, (device, label, directory) in enumerate(choices)
    ]
    assert len(set(label_runs(runs))) == len(runs)


def test_a_difference_is_listed_once_with_its_runs() -> None:
    others = [run(run_id=name, environment=other_host(), settings=Settings(seed=2)) for name in ("b", "c")]
    alike = run(run_id="d", suite="quick")
    found = {one.fact: one for one in Joined((run(run_id="a"), *others, alike)).differences}
    assert set(found) == {"seed", "cpu.model"}
    assert (found["seed"].first, found["seed"].other) == ("1", "2")
    assert (found["cpu.model"].first, found["cpu.model"].other) == ("AMD EPYC 9454 48-Core Processor", "Xeon")
    assert found["cpu.model"].labels == found["seed"].labels == ("b", "c")


def test_gpus_are_compared_only_between_runs_on_gpus() -> None:
    here = environment()
    newer = here.model_copy(update={"gpus": [here.gpus[0].model_copy(update={"name": "NVIDIA B200"})]})
    facts = [one.fact for one in Joined((run("gpu"), run("gpu", environment=newer))).differences]
    assert facts == ["gpus"]
    assert Joined((run("cpu", environment=in_container(None)), run("gpu"))).differences == []


def test_different_precisions_of_training_workloads_are_a_difference() -> None:
    runs = [run(records=[training("cpu", precision, 0.1)]) for precision in ("float32", "mixed_bfloat16")]
    (difference,) = Joined(tuple(runs)).differences
    assert (difference.first, difference.other) == ("float32", "bfloat16")
    assert Joined((runs[0], run(records=[record("stream")]))).differences == []


def halves() -> list[Run]:
    """Return Kimm et al. 2021 as two runs, on a CPU and on a GPU."""
    records = study_records()
    return [
        run(device, [found for found in records if found.point.device == device], run_id=device)
        for device in ("cpu", "gpu")
    ]


def test_a_study_of_several_runs_has_the_lines_of_each() -> None:
    (study,) = Joined(tuple(halves())).studies
    assert study.places == ("cpu", "gpu")
    together = Joined((run("gpu", study_records()),)).studies
    assert [sweep.axis for sweep in study.sweeps] == [sweep.axis for sweep in together[0].sweeps]
    for several, single in zip(study.sweeps, together[0].sweeps, strict=True):
        assert [(line.where, line.choice) for line in several.lines] == [
            (line.where, line.choice) for line in single.lines
        ]


def test_one_point_per_run_is_no_study() -> None:
    points = [
        run("cpu", [studied("lstm", "cpu", 5.0, 0.9, params={"units": u})], run_id=str(u), settings=Settings(seed=u))
        for u in (32, 64)
    ]
    assert Joined(tuple(points)).studies == []


def test_a_framework_in_the_label_is_not_repeated() -> None:
    runs = [
        run(records=[studied("lstm", "cpu", u, 0.9, params={"units": u}, backend=name) for u in (32, 64)], run_id=label)
        for label, name in (("a jax", "jax"), ("b torch", "torch"))
    ]
    (study,) = Joined(tuple(runs)).studies
    assert study.places == ("a jax", "b torch")


def test_different_amounts_of_data_are_compared_by_rate() -> None:
    runs = [
        run(
            records=[
                studied("lstm", "cpu", 9.0, 0.9, params={"units": u}, data=Data("digits", train=train, held_out=9))
                for u in (32, 64)
            ],
            settings=Settings(seed=train),
        )
        for train in (100, 200)
    ]
    (study,) = Joined(tuple(runs)).studies
    assert study.sweeps[0].measures[0].title == "images per second"


def test_synthetic_or_different_data_is_noted_in_the_study() -> None:
    def trained(*data: Data) -> str:
        runs = [
            run(
                records=[studied("lstm", "cpu", 9.0, 0.9, params={"units": u}, data=each) for u in (32, 64)],
                run_id=f"run {number}",
            )
            for number, each in enumerate(data)
        ]
        (study,) = Joined(tuple(runs)).studies
        return study.data

    real, synthetic = (Data("reviews", train=9, held_out=9, synthetic=is_synthetic) for is_synthetic in (False, True))
    assert trained(real) == trained(real, real) == ""
    assert trained(synthetic, synthetic) == "synthetic data: reviews"
    assert trained(real, synthetic) == "reviews (run 0); synthetic data: reviews (run 1)"


def test_rooflines_use_the_roofs_of_their_own_run() -> None:
    slow = [
        found.model_copy(update={"timing": timing(10 * found.timing.summary.median)})
        for found in cpu_records()
        if found.timing and found.timing.timer == "host"
    ]
    runs = (run("cpu", cpu_records(), "fast"), run("cpu", slow, "slow"), run("gpu", gpu_records(), "gpu"))
    fast, slower, gpu = Joined(runs).rooflines
    assert [one.place for one in (fast, slower, gpu)] == ["fast", "slow", "gpu"]
    assert fast.compute["float32"] == pytest.approx(1.71e12, 0.01)
    assert slower.compute["float32"] == pytest.approx(1.71e11, 0.02)
    assert gpu.memory == pytest.approx(4.36e12, 0.01)
    assert [place for place, _ in Joined(runs).ceilings] == [
        place for place, one in zip(("fast", "slow", "gpu"), runs, strict=True) for _ in one.ceilings
    ]


def test_a_run_without_ceilings_has_no_roofline() -> None:
    lone = record("matmul", figure="flops", work=Work(flops=1e9, bytes=1e6), params={"dtype": "float32"})
    joined = Joined((run("cpu", cpu_records(), "with"), run("cpu", [lone], "without")))
    assert [one.place for one in joined.rooflines] == ["with"]
    assert [row.of_ceiling.value for place, row in joined.rows if place == "without"] == [None]


def test_a_run_given_twice_raises_user_error_for_any_spelling_and_a_copy(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", [record("launch")])
    copy = make_run(tmp_path / "copy", [record("launch")])
    again = type(store)(tmp_path / "." / "run" / ".." / "run")
    with pytest.raises(UserError, match=r"twice"):
        read_runs([store, again])
    with pytest.raises(UserError, match=r"twice.*run and .*copy"):
        read_runs([store, copy])


def test_corrupt_records_are_reported_and_the_rest_is_shown(tmp_path: Path) -> None:
    whole = make_run(tmp_path / "whole", [record("launch")], run_id="whole")
    cut = make_run(tmp_path / "cut", [record("launch"), record("fma")], run_id="cut")
    cut.records_path.write_text(cut.records_path.read_text()[:-20])
    gone = make_run(tmp_path / "gone", [], run_id="gone")
    gone.info_path.write_text("{")
    with collect_damage() as damage:
        joined = read_runs([whole, cut, gone])
    assert [len(run.rows) for run in joined.runs] == [1, 1]
    assert any("records.jsonl" in reason for reason in damage)
    assert any("gone/run.json" in reason for reason in damage)
    with pytest.raises(DataDamaged):
        read_runs([gone])


def test_a_run_of_another_schema_raises_user_error(tmp_path: Path) -> None:
    stores = [make_run(tmp_path / name, [], run_id=name) for name in ("a", "b")]
    text = stores[1].info_path.read_text()
    stores[1].info_path.write_text(text.replace('"schema_version": 2', '"schema_version": 1'))
    with pytest.raises(UserError, match=r"run\.json") as error:
        read_runs(stores)
    assert not isinstance(error.value, DataDamaged)


def test_a_run_without_results_has_no_line_and_no_roofline() -> None:
    failed = run("gpu", [unmeasured("bilstm-har", "failed", "out of memory", device="gpu")])
    joined = Joined((halves()[0], failed))
    assert joined.labels == ("cpu", "gpu")
    assert [study.places for study in joined.studies] == [("cpu",)]
    assert joined.rooflines == []
