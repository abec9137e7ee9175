"""The first cell of the Colab notebook: the project from an address, an archive, a folder, or an upload."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import ROOT

Cell = Callable[..., Path]
LINKED = ("kernels", "profiling", "workloads")


@pytest.fixture
def content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the current folder of a runtime."""
    folder = tmp_path / "content"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", os.environ["PATH"])
    return folder


@pytest.fixture
def cell(content: Path, monkeypatch: pytest.MonkeyPatch) -> Cell:
    """Return a function that executes the cell with a SOURCE and returns the project's folder."""
    notebook = json.loads((ROOT / "containers" / "colab.ipynb").read_text(encoding="utf-8"))
    (code,) = ("".join(cell["source"]) for cell in notebook["cells"] if "SOURCE = " in "".join(cell["source"]))

    def execute(source: str | Path = "") -> Path:
        monkeypatch.setenv("ACCELBENCH_SOURCE", str(source))
        names: dict[str, Any] = {}
        exec(code, names)
        found: Path = names["PROJECT"]
        return found

    return execute


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a repository with the links and the main module of the project."""
    folder = tmp_path / "repository"
    for name in ("accelbench", *LINKED):
        (folder / name).mkdir(parents=True)
        (folder / name / "__main__.py").write_text("import sys; print(*sys.argv[1:])")
    for name in LINKED:
        (folder / "accelbench" / name).symlink_to(f"../{name}")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "--quiet"), ("add", "."), (*identity, "commit", "--quiet", "--message=all")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def archive(project: Path, path: Path) -> Path:
    """Write the zip archive of a repository, in which symbolic links are small files."""
    words = ("archive", "--format=zip", "--prefix=accelbench-main/", f"--output={path}", "HEAD")
    subprocess.run(["git", *words], cwd=project, check=True)
    return path


def is_complete(found: Path) -> bool:
    return all((found / "accelbench" / name / "__main__.py").is_file() for name in LINKED)


def test_an_address_is_cloned_and_an_archive_is_unpacked_with_its_links(
    cell: Cell, content: Path, project: Path
) -> None:
    found = cell(project.as_uri())
    assert found == content / "accelbench-source"
    assert is_complete(found)
    (content / "accelbench-source").rename(content.parent / "cloned")
    found = cell(archive(project, content.parent / "any.zip"))
    assert found == content / "accelbench-source" / "accelbench-main"
    assert is_complete(found)


def test_a_given_folder_is_used_and_the_command_is_on_path(cell: Cell, project: Path) -> None:
    assert cell(project) == project
    assert cell(project) == project
    done = subprocess.run(["accelbench", "doctor", "a b"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("doctor a b\n", "")
    assert os.environ["PATH"].count("accelbench-bin") == 1


def test_without_a_source_the_current_folder_is_searched(cell: Cell, content: Path, project: Path) -> None:
    (content / "data").mkdir()
    (content / "data.zip").write_bytes(b"no archive")
    archive(project, content / "main.zip")
    assert cell() == content / "accelbench-source" / "accelbench-main"
    project.rename(content / "a folder")
    assert cell() == content / "a folder"


def test_without_anything_colab_offers_an_upload(
    cell: Cell, content: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = ModuleType("google.colab")
    offered.files = ModuleType("files")  # type: ignore[attr-defined]
    offered.files.upload = lambda: {archive(project, content.parent / "mine.zip"): b""}
    monkeypatch.setitem(sys.modules, "google.colab", offered)
    assert is_complete(cell())


@pytest.mark.parametrize("source", ["", "no-such-folder", "broken.zip", "cut.zip", "empty"])
def test_an_error_is_one_sentence(cell: Cell, content: Path, project: Path, source: str) -> None:
    (content / "broken.zip").write_text("no archive")
    whole = archive(project, content.parent / "whole.zip").read_bytes()
    (content / "cut.zip").write_bytes(whole[:100] + bytes(50) + whole[150:])
    (content / "empty").mkdir()
    if not source:
        (content / "cut.zip").unlink()
    with pytest.raises(Exception) as stopped:  # noqa: PT011 - the class is the cell's
        cell(source)
    (line,) = stopped.value._render_traceback_()  # type: ignore[attr-defined]
    assert line.count("\n") == 0
    assert source in line
