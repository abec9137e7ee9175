"""Tests of kills at random times: no process is left, no record is lost, and the run can be resumed."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from accelbench.execution.store import RunStore
from tests.conftest import command, environment
from tests.fixtures.processes import children, living, marked, send_signal, wait_for

RUNNERS, WORKERS_EACH = 6, 4
POINTS = "us=" + ",".join(map(str, range(100, 400)))
BEGIN = ("run", "behave", "--no-ceilings", "--max-seconds", "0.1", "--param", POINTS, "--out", "out")
FINISHED = re.compile(r"^\[ *\d+/300\] (behave cpu us=\d+) ", re.MULTILINE)


@pytest.mark.slow
def test_thirty_kills_leave_no_process_and_lose_no_record(tmp_path: Path) -> None:
    chance, kept = random.Random(19), list[str]()
    for number in range(RUNNERS):
        with (tmp_path / f"output-{number}").open("wb") as output:
            runner = subprocess.Popen(
                command(*(("resume", "out") if number else BEGIN)),
                cwd=tmp_path,
                env=environment(**marked(tmp_path)),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        kill(runner, chance)
        wait_for(lambda: not living(tmp_path))
        contents = RunStore(tmp_path / "out").contents()
        names = [str(line.point) for line in contents.lines]
        assert names[: len(kept)] == kept
        assert set(FINISHED.findall((tmp_path / f"output-{number}").read_text(encoding="utf-8"))) <= set(names)
        assert all("is cut off" in reason for reason in contents.damage.values())
        kept = names
    assert len(kept) >= RUNNERS


def kill(runner: subprocess.Popen[bytes], chance: random.Random) -> None:
    """Kill some workers of the runner, then the runner."""
    for _ in range(WORKERS_EACH):
        wait_for(lambda: children(runner.pid))
        time.sleep(chance.uniform(0, 0.5))
        send_signal(children(runner.pid)[:1], signal.SIGKILL)
    time.sleep(chance.uniform(0, 0.5))
    runner.kill()
    assert runner.wait() == -signal.SIGKILL, "it had exited"
