"""Tests of `accelbench fleet`."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accelbench.__main__ import main
from accelbench.execution.store import Label
from accelbench.fleet.observations import FleetData
from accelbench.fleet.odd import compare_nodes, location, without_skewness
from accelbench.fleet.shared import shared_attributes
from accelbench.gate.answer import GateAnswer, GateCheck
from accelbench.gate.hardware import HardwareClass
from tests.conftest import Run
from tests.fixtures.compare_runs import NOW, gpu, machine, measured, run, samples

Captured = pytest.CaptureFixture[str]
HARDWARE = HardwareClass(machine="EPYC, 8 CPUs", cpu="EPYC", cpus=8, memory_bytes=1 << 30)


def write_answer(folder: Path, node: str, rates: Sequence[float], **fields: Any) -> Path:
    """Write an answer of the gate with these repetitions of a copy, and their reciprocals as a time."""
    folder.mkdir(exist_ok=True)
    own = {"kind": "measurement", "status": "pass", "found": "", "noise": fields.pop("noise", [])}
    rate = GateCheck(name="copy", figure="bytes", unit="B/s", value=rates[0], repetitions=list(rates), **own)
    times = [1 / value for value in rates]
    time = GateCheck(name="launch", figure="time", unit="s", value=times[0], repetitions=times, **own)
    facts = {"id": node, "node": node, "level": "quick", "verdict": "fit", "exit_status": 0, "summary": ""}
    known: dict[str, Any] = {**facts, "started": NOW, "wall_s": 1.0, "hardware": HARDWARE, "checks": [rate, time]}
    path = folder / f"{fields.pop('file', node)}.json"
    path.write_text(GateAnswer(**known | fields).model_dump_json(indent=1), encoding="utf-8")
    return path


def write_fleet(folder: Path, count: int, slow: Sequence[int] = (), slower: float = 0.1) -> None:
    rng = np.random.default_rng(1)
    for number in range(count):
        rates = 100 * rng.lognormal(sigma=0.01, size=4) * (1 - slower * (number in slow))
        attributes = {"cuda.driver": "new" if number in slow else "old"}
        write_answer(folder, f"n{number}", rates.tolist(), attributes=attributes)


def document(capsys: Captured, *words: str | Path, status: int = 0) -> dict[str, Any]:
    assert main(["fleet", *map(str, words), "--format", "json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_odd_nodes_are_named_with_their_metrics_and_what_they_share(accelbench: Run, tmp_path: Path) -> None:
    write_fleet(tmp_path / "gates", 30, slow=[3, 7, 11])
    shown = accelbench("fleet", "gates", "--fail-on", "odd")
    assert shown.returncode == 3
    assert "3 odd of 30 nodes" in shown.stdout
    assert re.search(r"\b3 of 3\b.*cuda\.driver=new.*\b0 of 27\b", shown.stdout)


def test_the_document_has_odd_results_and_the_csv_has_all(tmp_path: Path, capsys: Captured) -> None:
    write_fleet(tmp_path / "gates", 30, slow=[3, 7])
    found = document(capsys, tmp_path / "gates")
    assert (found["nodes"], found["odd_nodes"]) == (30, 2)
    assert {(row["name"], row["metric"]) for row in found["rows"]} == {
        (node, metric) for node in ("n3", "n7") for metric in ("copy (B/s)", "launch (s)")
    }
    assert [row["difference"] for row in found["rows"]] == pytest.approx([-0.1] * 4, abs=0.02)
    assert main(["fleet", str(tmp_path / "gates"), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 60
    assert sum(row["odd"] == "True" for row in rows) == 4


def test_the_order_and_the_names_of_files_change_nothing(tmp_path: Path, capsys: Captured) -> None:
    write_fleet(tmp_path / "a", 20, slow=[5])
    paths = sorted((tmp_path / "a").iterdir())
    first = document(capsys, *paths)
    assert document(capsys, *reversed(paths)) == first
    (tmp_path / "b").mkdir()
    for number, path in enumerate(reversed(paths)):
        shutil.copy(path, tmp_path / "b" / f"{number}.json")
    assert document(capsys, tmp_path / "b") == first
    assert document(capsys, tmp_path / "a", tmp_path / "b") == first, "a copy of an answer counts once"


@pytest.mark.parametrize("count", [1, 2, 4])
def test_few_nodes_are_not_compared(count: int, tmp_path: Path, capsys: Captured) -> None:
    write_fleet(tmp_path / "gates", count, slow=[0], slower=0.5)
    found = document(capsys, tmp_path / "gates", "--fail-on", "odd")
    assert (found["rows"], found["groups"][0]["nodes"]) == ([], count)
    assert any("too few" in note for note in found["notes"])


def test_a_far_node_of_five_is_odd_and_equal_nodes_are_not(tmp_path: Path, capsys: Captured) -> None:
    for number in range(20):
        write_answer(tmp_path / "gates", f"n{number}", [100.0])
    assert document(capsys, tmp_path / "gates")["rows"] == []
    write_answer(tmp_path / "gates", "n20", [50.0])
    write_answer(tmp_path / "gates", "n21", [99.5])
    assert {row["name"] for row in document(capsys, tmp_path / "gates")["rows"]} == {"n20"}


def test_bad_files_are_skipped_with_a_reason(tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "gates"
    write_fleet(folder, 6)
    good = (folder / "n0.json").read_text(encoding="utf-8")
    value = json.loads(good)["checks"][0]["value"]
    for name, text in {
        "nan": good.replace(f'"value": {value}', '"value": NaN').replace('"id": "n0"', '"id": "x"'),
        "negative": good.replace(f'"value": {value}', '"value": -1.0'),
        "version": good.replace('"gate_version": 1', '"gate_version": 2'),
        "cut": good[:200],
        "other": '{"command": "fleet"}',
        "empty": "",
    }.items():
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    write_answer(folder, "busy", [1.0], hardware=None, checks=[], verdict="unknown", exit_status=2)
    found = document(capsys, folder)
    assert found["nodes"] == 6
    assert len(found["skipped"]) == 7
    assert main(["fleet", str(folder / "nan.json")]) == 2
    assert main(["fleet", str(tmp_path / "missing")]) == 2


def test_noisy_results_are_left_out_by_default(tmp_path: Path, capsys: Captured) -> None:
    write_fleet(tmp_path / "gates", 20)
    write_answer(tmp_path / "gates", "noisy", [50.0] * 4, noise=["other processes"])
    assert document(capsys, tmp_path / "gates")["rows"] == []
    found = document(capsys, tmp_path / "gates", "--include-noisy")
    assert {row["name"] for row in found["rows"]} == {"noisy"}


def test_a_node_with_two_kinds_of_hardware_is_in_both_groups(tmp_path: Path, capsys: Captured) -> None:
    write_fleet(tmp_path / "gates", 8)
    other = HARDWARE.model_copy(update={"machine": "Xeon, 8 CPUs"})
    write_answer(tmp_path / "gates", "n3", [300.0], id="later", file="later", hardware=other)
    found = document(capsys, tmp_path / "gates")
    assert [group["nodes"] for group in found["groups"]] == [8, 1]
    assert any("n3" in note for note in found["notes"])
    assert found["rows"] == []
    before = len(found["notes"])
    for number in range(8):
        write_answer(tmp_path / "gates", f"n{number}", [300.0], id=f"x{number}", file=f"x{number}", hardware=other)
    assert len(document(capsys, tmp_path / "gates")["notes"]) < before  # one for all nodes


def test_the_name_of_a_node_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    write_fleet(tmp_path / "gates", 8)
    write_answer(tmp_path / "gates", "rack\n 7", [50.0] * 4, file="odd")
    assert {row["name"] for row in document(capsys, tmp_path / "gates")["rows"]} == {"rack 7"}


def test_stored_runs_are_joined_by_node_and_hardware(tmp_path: Path, capsys: Captured) -> None:
    for number in range(12):
        seconds = 1.2 if number == 4 else 1.0 + number / 5000
        records = [measured(samples(seconds, spread=0.001, seed=number))]
        if number % 2:
            records.append(measured(samples(2.0 + number / 5000, spread=0.001, seed=number), "stream", figure="time"))
        for repeated in range(2):
            label = Label(tags=(f"node=n{number}", "rack=r4" if number == 4 else "rack=r1", "blue"))
            run(tmp_path / "runs" / "job" / f"{number}-{repeated}", records, label=label)
    run(tmp_path / "runs" / "other", [measured(samples(9.0))], machine(gpus=[gpu("NVIDIA A100")]))
    half = run(tmp_path / "runs" / "half", [measured(samples(1.0, spread=0.001))], status="running")
    with half.records_path.open("a", encoding="utf-8") as file:
        file.write("{")
    found = document(capsys, tmp_path / "runs")
    assert {row["name"] for row in found["rows"]} == {"n4"}
    assert found["rows"][0]["group"] == 13
    assert sorted(group["nodes"] for group in found["groups"]) == [1, 13]
    assert any("line 2" in reason for reason in found["skipped"])


def made_up(speeds: np.ndarray) -> FleetData:
    """Return a fleet of one metric from log speeds by node and repetition."""
    data = FleetData()
    for number, values in enumerate(speeds):
        data.add_values("m", f"n{number:05}", "x", np.exp(values).tolist(), is_time=False)
    return data


@pytest.mark.parametrize("repetitions", [1, 3, 8])
@pytest.mark.parametrize("nodes", [5, 30, 2000])
def test_nodes_without_a_fault_are_rarely_odd(nodes: int, repetitions: int) -> None:
    rng = np.random.default_rng(3)
    tries = max(1, 60 // nodes)
    for draw in (rng.standard_normal, lambda size: -rng.exponential(size=size)):
        fleets = [made_up(0.03 * draw((nodes, repetitions))) for _ in range(tries)]
        odd = sum(int(compare_nodes(fleet)["odd"].sum()) for fleet in fleets)
        assert odd <= (3 if draw is rng.standard_normal else 6)


def test_a_node_with_fewer_repetitions_is_judged_by_its_own_uncertainty() -> None:
    rng = np.random.default_rng(4)
    data = made_up(0.02 * rng.standard_normal((200, 16)))
    for node, count in (("few", 1), ("many", 16)):
        data.add_values("m", node, "x", [0.97] * count, is_time=False)
    rows = compare_nodes(data).set_index("node")
    assert not rows.loc["few", "odd"]
    assert rows.loc["many", "odd"]


def test_the_location_is_the_median_of_pairwise_means() -> None:
    rng = np.random.default_rng(5)
    parts = [rng.standard_normal(length) for length in (1, 2, 3, 7, 3)]
    begins = np.cumsum([0, *(len(part) for part in parts[:-1])])
    found = location(np.concatenate(parts), begins, np.array([len(part) for part in parts]))
    expected = [np.median([(a + b) / 2 for i, a in enumerate(part) for b in part[i:]]) for part in parts]
    assert found.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("skewness", [-1.0, -0.2, 0.0, 0.5])
def test_scores_without_skewness_keep_their_order_and_the_median(skewness: float) -> None:
    z = np.linspace(-12, 12, 101)
    scores = without_skewness(z, skewness)
    assert (np.diff(scores) > 0).all()
    assert without_skewness(np.zeros(1), skewness)[0] == pytest.approx(0.0, abs=0.01)


def test_scores_of_a_gamma_distribution_are_normal() -> None:
    x = np.random.default_rng(6).gamma(16, size=100_000)
    scores = without_skewness((x - np.median(x)) / 4, 2 / 16**0.5)
    assert np.quantile(scores, [0.977, 0.999, 0.9999]).tolist() == pytest.approx([2, 3.09, 3.72], abs=0.15)
    assert np.quantile(scores, 0.001) > -3.09


def test_an_attribute_of_all_nodes_or_by_chance_is_not_shared() -> None:
    data = FleetData()
    for number in range(40):
        pairs = [("os", "same"), ("rack", str(number % 4)), ("serial", str(number)), ("driver", str(number < 6))]
        data.add("m", f"n{number}", pairs)
    (found,) = shared_attributes(data, {"m": {f"n{number}" for number in range(5)}})
    assert (found.attribute, found.odd, found.odd_total, found.others) == ("driver=True", 5, 5, 1)
    assert shared_attributes(data, {}) == []
