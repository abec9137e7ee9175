"""Limits of the session: a hosted notebook, a Slurm job, and a machine without limits."""

from __future__ import annotations

import shutil
import time

import pytest

from accelbench.environment.session_limits import HOSTED, SLURM_END, TimeLimits, session_limits, time_limits
from accelbench.profiling.machine.environment.container import RUNTIME_VARIABLES
from accelbench.profiling.records.environment import Limits, Memory
from tests.fixtures.made_up_runs import card, machine


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*RUNTIME_VARIABLES, SLURM_END):
        monkeypatch.delenv(name, raising=False)


def test_a_hosted_notebook_has_the_limits_of_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(HOSTED) == set(RUNTIME_VARIABLES.values())
    monkeypatch.setenv(SLURM_END, str(int(time.time()) + 7200))
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    assert time_limits() == HOSTED["colab"] != HOSTED["kaggle"]


def test_a_slurm_job_ends_at_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.environment.session_limits.time", lambda: 1.8e9)
    monkeypatch.setenv(SLURM_END, "1800005400")
    assert time_limits().duration.split()[:2] == ["1.5", "h"]
    assert time_limits().idle == TimeLimits().idle


@pytest.mark.parametrize("end", ["", "1", "soon", "-5", "²"])
def test_a_machine_without_a_known_end_has_no_known_limit(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setenv(SLURM_END, end)
    assert time_limits() == TimeLimits()


def test_the_resources_are_those_available_to_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(".")._replace(free=33 << 30)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    where = machine(
        2,
        [card("Tesla K80")],
        memory=Memory(total_bytes=64 << 30, available_bytes=1 << 30),
        limits=Limits(cpu_quota=1.5, memory_bytes=13 << 30),
    )
    found = session_limits(where)
    assert (found["memory"], found["free disk"], found["GPUs"]) == ("13 GiB", "33 GiB", "1, Tesla K80")
    assert found["CPU cores"].startswith("2, 2 ")
    assert "1.5 CPUs" in found["CPU cores"]
    assert session_limits(machine())["GPUs"] == "none"
