"""Environment variables of workers in a run without ranks."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from accelbench.execution import worker_process
from accelbench.execution.template_process import Template
from accelbench.execution.worker import LocalWorkerJob
from accelbench.profiling.child import SECRET
from accelbench.profiling.records.point import Point
from tests.fixtures.report_runs import environment


class Started(Exception):
    """Raised instead of starting a process, with its environment variables."""


@pytest.fixture
def nothing_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def caught(*command: object, env: dict[str, str], **more: Any) -> None:
        raise Started(env)

    monkeypatch.setattr(subprocess, "Popen", caught)
    monkeypatch.setenv(SECRET, "known to all ranks")


@pytest.mark.usefixtures("nothing_started")
def test_workers_and_their_template_have_no_secret(tmp_path: Path) -> None:
    job = LocalWorkerJob(point=Point("stream", "cpu", {"op": "copy"}), environment=environment(), max_seconds=1.0)
    with pytest.raises(Started) as fresh:
        worker_process.WorkerProcess(job, tmp_path / "log")
    with pytest.raises(Started) as template:
        Template().start([], 1, 2)
    for started in (fresh, template):
        assert started.value.args[0]["PYTHONUNBUFFERED"] == "1"
        assert SECRET not in started.value.args[0]
