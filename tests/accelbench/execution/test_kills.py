"""Fifty kills at random moments: no process stays, no record is lost, and the run can be gone on with."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from accelbench.execution.store import RunStore
from tests.conftest import command, environment
from tests.fixtures.processes import living, marked, wait_for

RUNNERS, WORKERS_EACH = 10, 4
POINTS = "us=" + ",".join(map(str, range(100, 400)))
BEGIN = ("run", "behave", "--no-ceilings", "--max-seconds", "0.1", "--param", POINTS, "--out", "out")
FINISHED = re.compile(r"^\[ *\d+/300\] (behave cpu us=\d+) ", re.MULTILINE)


@pytest.mark.slow
def test_fifty_kills_of_runner_and_worker_leave_no_process_and_lose_no_record(tmp_path: Path) -> None:
    chance, kept = random.Random(19), list[str]()
    for number in range(RUNNERS):
        with (tmp_path / f"said-{number}").open("wb") as said:
            runner = subprocess.Popen(
                command(*(("resume", "out") if number else BEGIN)),
                cwd=tmp_path,
                env=environment(**marked(tmp_path)),
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        kill(runner, chance)
        wait_for(lambda: not living(tmp_path))
        contents = RunStore(tmp_path / "out").contents()
        names = [str(line.point) for line in contents.lines]
        assert names[: len(kept)] == kept
        assert set(FINISHED.findall((tmp_path / f"said-{number}").read_text(encoding="utf-8"))) <= set(names)
        assert all("is cut off" in reason for reason in contents.damage.values())
        kept = names
    assert len(kept) >= RUNNERS


def kill(runner: subprocess.Popen[bytes], chance: random.Random) -> None:
    """Kill some workers of the runner, and then itself."""
    for _ in range(WORKERS_EACH):
        wait_for(lambda: workers(runner))
        time.sleep(chance.uniform(0, 1))
        for worker in workers(runner)[:1]:
            worker.kill()
    time.sleep(chance.uniform(0, 0.5))
    runner.kill()
    assert runner.wait() == -signal.SIGKILL, "it had ended by itself"


def workers(runner: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return the processes that the runner has started and that live."""
    try:
        return psutil.Process(runner.pid).children()
    except psutil.NoSuchProcess:
        return []
