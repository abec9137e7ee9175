"""The ReFrame check of the gate: its references are the limits of the gate."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.gate.answer import GateAnswer
from accelbench.gate.baseline import Baseline, BaselineHardware, BaselineMetric, write_baseline
from accelbench.gate.hardware import HardwareClass
from accelbench.history.fingerprint import hardware_text
from accelbench.profiling.machine.environment.collect import collect
from tests.conftest import ROOT, environment

pytestmark = pytest.mark.container

CHECK = ROOT / "containers" / "reframe" / "gate_check.py"
POINT = "behave cpu us=200"


def write_limit(path: Path, least: float) -> None:
    """Write a baseline of this machine with this limit of the point."""
    found = collect()
    metric = BaselineMetric(point=POINT, figure="items", unit="spins/s", median=1e12, runs=5, min=least)
    hardware = HardwareClass.of_environment(found, hardware_text(found))
    of_machine = BaselineHardware(**hardware.model_dump(), metric=[metric])
    write_baseline(Baseline(baseline_version=1, created="2025-01-01", accelbench="0", hardware=[of_machine]), path)


def reframe(folder: Path, executable: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the check with prefix and home in the folder."""
    return subprocess.run(
        [
            *(Path(sys.executable).with_name("reframe"), f"--prefix={folder}/reframe", "-c", CHECK, "-r"),
            *("-S", f"executable={executable}", "--performance-report", "--nocolor", *options),
        ],
        cwd=folder,
        env=environment(HOME=str(folder), TMPDIR=str(folder)),
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.mark.parametrize(("least", "verdict"), [(1.0, "fit"), (1e11, "unfit")])
def test_the_limits_of_the_gate_are_the_references(least: float, verdict: str, tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(
        'description = "x"\nmax_seconds = 0.2\nrounds = 1\n[[benchmark]]\nname = "behave"\naxes = { us = [200] }\n',
        encoding="utf-8",
    )
    write_limit(tmp_path / "site.toml", least)
    options = {"suite": "suite.toml", "baseline": "site.toml", "only": "cpu", "include_noisy": "yes"}
    settings = [word for name, value in options.items() for word in ("-S", f"{name}={value}")]
    process = reframe(tmp_path, f"{sys.executable} -m accelbench", *settings)
    text = " ".join(process.stdout.split())
    assert process.returncode == (0 if verdict == "fit" else 1), process.stdout
    if verdict == "unfit":
        assert f"unfit: {POINT}" in text
        return
    (kept,) = (tmp_path / "reframe" / "output").glob("**/gate.json")
    answer = GateAnswer.model_validate_json(kept.read_text(encoding="utf-8"))
    (check,) = [check for check in answer.checks if check.name == POINT]
    assert check.limit == least
    assert f"P: {POINT}: " in text
    assert "(r:1, " in text.replace("1.0,", "1,")


@pytest.mark.parametrize(("high", "status"), [(104.0, 0), (98.0, 1)], ids=["within its interval", "surely below"])
def test_a_value_below_its_limit_fails_as_in_the_gate(high: float, status: int, tmp_path: Path) -> None:
    answer = {
        "verdict": "fit",
        "summary": "",
        "checks": [
            {"name": "disk", "value": None},
            {
                "name": "copy",
                "figure": "bytes",
                "value": 97.0,
                "low": 90.0,
                "high": high,
                "unit": "B/s",
                "limit": 100.0,
            },
        ],
    }
    (tmp_path / "answer.json").write_text(json.dumps(answer), encoding="utf-8")
    script = tmp_path / "accelbench"
    script.write_text(f"#!/bin/sh\ncat {tmp_path}/answer.json\n", encoding="utf-8")
    script.chmod(0o755)
    process = reframe(tmp_path, str(script))
    assert process.returncode == status, process.stdout
    assert ("performance error" in process.stdout) == bool(status)
