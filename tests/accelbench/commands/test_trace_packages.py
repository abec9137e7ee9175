"""Requests for traces without the packages of the extra `trace`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from accelbench.commands import tensorboard
from accelbench.errors import UserError
from accelbench.profiling.machine import packages
from accelbench.session import plan_run
from tests.fixtures.report_records import training
from tests.fixtures.report_runs import make_run

INSTALL = "pip install 'accelbench[trace]'"


@pytest.fixture(params=packages.TRACE_PACKAGES)
def missing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Hide one package of the extra from the search for modules."""
    name: str = request.param
    monkeypatch.setattr(packages, "find_spec", lambda module: None if module == name else object())
    return name


def planned(benchmark: str, **settings: Any) -> object:
    return plan_run((benchmark,), suite=None, device="cpu", choices=(), backend=None, ceilings=False, **settings)


def test_a_trace_without_its_packages_is_rejected_before_anything_is_measured(missing: str) -> None:
    with pytest.raises(UserError) as raised:
        planned("cnn-mnist", trace=True)
    assert missing in str(raised.value)
    assert INSTALL in str(raised.value)


def test_only_traced_training_workloads_need_the_packages(missing: str) -> None:
    assert planned("cnn-mnist", trace=False)
    assert planned("nqueens", trace=True)


def test_tensorboard_without_its_packages_names_the_extra(missing: str, tmp_path: Path) -> None:
    make_run(tmp_path / "run", [training("cpu", "float32", 0.01)])
    (tmp_path / "run" / "traces").mkdir()
    outcome = CliRunner().invoke(tensorboard.command, [str(tmp_path / "run")])
    assert isinstance(outcome.exception, UserError)
    assert (missing in str(outcome.exception), INSTALL in str(outcome.exception)) == (True, True)
