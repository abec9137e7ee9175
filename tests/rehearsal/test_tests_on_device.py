"""`make test-gpu` and `make sanitize` on the simulated machine, without an installed accelbench."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rehearsal.conftest import SMALL, Machine, Rehearsed

PYTEST = ("pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider")
SANITIZER = """#!/bin/sh
# A fake compute-sanitizer that logs its arguments, and checks the imports of the program under test.
echo "called with $*" >>'{log}'
while [ "${{1#--}}" != "$1" ]; do shift 2; done
exec "$1" -c 'import accelbench, cupy, pydantic, tests.gpu.verify_small'
"""


@pytest.mark.slow
def test_tests_run_without_an_installed_package(rehearse: Rehearsed) -> None:
    quick = "timer or launches or published and not 12 and not 14 and not 16"
    files = [f"tests/gpu/test_{name}_on_device.py" for name in ("timer", "kernels")]
    process = rehearse(*PYTEST, *files, "-k", quick, **SMALL)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "15 passed" in process.stdout


@pytest.fixture
def sanitizer(machine: Machine, tmp_path: Path) -> Path:
    """Path of a fake compute-sanitizer that logs its arguments."""
    program = tmp_path / "bin" / "compute-sanitizer"
    program.parent.mkdir()
    program.write_text(SANITIZER.format(log=tmp_path / "called"))
    program.chmod(0o755)
    return program


@pytest.mark.slow
def test_the_sanitizer_runs_memcheck_without_api_errors_and_racecheck(
    rehearse: Rehearsed, machine: Machine, sanitizer: Path, tmp_path: Path
) -> None:
    path = f"{sanitizer.parent}:{machine.environment()['PATH']}"
    process = rehearse(*PYTEST, "tests/gpu/test_sanitizer.py", PATH=path)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "2 passed" in process.stdout
    memcheck, racecheck = (tmp_path / "called").read_text().splitlines()
    assert "--tool memcheck --report-api-errors no --error-exitcode" in memcheck
    assert "--tool racecheck --error-exitcode" in racecheck
