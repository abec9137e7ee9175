"""Images built and run by Docker."""

from __future__ import annotations

import errno
import json
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import accelbench
from tests.containers.conftest import (
    BRIEF,
    CALLER,
    SHORT_BENCH,
    SHORT_RECORDS,
    Checkout,
    as_caller,
    environment_of,
    info,
    measured,
    owners,
    records,
    run,
)

pytestmark = [pytest.mark.container, pytest.mark.timeout(1500)]

GB = 10**9


def inspect(image: str, docker: dict[str, str]) -> dict[str, object]:
    (found,) = json.loads(run("docker", "image", "inspect", image, env=docker).stdout)
    return dict(found)


def layers(image: str, docker: dict[str, str]) -> list[str]:
    found = inspect(image, docker)["RootFS"]
    assert isinstance(found, dict)
    return list(found["Layers"])


def test_a_benchmark_runs_with_limits_and_its_run_is_owned_by_the_caller(cpu_image: str, checkout: Checkout) -> None:
    checkout.bench("ENGINE=docker", *SHORT_BENCH, "FLAGS=--cpus 1.5 --memory 8g")
    found = checkout.only_run()
    assert measured(found) == SHORT_RECORDS
    assert (found / "report.html").stat().st_size > 10_000
    assert owners(found) == {(CALLER.pw_uid, CALLER.pw_gid)}
    environment = environment_of(found)
    assert environment["system"]["container"] == "docker"
    assert environment["system"]["image"] == cpu_image
    assert environment["system"]["user_namespace"] is False
    assert environment["limits"] == {"cpu_quota": 1.5, "memory_bytes": 8 << 30}


def test_a_benchmark_has_no_capabilities_and_no_network_unless_requested(cpu_image: str, checkout: Checkout) -> None:
    own, bench = "--env ACCELBENCH_PATH=/accelbench/runs", ("ENGINE=docker", "BENCH=confined", f"ARGS={BRIEF}")
    checkout.bench(*bench, f"FLAGS={own}")
    assert ("confined", "measured") in measured(checkout.only_run())
    unconfined = checkout.bench(*bench, f"FLAGS={own} --network host --cap-add SYS_PTRACE", check=False)
    assert unconfined.returncode != 0
    (record,) = [one for one in records(checkout.only_run()) if one["point"]["benchmark"] == "confined"]
    assert record["status"] == "failed"
    bounding = record["verification"]["found"].split(",")[0].split()[-1]
    assert int(bounding, 16) == 1 << 19, "only SYS_PTRACE"
    assert "(1, 'lo'), (" in record["verification"]["found"]


@pytest.mark.exhaustive
def test_a_training_workload_is_profiled_without_capabilities(cpu_image: str, checkout: Checkout) -> None:
    checkout.bench("ENGINE=docker", "BENCH=cnn-mnist", "ARGS=--param epochs=2 --host-profile")
    (training,) = [one for one in records(checkout.only_run()) if one["point"]["benchmark"] == "cnn-mnist"]
    assert training["status"] == "measured"
    windows = training["profile"]["host"]["sampling"]["windows"]
    assert any(window["looks"] for window in windows), training["profile"]["missing"]


def test_the_image_lists_its_installed_packages(cpu_image: str, checkout: Checkout, docker: dict[str, str]) -> None:
    checkout.make("sbom", "DEVICE=cpu", "ENGINE=docker")
    listed = json.loads((checkout.path / "containers/build/accelbench-cpu.cdx.json").read_text())
    assert (listed["bomFormat"], listed["specVersion"] >= "1.5") == ("CycloneDX", True)
    components = {one["name"].lower().replace("_", "-"): one["version"] for one in listed["components"]}
    program = "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()))"
    done = run("docker", "run", "--rm", "accelbench:cpu", "/opt/venv/bin/python", "-c", program, env=docker)
    installed = dict(one.lower().replace("_", "-").split("==") for one in done.stdout.split())
    assert components == installed
    assert {"tensorflow-cpu", "numba", "numpy"} <= set(components)
    assert all(one["purl"].startswith("pkg:pypi/") for one in listed["components"])


def test_the_modules_of_the_image_are_compiled(cpu_image: str, docker: dict[str, str]) -> None:
    program = (
        "import pathlib, importlib.util as util\n"
        "for name in ('keras', 'numba', 'accelbench'):\n"
        "    for file in pathlib.Path(util.find_spec(name).origin).parent.rglob('*.py'):\n"
        "        print(file, pathlib.Path(util.cache_from_source(file)).exists())\n"
    )
    done = run("docker", "run", "--rm", "accelbench:cpu", "/opt/venv/bin/python", "-c", program, env=docker)
    found = [line.split() for line in done.stdout.splitlines()]
    assert len(found) > 1000
    assert [file for file, compiled in found if compiled != "True"] == []


@pytest.mark.exhaustive
def test_two_ranks_train_in_a_container_with_the_requested_strategy(
    cpu_image: str, docker: dict[str, str], open_folder: Path
) -> None:
    options = ("--rm", "--network", "none", "--volume", f"{open_folder}:/results", "accelbench:cpu")
    train = ("run", "cnn-mnist", "--param", "epochs=2", "--backend", "tensorflow", "--strategy", "multiworker")
    launch = ("accelbench", "launch", "--procs", "2", *train, "--device", "cpu", "--out", "/results/run")
    run("docker", "run", *options, *launch, env=docker)
    (training,) = [record for record in records(open_folder / "run") if record["point"]["benchmark"] == "cnn-mnist"]
    assert (training["status"], len(training["ranks"])) == ("measured", 2)
    params = training["point"]["params"]
    assert (params["strategy"], params["processes"]) == ("multiworker", 2)


def test_a_user_without_an_entry_in_the_image_trains_with_a_read_only_root(
    cpu_image: str, docker: dict[str, str], open_folder: Path
) -> None:
    os.chown(open_folder, 54321, 54321)
    options = ("--rm", "--read-only", "--tmpfs", "/tmp", "--user", "54321:54321", "--volume", f"{open_folder}:/results")
    train = f"accelbench run cnn-mnist --param epochs=1 {BRIEF} --trace --out /results/run"
    script = f'touch /accelbench/x 2>/dev/null && exit 9; echo "$HOME $NUMBA_CACHE_DIR $MPLCONFIGDIR"; {train}'
    done = run("docker", "run", *options, "accelbench:cpu", "sh", "-c", script, env=docker)
    assert all(place.startswith("/tmp/accelbench-cache-54321/") for place in done.stdout.splitlines()[0].split())
    found = open_folder / "run"
    assert measured(found) == {("cnn-mnist", "measured")}
    assert owners(found) == {(54321, 54321)}
    assert list((found / "traces").rglob("*.xplane.pb"))
    assert (found / "records.parquet").stat().st_size > 0


def test_a_point_larger_than_the_containers_memory_is_skipped(
    cpu_image: str, docker: dict[str, str], open_folder: Path
) -> None:
    options = ("--rm", "--memory", "600m", "--user", "0", "--volume", f"{open_folder}:/results")
    point = ("--param", "n=8192", "--param", "impl=vendor", "--param", "dtype=float64", "--no-ceilings")
    bench = ("accelbench", "run", "matmul", *point, "--device", "cpu", "--out", "/results/run")
    assert run("docker", "run", *options, "accelbench:cpu", *bench, check=False, env=docker).returncode == 1
    (record,) = records(open_folder / "run")
    assert record["status"] == "skipped"
    assert "available" in str(record["reason"])


def test_pair_measures_an_image(cpu_image: str, docker: dict[str, str], open_folder: Path) -> None:
    point = ("--param", "impl=numba", "--param", "op=copy", "--param", "dtype=float64", "--time-limit", "10")
    pair = ("pair", ".", f"docker:{cpu_image}", "stream", "--device", "cpu", *point, "--out", open_folder / "pair")
    run(sys.executable, "-m", "accelbench", *pair, env=docker)
    sides = [open_folder / "pair" / side for side in "AB"]
    assert [measured(side) for side in sides] == [{("stream", "measured")}] * 2
    assert environment_of(sides[1])["system"]["container"] == "docker"


def test_the_image_is_small_and_labelled(cpu_image: str, docker: dict[str, str]) -> None:
    image = inspect("accelbench:cpu", docker)
    assert int(str(image["Size"])) <= 2.0 * GB
    config = image["Config"]
    assert isinstance(config, dict)
    assert config["User"] == "1000:1000"
    assert config["Labels"]["org.opencontainers.image.title"] == "accelbench"
    assert config["Labels"]["org.opencontainers.image.version"] == accelbench.__version__
    done = run("docker", "run", "--rm", "accelbench:cpu", *config["Healthcheck"]["Test"][1:], env=docker)
    assert done.stdout.startswith("accelbench, version")


def test_a_changed_source_rebuilds_only_the_source_layer(
    cpu_image: str, checkout: Checkout, docker: dict[str, str]
) -> None:
    before = layers("accelbench:cpu", docker)
    source = checkout.path / "kernels" / "stream" / "__init__.py"
    text = source.read_text()
    source.write_text(text + "\n# changed\n")
    try:
        checkout.make("image", "DEVICE=cpu", "ENGINE=docker")
        after = layers("accelbench:cpu", docker)
    finally:
        source.write_text(text)
        checkout.make("image", "DEVICE=cpu", "ENGINE=docker")
    assert (after[:-1], after[-1] == before[-1]) == (before[:-1], False)
    assert layers("accelbench:cpu", docker) == before


def test_an_image_for_another_device_exits_with_the_command_to_build_one(
    cpu_image: str, docker: dict[str, str]
) -> None:
    done = run("docker", "run", "--rm", "accelbench:cpu", "make", "bench", "DEVICE=gpu", check=False, env=docker)
    assert done.returncode == 2
    assert "make image DEVICE=gpu" in done.stderr


def test_a_gpu_image_without_a_gpu_prints_the_missing_option(cpu_image: str, docker: dict[str, str]) -> None:
    """Run the cpu image as if it were the gpu image: the driver is checked before any package."""
    options = ("--rm", "--env", "ACCELBENCH_IMAGE_DEVICE=gpu")
    done = run("docker", "run", *options, "accelbench:cpu", "make", "bench", "DEVICE=gpu", check=False, env=docker)
    assert done.returncode == 2
    assert "--gpus all" in done.stderr


def test_the_packages_of_the_gpu_image_are_available(checkout: Checkout) -> None:
    """The index has a wheel for this platform of each package that the cpu image lacks; none is downloaded."""
    folder = checkout.path / "requirements"
    cpu, gpu = ((folder / f"{name}.txt").read_text().splitlines() for name in ("cpu", "gpu"))
    pins = [line for line in gpu if "==" in line and line not in cpu]
    uv_variables = runpy.run_path(str(folder / "install.py"))["uv_variables"]
    environment = uv_variables(run(sys.executable, "-m", "pip", "config", "list").stdout) | os.environ
    resolve = (sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-cache", "--no-deps")
    command = (*resolve, "--only-binary", ":all:", "--no-header", "--no-annotate", "-")
    done = subprocess.run(command, input="\n".join(pins), env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "cupy-cuda12x" in done.stdout


@pytest.mark.needs("gpu-image")
def test_the_gpu_image_is_built_and_reports_a_missing_gpu(checkout: Checkout, docker: dict[str, str]) -> None:
    checkout.make("image", "DEVICE=gpu", "ENGINE=docker")
    done = run("docker", "run", "--rm", "accelbench:gpu", "make", "bench", "DEVICE=gpu", check=False, env=docker)
    assert done.returncode == 2
    assert "--gpus all" in done.stderr
    started = checkout.make("container-bench", "DEVICE=gpu", "ENGINE=docker", check=False)
    assert started.returncode == 2
    assert "Container Toolkit" in started.stderr


# --- errors ---


@pytest.mark.parametrize(
    ("engine", "advice"),
    [
        ("docker", "apt install docker.io"),
        ("podman", "apt install podman"),
        ("apptainer", "apptainer.org"),
    ],
)
def test_a_missing_engine_exits_with_the_command_to_install_it(
    checkout: Checkout, open_folder: Path, engine: str, advice: str
) -> None:
    for name in ("bash", "dirname", "id", "make", "mkdir", "sh", "setpriv", "env"):
        (open_folder / name).symlink_to(f"/usr/bin/{name}")
    done = checkout.bench(f"ENGINE={engine}", check=False, PATH=str(open_folder))
    assert done.returncode == 2
    assert advice in done.stderr


def test_an_unknown_engine_is_an_error(checkout: Checkout) -> None:
    done = checkout.bench("ENGINE=lxc", check=False)
    assert done.returncode == 2
    assert "docker podman apptainer" in done.stderr


def test_a_stopped_daemon_is_an_error(checkout: Checkout, docker: dict[str, str]) -> None:
    done = checkout.bench("ENGINE=docker", check=False, DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert done.returncode == 2
    assert "systemctl start docker" in done.stderr


def test_a_socket_without_permission_is_an_error(checkout: Checkout, docker: dict[str, str]) -> None:
    socket = Path(docker["DOCKER_HOST"].removeprefix("unix://"))
    socket.chmod(0o660)
    try:
        done = checkout.bench("ENGINE=docker", check=False)
    finally:
        socket.chmod(0o666)
    assert done.returncode == 2
    assert "usermod -aG docker" in done.stderr


def test_a_missing_base_image_is_an_error(checkout: Checkout, docker: dict[str, str]) -> None:
    done = checkout.make("image", "DEVICE=cpu", "ENGINE=docker", "BASE=localhost:1/none:1", check=False)
    assert done.returncode == 2
    assert "localhost:1/none:1" in done.stderr
    assert "containers/ci/base.sh" in done.stderr


def test_a_missing_image_exits_with_the_command_to_build_it(checkout: Checkout, docker: dict[str, str]) -> None:
    done = checkout.make("container-bench", "DEVICE=tpu", "ENGINE=docker", check=False)
    assert done.returncode == 2
    assert "make image DEVICE=tpu ENGINE=docker" in done.stderr


def test_a_results_folder_not_writable_by_the_caller_is_an_error(cpu_image: str, checkout: Checkout) -> None:
    runs = checkout.runs()
    os.chown(runs, 0, 0)
    try:
        done = checkout.make("container-bench", "DEVICE=cpu", "ENGINE=docker", check=False)
    finally:
        os.chown(runs, CALLER.pw_uid, CALLER.pw_gid)
    assert done.returncode == 2
    assert str(runs) in done.stderr


def test_a_results_folder_not_writable_by_the_containers_user_is_an_error(
    cpu_image: str, docker: dict[str, str], tmp_path: Path
) -> None:
    options = ("--rm", "--user", "54321", "--volume", f"{tmp_path}:/accelbench/runs")
    bench = ("make", "bench", "DEVICE=cpu", "BENCH=nqueens")
    done = run("docker", "run", *options, "accelbench:cpu", *bench, check=False, env=docker)
    assert done.returncode == 2
    assert os.strerror(errno.EACCES) in done.stderr


def test_a_full_disk_during_the_build_is_an_error(
    checkout: Checkout, docker: dict[str, str], open_folder: Path
) -> None:
    """A fake `docker` prints Docker's own message, so that no disk has to be filled."""
    fake_docker = open_folder / "docker"
    fake_docker.write_text(
        '#!/bin/sh\n[ "$1" = build ] || exit 0\necho "failed to solve: no space left on device" >&2\nexit 1\n'
    )
    fake_docker.chmod(0o755)
    done = checkout.make(
        "image", "ENGINE=docker", "DEVICE=cpu", check=False, PATH=f"{open_folder}:{os.environ['PATH']}"
    )
    assert done.returncode == 2
    assert "docker system prune" in done.stderr


def test_an_interrupted_bench_leaves_a_valid_run(cpu_image: str, checkout: Checkout) -> None:
    checkout.runs()
    flags = "FLAGS=--env ACCELBENCH_PATH=/accelbench/runs"
    repeated = ("BENCH=confined", "ARGS=--no-ceilings --rounds 20 --max-seconds 20 --patience 0", flags)
    process = subprocess.Popen(
        list(map(str, as_caller("make", "container-bench", "DEVICE=cpu", "ENGINE=docker", *repeated))),
        cwd=checkout.path,
        env=checkout.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    first_line = next(line for line in process.stdout if re.match(r"\[ *1/20\]", line))
    os.killpg(process.pid, signal.SIGINT)
    rest = process.stdout.read()
    process.wait()
    assert info(checkout.only_run())["status"] == "interrupted", first_line + rest
