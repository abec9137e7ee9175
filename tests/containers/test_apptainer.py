"""The SIF under Apptainer, run by an unprivileged user without a network, as on a cluster."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.containers.conftest import (
    BRIEF,
    CALLER,
    SHORT_BENCH,
    SHORT_RECORDS,
    Checkout,
    as_caller,
    environment_of,
    measured,
    owners,
    run,
)

pytestmark = [pytest.mark.container, pytest.mark.timeout(1500)]


def test_apptainer_test_passes(sif: Path, checkout: Checkout) -> None:
    done = run(*as_caller("apptainer", "test", "--userns", sif), cwd=checkout.path, env=checkout.variables)
    assert "nqueens" in done.stdout


def test_the_sif_has_labels_and_help(sif: Path, cpu_image: str, checkout: Checkout) -> None:
    inspect = ("apptainer", "inspect", "--json", sif)
    labels = json.loads(run(*as_caller(*inspect), env=checkout.variables).stdout)["data"]["attributes"]["labels"]
    assert (labels["accelbench.device"], labels["accelbench.image"]) == ("cpu", cpu_image)
    assert "bench DEVICE=gpu" in run(*as_caller("apptainer", "run-help", sif), env=checkout.variables).stdout


def test_an_unprivileged_user_measures_with_the_sif(sif: Path, cpu_image: str, checkout: Checkout) -> None:
    checkout.bench("ENGINE=apptainer", *SHORT_BENCH)
    found = checkout.only_run()
    assert measured(found) == SHORT_RECORDS
    assert owners(found) == {(CALLER.pw_uid, CALLER.pw_gid)}
    system = environment_of(found)["system"]
    assert (system["container"], system["image"]) == ("apptainer", cpu_image)


def test_a_benchmark_has_no_capabilities_and_no_network(sif: Path, checkout: Checkout) -> None:
    own = {"ACCELBENCH_PATH": str(checkout.runs())}
    checkout.bench("ENGINE=apptainer", "BENCH=confined", f"ARGS={BRIEF}", **own)
    assert ("confined", "measured") in measured(checkout.only_run())


def test_the_run_script_writes_results_to_the_current_folder(sif: Path, checkout: Checkout) -> None:
    place = checkout.path.parent / "elsewhere"
    place.mkdir()
    shutil.chown(place, CALLER.pw_uid, CALLER.pw_gid)
    bench = ("apptainer", "run", "--bind", place, "--pwd", place, sif, "bench", "BENCH=nqueens", "DEVICE=cpu")
    variables = checkout.variables | {"PYTHONPATH": "/modules/of/the/host"}
    run(
        *as_caller(*bench, f"ARGS={BRIEF} --param queens=8 --param impl=prefix --param cores=one"),
        cwd=place,
        env=variables,
    )
    assert len(list((place / "runs").glob("*/report.html"))) == 1


def test_a_sif_for_another_device_exits_with_the_command_to_build_one(sif: Path, checkout: Checkout) -> None:
    bench = ("container-bench", "DEVICE=gpu", "ENGINE=apptainer", f"SIF={sif}")
    done = checkout.make(*bench, check=False)
    assert done.returncode == 2
    assert "make sif DEVICE=gpu" in done.stderr


def test_the_gpu_without_nv_exits_with_the_missing_option(sif: Path, checkout: Checkout) -> None:
    bench = ("make", "--file", "/accelbench/Makefile", "bench", "DEVICE=gpu")
    done = run(*as_caller("apptainer", "exec", sif, *bench), check=False, cwd="/", env=checkout.variables)
    assert done.returncode == 2
    assert "--nv" in done.stderr


def test_a_missing_sif_exits_with_the_command_to_build_it(checkout: Checkout) -> None:
    done = checkout.make("container-bench", "DEVICE=tpu", "ENGINE=apptainer", check=False)
    assert done.returncode == 2
    assert "make sif DEVICE=tpu" in done.stderr
