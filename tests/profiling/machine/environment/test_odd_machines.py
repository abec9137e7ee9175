"""Facts of machines that differ from an ordinary server: the table of `tests/fixtures/odd_machines.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accelbench.kernels.lib.cpu.caches import last_level_bytes
from accelbench.profiling.machine.cpu_times import read_cpu_times
from accelbench.profiling.machine.environment import collect as collecting
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.machine.environment.files import CPUS
from accelbench.profiling.machine.environment.gpu import GpuFacts
from accelbench.profiling.machine.free_memory import available_bytes
from accelbench.profiling.records.environment import Environment, Software
from tests.fixtures.machines import build
from tests.fixtures.odd_machines import MACHINES

SOFTWARE = Software(python="3.13", implementation="CPython", accelbench="0")


def last_level(root: Path, environment: Environment) -> int | None:
    usable = environment.cpu.affinity or range(environment.cpu.logical)
    return last_level_bytes(root / CPUS, usable, environment.limits.cpu_quota or 1e9)


FURTHER: dict[str, Callable[[Path, Environment, Any], Any]] = {
    "last_level_bytes": lambda root, environment, _: last_level(root, environment),
    "caches": lambda _, environment, __: [(c.level, c.size_bytes, c.shared_by) for c in environment.cpu.caches],
    "times": lambda root, _, __: read_cpu_times(root).keys() - {None},
    "unknown": lambda _, environment, expected: environment.unknown.keys() & expected,
    "available_at_most": lambda root, _, expected: min(expected, available_bytes(root)),
    "kinds": lambda _, environment, __: [
        (kind.name, kind.cpus, kind.cores, kind.frequency_mhz, max([c.size_bytes for c in kind.caches], default=0))
        for kind in environment.cpu.kinds
    ],
}
"""Facts that are not a field of the environment record: functions of the root, the record and the expected value."""


@pytest.mark.parametrize("name", MACHINES)
def test_the_facts_of_a_machine(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "collect_visible_gpus", lambda: GpuFacts([]))
    monkeypatch.setattr(collecting, "collect_software", lambda: SOFTWARE)
    files, facts = MACHINES[name]
    root = build(tmp_path, files)
    environment = collect(root)
    found = {}
    for fact, expected in facts.items():
        if fact in FURTHER:
            found[fact] = FURTHER[fact](root, environment, expected)
        else:
            part, field = fact.split(".")
            found[fact] = getattr(getattr(environment, part), field)
    assert found == facts
    assert Environment.model_validate_json(environment.model_dump_json()) == environment
