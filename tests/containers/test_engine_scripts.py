"""The scripts that build and convert images, with stand-ins for the engines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.containers.test_podman import CONTAINERS

OCI = r"""#!/bin/sh
echo "$@" >>"$STATE/log"
case "$*" in
    *base.name*) cat "$STATE/base" 2>/dev/null ;;
    *image.revision*) cat "$STATE/revision" 2>/dev/null ;;
    *Size*) echo 1000000 ;;
    "image inspect"*) echo sha256:1 ;;
    *Rootless*) echo false ;;
    build*) ;;
    create*) echo container ;;
    export*) tar --create --files-from /dev/null ;;
    run*) echo "runc: $(cat "$STATE/error")" >&2; exit 126 ;;
esac
"""
"""Stand-in for Docker and Podman, which logs its arguments; the labels of its image and its error are in files."""
APPTAINER = """#!/bin/sh
for word; do if [ "${word%/image.sif}" != "$word" ]; then echo sif >"$word"; fi; done
"""


class Engines:
    """A checkout with one commit, and stand-ins for the engines on PATH."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.state, self.programs = (folder / name for name in ("checkout", "state", "bin"))
        shutil.copytree(ROOT / "containers", self.checkout / "containers", ignore=shutil.ignore_patterns("build"))
        (self.checkout / ".gitignore").write_text("containers/build\n")
        for path in (self.state, self.programs):
            path.mkdir()
        for name, script in (("docker", OCI), ("podman", OCI), ("apptainer", APPTAINER)):
            (self.programs / name).write_text(script)
            (self.programs / name).chmod(0o755)
        for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message=all")):
            self.git(*words)
        self.label("revision", self.git("rev-parse", "HEAD").strip())

    def git(self, *words: str) -> str:
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", *author, *words]
        return subprocess.run(command, cwd=self.checkout, check=True, stdout=subprocess.PIPE, text=True).stdout

    def label(self, name: str, value: str) -> None:
        (self.state / name).write_text(value)

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(self.programs), os.environ["PATH"]])
        return subprocess.run(
            ["containers/engine.sh", *words],
            cwd=self.checkout,
            env=os.environ | {"PATH": path, "STATE": str(self.state)} | variables,
            capture_output=True,
            text=True,
        )

    def bases(self) -> list[str]:
        """Return the base of each build."""
        return re.findall(
            r"^build .*BASE=(\S+) --build-arg BASE_DIGEST", (self.state / "log").read_text(), re.MULTILINE
        )


@pytest.fixture
def engines(tmp_path: Path) -> Engines:
    return Engines(tmp_path)


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_current_image_is_converted_and_not_built_again(engines: Engines, engine: str) -> None:
    engines.label("base", "mine:1")
    done = engines.run("sif", ENGINE=engine)
    assert done.returncode == 0, done.stderr
    assert engines.bases() == []
    assert "mine:1" in done.stderr
    assert (engines.checkout / "containers" / "build" / "accelbench-cpu.sif").exists()


@pytest.mark.parametrize("change", ["changed", "new", "committed"])
def test_an_image_of_other_files_is_built_again_from_its_base(engines: Engines, change: str) -> None:
    engines.label("base", "mine:1")
    name = "new.txt" if change == "new" else "containers/README.md"
    (engines.checkout / name).write_text("other")
    if change == "committed":
        engines.git("commit", "--all", "--quiet", "--message=other")
    assert engines.run("sif", ENGINE="docker").returncode == 0
    assert engines.bases() == ["mine:1"]


def test_another_base_and_a_missing_image_are_built(engines: Engines) -> None:
    engines.label("base", "mine:1")
    assert engines.run("sif", ENGINE="docker", BASE="mine:2").returncode == 0
    assert engines.bases() == ["mine:2"]
    for name in ("base", "revision"):
        (engines.state / name).unlink()
    assert engines.run("sif", ENGINE="docker").returncode == 0
    assert engines.bases()[1].startswith("debian@sha256:")


@pytest.mark.parametrize(
    ("error", "advised"), [("setting rlimit type 7: operation not permitted", True), ("no such file", False)]
)
def test_podman_that_may_not_raise_limits_is_followed_by_the_settings(
    engines: Engines, error: str, advised: bool
) -> None:
    engines.label("error", error)
    done = engines.run("bench", ENGINE="podman")
    assert done.returncode == 2
    *_, line = done.stderr.splitlines()
    limits = tomllib.loads(CONTAINERS)["containers"]["default_ulimits"]
    assert [limit in line for limit in limits] == [advised] * 2
    assert all(limit in (ROOT / "containers" / "README.md").read_text(encoding="utf-8") for limit in limits)
