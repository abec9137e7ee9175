"""Tests of software facts: libraries and the revision of the source."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from accelbench.profiling.machine.environment.software import collect_libraries, collect_revision


def test_versions_are_those_of_the_installed_libraries() -> None:
    import numpy
    import psutil

    found = collect_libraries()
    assert (found["numpy"], found["psutil"]) == (numpy.__version__, psutil.__version__)


def test_the_revision_is_the_checkouts_commit_with_a_mark_for_changes(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert collect_revision(tmp_path) is None
    git("init", "--quiet")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "--quiet", "--message", "one")
    git("tag", "v1")  # a tag must not replace the commit
    commit = git("rev-parse", "HEAD")
    assert collect_revision(tmp_path) == commit
    (tmp_path / "file").write_text("two")
    assert collect_revision(tmp_path) == f"{commit}-dirty"


def test_an_image_has_the_revision_of_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELBENCH_REVISION", "0f" * 20 + "-dirty")
    assert collect_revision(tmp_path) == "0f" * 20 + "-dirty"
    monkeypatch.setenv("ACCELBENCH_REVISION", "my own")
    assert collect_revision(tmp_path) is None
