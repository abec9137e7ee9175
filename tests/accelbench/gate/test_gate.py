"""Tests of `accelbench gate` as a process: verdicts, exit status, time limit, cleanup."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from accelbench.gate.answer import GateAnswer, GateCheck
from accelbench.gate.baseline import Baseline, BaselineHardware, BaselineMetric, write_baseline
from accelbench.gate.node_gate import LOCK
from tests.conftest import ROOT, command, environment
from tests.fixtures.processes import living, marked, wait_for

POINT = "behave cpu us=200"
SUITE = 'description = "x"\nmax_seconds = 0.2\nrounds = 2\n[[benchmark]]\nname = "behave"\n'
HANGING = '''
import os, signal, time
from accelbench import Point, Task, benchmark

@benchmark("stuck", devices=("cpu",), axes={"who": ("worker", "runner")}, metric="items")
def stuck(point: Point) -> Task:
    """A hang of the measured code, or of the process that measures."""
    if point["who"] == "runner":
        os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(600)
'''
Gate = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "suite.toml").write_text(SUITE, encoding="utf-8")
    return environment(TMPDIR=str(tmp_path / "tmp"), SLURMD_NODENAME="n17", **marked(tmp_path))


@pytest.fixture
def gate(tmp_path: Path, variables: dict[str, str]) -> Iterator[Gate]:
    def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command("gate", *arguments),
            cwd=tmp_path,
            env=variables | changes,
            capture_output=True,
            encoding="utf-8",
            timeout=240,
        )

    yield run
    # The environment of a process, which marks it, is briefly empty during `exec`.
    wait_for(lambda: not living(tmp_path) and not [*(tmp_path / "tmp").iterdir()])


def stuck_suite(folder: Path, who: str) -> tuple[str, ...]:
    (folder / "own").mkdir()
    (folder / "own" / "stuck.py").write_text(HANGING, encoding="utf-8")
    suite = f'description = "x"\n[[benchmark]]\nname = "stuck"\naxes = {{ who = ["{who}"] }}\n'
    (folder / "stuck.toml").write_text(suite, encoding="utf-8")
    return ("--suite", "stuck.toml", "--include-noisy", "--only", "cpu")


def test_a_node_is_fit_by_a_baseline_learned_on_it(gate: Gate, tmp_path: Path) -> None:
    measured = ("--suite", "suite.toml", "--include-noisy", "--level", "thorough")
    first = gate(*measured, "--tag", "rack=r3", "--format", "json")
    answer = GateAnswer.model_validate_json(first.stdout)
    assert (first.returncode, answer.verdict, answer.node, answer.attributes["rack"]) == (2, "unknown", "n17", "r3")
    (check,) = [check for check in answer.checks if check.kind == "measurement"]
    assert (check.name, check.status, check.limit, check.resource) == (POINT, "unknown", None, "cpu")
    assert check.value is not None
    assert len(check.repetitions) == 2
    assert answer.hardware is not None

    metric = {"point": POINT, "figure": check.figure, "unit": check.unit, "median": check.value, "runs": 1}
    for name, rule in (("lenient", "0.1 * median"), ("strict", "median")):
        of = BaselineMetric.model_validate(
            {**metric, "min": rule, "median": check.value * (1 + 9 * (name == "strict"))}
        )
        hardware = BaselineHardware(**answer.hardware.model_dump(), metric=[of])
        baseline = Baseline(baseline_version=1, created="2025-01-01", accelbench="0", hardware=[hardware])
        write_baseline(baseline, tmp_path / f"{name}.toml")
    fit = gate(*measured, "--only", "cpu", "--baseline", "lenient.toml")
    assert (fit.returncode, fit.stdout.count("\n")) == (0, 1), fit.stderr
    assert ": fit: " in fit.stdout
    unfit = gate(*measured, "--baseline", "strict.toml", "--format", "npd")
    assert unfit.returncode == 1
    assert unfit.stdout.startswith(f"unfit: {POINT}: ")
    assert len(unfit.stdout) <= 81


def test_a_hung_runner_is_killed_at_the_time_limit(gate: Gate, tmp_path: Path) -> None:
    words = stuck_suite(tmp_path, "runner")
    begin = time.monotonic()
    gate("--only", "network")
    limit = max(8.0, 4 * (time.monotonic() - begin))  # enough to reach the point on a busy machine
    hung = gate(*words, "--time-limit", f"{limit}", "--format", "json", ACCELBENCH_PATH=str(tmp_path / "own"))
    answer = GateAnswer.model_validate_json(hung.stdout)
    (check,) = [check for check in answer.checks if check.name == "hung"]
    assert "stuck cpu who=runner" in check.found
    # On a busy machine a slow point cannot be distinguished from a hung one.
    busy = "the node is busy" in check.found
    assert (check.status, hung.returncode) == (("unknown", 2) if busy else ("fail", 1))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_gate_leaves_no_process_and_no_file(number: int, tmp_path: Path, variables: dict[str, str]) -> None:
    words = command("gate", *stuck_suite(tmp_path, "worker"))
    variables = variables | {"ACCELBENCH_PATH": str(tmp_path / "own")}
    with subprocess.Popen(
        words, cwd=tmp_path, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        wait_for(lambda: [*(tmp_path / "tmp").glob("*/current.json")])
        process.send_signal(number)
    wait_for(lambda: not living(tmp_path) and not [*(tmp_path / "tmp").iterdir()])
    assert process.returncode == (130 if number == signal.SIGTERM else -number)


def test_a_second_gate_on_the_node_is_unknown(gate: Gate, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(LOCK.format(tmp_path / "tmp"))
        refused = gate()
    assert refused.returncode == 2
    assert "another gate" in refused.stdout


def test_a_busy_node_is_unknown_and_the_processes_are_named(gate: Gate, tmp_path: Path) -> None:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as spinning:
        busy = gate("--suite", "suite.toml", "--format", "json")
        spinning.kill()
    answer = GateAnswer.model_validate_json(busy.stdout)
    assert (busy.returncode, [check.name for check in answer.checks]) == (2, ["busy"])
    assert re.search(r"\(PID \d+", answer.checks[0].found)


def test_health_alone_needs_no_measurement(gate: Gate, tmp_path: Path) -> None:
    found = gate("--only", "disk,network", "--format", "json", "--out", "results")
    answer = GateAnswer.model_validate_json(found.stdout)
    assert {check.resource for check in answer.checks} == {"disk", "network"}
    assert {check.kind for check in answer.checks} == {"health"}
    assert found.returncode == answer.exit_status
    (stored,) = (tmp_path / "results").iterdir()
    assert stored.name == f"n17-{answer.id}.json"
    assert stored.read_text(encoding="utf-8") == found.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--only", "cpu,tape"],
        ["--level", "slow"],
        ["--tag", "rack"],
        ["--baseline", "missing.toml"],
        ["--baseline", "suite.toml"],
        ["--time-limit", "nan"],
    ],
    ids=str,
)
def test_wrong_options_are_a_usage_error(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from accelbench.__main__ import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.toml").write_text(SUITE, encoding="utf-8")
    assert main(["gate", *words]) == 2


def test_the_page_documents_every_field_of_the_json() -> None:
    page = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    fields = [*GateAnswer.model_fields, *GateCheck.model_fields]
    assert [name for name in fields if f"`{name}`" not in page] == []
    schema: dict[str, Any] = json.loads(json.dumps(GateAnswer.model_json_schema()))
    assert set(schema["properties"]) == set(GateAnswer.model_fields)
