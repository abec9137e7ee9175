"""Engine command lines of `make container-bench`, recorded by a fake engine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment
from tests.fixtures.attempts import attempts

ARGUMENTS_FILE = "called.txt"
FAKE_ENGINE = f"""#!/bin/sh
case "$1" in
    image) echo sha256:abc ;;
    version | pull | build) echo 1 ;;
    run) printf '%s\\n' "$@" >{ARGUMENTS_FILE}; exit "$STATUS" ;;
esac
"""
"""Fake engine that has every image and records its arguments; containers exit with status STATUS."""


def make(*words: str, cwd: Path = ROOT, **changes: str) -> subprocess.CompletedProcess[str]:
    # `make test` passes its variables on to nested makes.
    variables = environment(MAKEFLAGS=None, **changes)
    return subprocess.run(["make", *words], cwd=cwd, env=variables, capture_output=True, text=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy of the Makefile and the engine scripts, with a fake engine of each kind in `bin`."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(ROOT / "containers", tmp_path / "containers", ignore=shutil.ignore_patterns("build"))
    (tmp_path / "image.sif").touch()
    (tmp_path / "bin").mkdir()
    for engine in ("docker", "podman", "apptainer"):
        (tmp_path / "bin" / engine).write_text(FAKE_ENGINE)
        (tmp_path / "bin" / engine).chmod(0o755)
    return tmp_path


def container_bench(project: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    path = f"{project / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return make("container-bench", "SIF=image.sif", *words, cwd=project, PATH=path, STATUS=str(status))


def test_interpreter_variables_are_refused_on_the_command_line_and_ignored_in_the_environment() -> None:
    for name in ("PYTHON", "VENV", "SET"):
        assert make("--dry-run", "container-bench", f"{name}=probe").returncode == 2
    assert make("--dry-run", "container-bench", VENV="/somewhere", PYTHON="python3").returncode == 0


@pytest.mark.parametrize(
    ("engine", "gpu"),
    [("docker", ["--gpus", "all"]), ("podman", ["--device", "nvidia.com/gpu=all"]), ("apptainer", ["--nv"])],
)
def test_each_engine_gets_its_gpu_option_and_all_arguments_of_bench(project: Path, engine: str, gpu: list[str]) -> None:
    words = [f"{name}=a-{name} b" for name in ("SUITE", "BENCH", "ARGS")]
    done = container_bench(project, "DEVICE=gpu", f"ENGINE={engine}", "FLAGS=--one --two", *words)
    assert done.returncode == 0, done.stderr
    called = (project / ARGUMENTS_FILE).read_text(encoding="utf-8").splitlines()
    assert called[called.index(gpu[0]) :][: len(gpu)] == gpu
    assert "--one" in called[: called.index("bench")]
    assert called[called.index("bench") :] == ["bench", "DEVICE=gpu", *words]


@pytest.mark.parametrize(("engine", "needs"), [("docker", "Container Toolkit"), ("podman", "CDI specification")])
def test_a_failed_start_with_a_gpu_prints_the_requirements_of_the_host(project: Path, engine: str, needs: str) -> None:
    done = container_bench(project, "DEVICE=gpu", f"ENGINE={engine}", status=125)
    assert done.returncode == 2
    assert "accelbench:gpu" in done.stderr
    assert needs in done.stderr
    failed_inside = container_bench(project, "DEVICE=gpu", f"ENGINE={engine}", status=1)
    assert needs not in failed_inside.stderr
    assert "Error 1" in failed_inside.stderr


@pytest.mark.parametrize("engine", ["docker", "podman", "apptainer"])
def test_containers_start_without_capabilities_and_network(project: Path, engine: str) -> None:
    assert container_bench(project, "DEVICE=cpu", f"ENGINE={engine}").returncode == 0
    words = called(project)
    for option in CONFINED[engine]:
        assert option in words
    before_image = words[: words.index("make" if engine != "apptainer" else "image.sif")]
    assert before_image.index(CONFINED[engine][-1]) > 0


CONFINED = {
    "docker": ("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "--network", "none"),
    "podman": ("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "--network", "none"),
    "apptainer": ("--drop-caps", "ALL", "--net", "--network", "none"),
}


def called(project: Path) -> list[str]:
    return (project / ARGUMENTS_FILE).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("engine", ["docker", "podman", "apptainer"])
@pytest.mark.parametrize("flag", ["--network host", "--network=host", "--net=host"])
def test_a_requested_network_replaces_the_default(project: Path, engine: str, flag: str) -> None:
    assert container_bench(project, "DEVICE=cpu", f"ENGINE={engine}", f"FLAGS={flag}").returncode == 0
    words = called(project)
    assert [word for word in words if word.startswith("--net")] == flag.split()[:1]
    assert "none" not in words


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_only_a_tpu_gets_privileged_with_a_notice(project: Path, engine: str) -> None:
    done = container_bench(project, "DEVICE=tpu", f"ENGINE={engine}")
    assert "--privileged" in done.stderr
    assert "--privileged" in called(project)
    for device in ("cpu", "gpu"):
        done = container_bench(project, f"DEVICE={device}", f"ENGINE={engine}")
        assert "--privileged" not in called(project)
        assert "privileged" not in done.stderr


@pytest.mark.parametrize("device", ["cpu; touch injected", "x", "cpu\nx", ""])
def test_an_unknown_device_exits_with_one_line(project: Path, device: str) -> None:
    """Call the script directly, without the checks of the Makefile."""
    done = subprocess.run(
        ["containers/engine.sh", "sif"],
        cwd=project,
        env=environment(DEVICE=device or "-", ENGINE="apptainer", PATH=f"{project / 'bin'}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("accelbench: DEVICE")
    assert done.stderr.count("\n") == (2 if device == "cpu\nx" and "choose" in done.stderr else 1)
    assert not (project / "injected").exists()


@pytest.mark.parametrize("target", ["image", "sif", "sbom", "container-bench"])
def test_make_variables_are_not_executed(project: Path, target: str) -> None:
    path = f"{project / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for variable in ("FLAGS", "ENGINE", "BASE", "SIF", "DEVICE", "BENCH", "ARGS"):
        for value in attempts(project / "injected"):
            given = {"DEVICE": "cpu", "ENGINE": "apptainer" if target == "sif" else "docker"}
            words = (f"{name}={word}" for name, word in (given | {variable: value}).items())
            make(target, *words, cwd=project, PATH=path, STATUS="0")
            assert not (project / "injected").exists(), f"make {target} {variable}={value!r}"
