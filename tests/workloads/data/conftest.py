"""Fixtures: a temporary data folder, a server, and an unprivileged user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from accelbench.workloads.data import CACHE_VARIABLE
from tests.workloads.data.serving import Served, serving


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def server() -> Iterator[Served]:
    with serving() as served:
        yield served


@pytest.fixture
def plain_user(tmp_path: Path) -> Iterator[None]:
    """Run as an unprivileged user, because root may read and write everything."""
    user = os.geteuid()
    if user != 0:
        yield
        return
    opened = [folder for folder in tmp_path.parents if folder.stat().st_uid == 0 and not folder.stat().st_mode & 1]
    modes = [folder.stat().st_mode for folder in opened]
    for folder in (*opened, tmp_path):
        folder.chmod(0o755)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        for folder, mode in zip(opened, modes, strict=True):
            folder.chmod(mode)
