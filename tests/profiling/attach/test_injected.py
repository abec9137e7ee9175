"""Tests of the start in the script's interpreter: everything that the script can see is as without the observation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.profiling.measure.script.events import ScriptEvents
from accelbench.profiling.measure.script.launch import exchange_folder, rank_folders, rank_variables, start

SEEN = "import os, sys; print(sorted(os.environ.items()), sys.path, sorted(sys.modules), file=open({!r}, 'w'))"
OURS = ("_accelbench_attach", "sitecustomize", "importlib")


def seen(command: list[str], folder: Path, observed: bool) -> str:
    output = folder / "seen"
    command = [*command, "-c", SEEN.format(str(output)), "argument"]
    if observed:
        with exchange_folder() as exchange:
            assert start(command, exchange).wait() == 0
            assert not (exchange / "error").exists()
            events = ScriptEvents(exchange)
            events.read()
            assert events.pid
    else:
        subprocess.run(command, check=True, env=dict(os.environ))  # readline changes the environment behind os.environ
    return output.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [None, "", "{}"])
def test_environment_path_and_modules_are_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    if path is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", path.format(tmp_path))
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ['SHADOWED'] = __file__\n", encoding="utf-8")
    without, with_it = (seen([sys.executable], tmp_path, observed) for observed in (False, True))
    assert ("SHADOWED" in with_it) == (path == "{}")
    environment, modules = without.rpartition("] [")[::2]
    environment_with_it, modules_with_it = with_it.rpartition("] [")[::2]
    assert environment_with_it == environment
    added = {*modules_with_it.rstrip("]\n").split(", ")} - {*modules.rstrip("]\n").split(", ")}
    assert [name for name in added if not name.strip("'").startswith(OURS)] == []


def test_an_error_of_the_observation_leaves_the_script_running(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with exchange_folder() as exchange:
        missing = exchange / f"missing-{os.getpid()}"
        environment = {**os.environ, "ACCELBENCH_ATTACH": str(missing), "PYTHONPATH": injected_folder()}
        command = [sys.executable, "-c", f"open({str(output)!r}, 'w').write('done')"]
        done = subprocess.run(command, env=environment, check=True, capture_output=True)
    assert output.read_text(encoding="utf-8") == "done"
    assert done.stderr == b""


@pytest.mark.parametrize("variable", ["RANK", "OMPI_COMM_WORLD_RANK"])
def test_a_rank_is_observed_in_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    without = tmp_path / "without"
    subprocess.run([sys.executable, "-c", SEEN.format(str(without))], check=True, env={**os.environ, variable: "3"})
    ranks = [
        [
            sys.executable,
            "-c",
            f"import os; os.environ.update({variable}='{rank}'); os.execv('{sys.executable}', "
            f"['{sys.executable}', '-c', {SEEN.format(str(tmp_path / rank))!r}])",
        ]
        for rank in ("3", "11")
    ]
    with exchange_folder() as exchange:
        folder, environment = str(exchange), {**os.environ, "PYTHONPATH": injected_folder()}
        environment |= {"ACCELBENCH_ATTACH": folder, "ACCELBENCH_ATTACH_RANKS": f"{variable},PMI_RANK"}
        for command in ranks:
            subprocess.run(command, check=True, env=environment)
        found = {rank: ScriptEvents(path) for rank, path in rank_folders(exchange).items()}
        for events in found.values():
            events.read()
    assert sorted(found) == [3, 11]
    assert all(events.pid for events in found.values())
    text = without.read_text(encoding="utf-8").partition("]")[0]
    assert (tmp_path / "3").read_text(encoding="utf-8").partition("]")[0] == text


@pytest.mark.parametrize(
    ("variables", "rank"),
    [({"SINGLE": "True"}, 0), ({"SINGLE": "True", "RANK": "2"}, 2), ({"RANK": ""}, None), ({}, None)],
)
def test_a_single_process_without_a_rank_is_rank_0(variables: dict[str, str], rank: int | None) -> None:
    inherited = {name: text for name, text in os.environ.items() if name != "RANK"}
    with exchange_folder() as exchange:
        names = {"ACCELBENCH_ATTACH": str(exchange), "ACCELBENCH_ATTACH_RANKS": "RANK,SINGLE=0"}
        environment = {**inherited, "PYTHONPATH": injected_folder(), **names, **variables}
        subprocess.run([sys.executable, "-c", ""], env=environment, check=True)
        assert list(rank_folders(exchange)) == ([] if rank is None else [rank])


def test_a_rank_on_another_host_runs_without_observation(tmp_path: Path) -> None:
    missing = {"ACCELBENCH_ATTACH": str(tmp_path / "x-1"), "ACCELBENCH_ATTACH_RANKS": "RANK", "RANK": "1"}
    environment = {**os.environ, "PYTHONPATH": injected_folder(), **missing}
    command = [sys.executable, "-c", "import sys; print('_accelbench_attach' in sys.modules)"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.parametrize(
    ("command", "variables"),
    [
        ("python train.py torchrun", None),
        ("python -m package.train", None),
        ("/opt/bin/torchrun --nproc-per-node 2 train.py", "RANK"),
        ("python -u -m torch.distributed.run train.py", "RANK"),
        ("accelerate launch train.py", "RANK,OMPI_COMM_WORLD_RANK,PMI_RANK,ACCELERATE_USE_CPU=0"),
        ("mpirun -n 2 python train.py", "OMPI_COMM_WORLD_RANK,PMI_RANK"),
        ("srun -n 2 python train.py", "SLURM_PROCID"),
        ("srun -N 2 torchrun train.py", "RANK"),
    ],
)
def test_launchers_are_recognised(command: str, variables: str | None) -> None:
    assert rank_variables(command.split()) == variables


def injected_folder() -> str:
    from accelbench.profiling.attach import injected

    return str(Path(injected.__file__).parent)
