"""Tests of the start in the script's interpreter: everything that the script can see is as without the observation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.profiling.measure.script.events import ScriptEvents
from accelbench.profiling.measure.script.launch import exchange_folder, start

SEEN = "import os, sys; print(sorted(os.environ.items()), sys.path, sorted(sys.modules), file=open({!r}, 'w'))"
OURS = ("_accelbench_attach", "sitecustomize", "importlib")


def seen(command: list[str], folder: Path, observed: bool) -> str:
    output = folder / "seen"
    command = [*command, "-c", SEEN.format(str(output)), "argument"]
    if observed:
        with exchange_folder() as exchange:
            assert start(command, exchange).wait() == 0
            assert not (exchange / "error").exists()
            events = ScriptEvents(exchange)
            events.read()
            assert events.pid
    else:
        subprocess.run(command, check=True, env=dict(os.environ))  # readline changes the environment behind os.environ
    return output.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [None, "", "{}"])
def test_environment_path_and_modules_are_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    if path is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", path.format(tmp_path))
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ['SHADOWED'] = __file__\n", encoding="utf-8")
    without, with_it = (seen([sys.executable], tmp_path, observed) for observed in (False, True))
    assert ("SHADOWED" in with_it) == (path == "{}")
    environment, modules = without.rpartition("] [")[::2]
    environment_with_it, modules_with_it = with_it.rpartition("] [")[::2]
    assert environment_with_it == environment
    added = {*modules_with_it.rstrip("]\n").split(", ")} - {*modules.rstrip("]\n").split(", ")}
    assert [name for name in added if not name.strip("'").startswith(OURS)] == []


def test_an_error_of_the_observation_leaves_the_script_running(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with exchange_folder() as exchange:
        missing = exchange / f"missing-{os.getpid()}"
        environment = {**os.environ, "ACCELBENCH_ATTACH": str(missing), "PYTHONPATH": injected_folder()}
        command = [sys.executable, "-c", f"open({str(output)!r}, 'w').write('done')"]
        done = subprocess.run(command, env=environment, check=True, capture_output=True)
    assert output.read_text(encoding="utf-8") == "done"
    assert done.stderr == b""


def injected_folder() -> str:
    from accelbench.profiling.attach import injected

    return str(Path(injected.__file__).parent)
