"""Tests of the complete environment record: valid on this machine, null if unreadable, anonymous."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.records.environment import Environment
from tests.fixtures.machines import GRACE, build


def test_the_record_of_this_machine_survives_serialization() -> None:
    environment = collect()
    assert environment.cpu.logical >= environment.cpu.usable >= 1
    assert environment.memory.total_bytes > environment.memory.available_bytes > 0
    assert environment.software.blas
    assert Environment.model_validate_json(environment.model_dump_json()) == environment


def test_facts_of_an_empty_root_are_null_with_reasons(tmp_path: Path, no_driver: None) -> None:
    environment = collect(tmp_path)
    assert (environment.cpu.model, environment.cpu.cores, environment.system.container) == (None, None, None)
    assert environment.memory.total_bytes > 0
    assert {"cpu.model", "cpu.governor", "cpu.numa_nodes", "memory.huge_pages", "gpus"} <= environment.unknown.keys()


def test_every_unknown_fact_is_null_and_every_reason_is_text(tmp_path: Path, no_driver: None) -> None:
    environment = collect(build(tmp_path, GRACE))
    for fact, reason in environment.unknown.items():
        part, _, field = fact.partition(".")
        value = getattr(environment, part)
        assert not (getattr(value, field) if field else value), fact
        assert len(reason) > 10


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from strings(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def test_no_text_identifies_the_user_the_host_or_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/srv/private")
    found = list(strings(json.loads(collect().model_dump_json())))
    for secret in (socket.gethostname(), getpass.getuser(), os.path.expanduser("~"), os.getcwd()):
        assert not any(re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", text) for text in found), secret
    assert not any("/srv" in text for text in found)


def test_collecting_imports_no_framework() -> None:
    heavy = {"tensorflow", "keras", "cupy", "numba", "torch", "jax", "pandas", "scipy"}
    script = "from accelbench.profiling.machine.environment.collect import collect; collect()"
    script = f"import sys; {script}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()).isdisjoint(heavy)
