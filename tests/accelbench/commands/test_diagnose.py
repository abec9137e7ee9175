"""Tests of `accelbench diagnose`: scripts without a framework, odd scripts, and trainings with a known limit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from accelbench.__main__ import main
from tests.conftest import ROOT, Run, command, environment, info, records

SCRIPTS = ROOT / "tests/fixtures/scripts"
SLOW_LOOP = """
import sys, time
from accelbench import steps

def batches():
    for number in range(int(sys.argv[1])):
        load()
        yield number

def load():
    time.sleep(0.01)

total = 0
for batch in steps(batches()):
    total += batch + sum(range(1000))
print(total)
sys.exit(7)
"""


def written(folder: Path, text: str) -> str:
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def diagnosed(folder: Path) -> dict[str, Any]:
    """Return the only record of the only run."""
    (run,) = (folder / "runs").glob("*/")
    assert info(run)["status"] == "finished"
    (record,) = records(run)
    assert (run / "report.html").exists() == (record["status"] == "measured")
    return record


def test_a_marked_loop_without_a_framework_is_input_bound(accelbench: Run, tmp_path: Path) -> None:
    script = written(tmp_path, SLOW_LOOP)
    done = accelbench("diagnose", "--seconds", "1", sys.executable, script, "800")
    assert (done.returncode, done.stdout) == (7, f"{sum(range(800)) + 800 * sum(range(1000))}\n")
    record = diagnosed(tmp_path)
    profile, found = record["profile"], record["profile"]["script"]
    assert record["point"]["benchmark"] == "script:train.py"
    assert profile["bottleneck"]["bound"] == "input-bound"
    assert found["steps_by"] == "marks"
    low, high = found["waiting_interval"]
    assert 0.5 < low < found["waiting"] < high <= 1
    assert found["waiting_lines"][0]["file"] == "train.py"
    assert found["waiting_lines"][0]["function"] == "load"
    assert profile["bottleneck"]["prefetched"]["speedup_low"] > 1.5
    assert profile["bottleneck"]["prefetched"]["same_random_numbers"]
    assert profile["bottleneck"]["confirmed"]
    (page,) = tmp_path.glob("runs/*/report.html")
    (summary,) = re.findall(r'<p class="verdict[^>]*>([^<]*)', page.read_text(encoding="utf-8"))
    assert "1 of 1" in summary
    assert "verified" not in summary


def test_a_short_script_has_no_answer_and_keeps_output_and_exit_status(accelbench: Run, tmp_path: Path) -> None:
    done = accelbench("diagnose", sys.executable, written(tmp_path, SLOW_LOOP), "5")
    assert (done.returncode, done.stdout) == (7, f"{10 + 5 * sum(range(1000))}\n")
    record = diagnosed(tmp_path)
    assert record["status"] == "failed"
    assert record["timing"] is None


ODD = {
    "fails at import": ("import no_such_module", 1, ""),
    "fork": ("import os; pid = os.fork(); pid and os.wait(); print(pid > 0)", 0, "False\nTrue\n"),
    "stdout replaced": ("import io, sys; sys.stdout = io.StringIO(); print('hidden')", 0, ""),
    "killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL, ""),
    "all descriptors closed": ("import os; print(1, flush=True); os.closerange(0, 99)", 0, "1\n"),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_scripts_keep_output_and_exit_status(accelbench: Run, tmp_path: Path, case: str) -> None:
    text, status, output = ODD[case]
    done = accelbench("diagnose", "--no-experiments", sys.executable, written(tmp_path, text))
    assert (done.returncode, done.stdout) == (status, output)
    assert diagnosed(tmp_path)["status"] == "failed"


def test_a_framework_without_the_hooked_functions_is_imported(accelbench: Run, tmp_path: Path) -> None:
    (tmp_path / "jax.py").touch()
    done = accelbench("diagnose", sys.executable, written(tmp_path, "import jax; print(vars(jax).get('jit'))"))
    assert (done.returncode, done.stdout) == (0, "None\n")
    assert "AttributeError" in diagnosed(tmp_path)["reason"]


def test_an_interpreter_without_the_hooks_is_reported(accelbench: Run, tmp_path: Path) -> None:
    done = accelbench("diagnose", sys.executable, "-I", written(tmp_path, "print(1)"))
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "PYTHONPATH" in diagnosed(tmp_path)["reason"]


def test_a_missing_program_leaves_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["diagnose", "train.py", "--epochs", "3"]) == 2
    assert "diagnose python train.py --epochs 3" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    assert main(["diagnose"]) == 2


EXHAUSTED = """
import sys
import jax
import numpy as np

weights = [np.ones((500, 1000)), np.ones(1000)]

def train(batch):
    raise MemoryError("no memory for 7 GB")

train(np.ones(500))
"""


def test_a_script_that_ends_out_of_memory_reports_its_largest_variables(accelbench: Run, tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("jit = lambda function: function", encoding="utf-8")
    script = written(tmp_path, EXHAUSTED)
    alone = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    done = accelbench("diagnose", sys.executable, script)
    assert done.returncode == alone.returncode == 1
    assert alone.stderr in done.stderr
    memory = diagnosed(tmp_path)["profile"]["script"]["memory"]
    assert "MemoryError" in memory["exhausted"]
    assert [(each["name"], each["bytes"], each["arrays"]) for each in memory["largest"]] == [
        ("weights", 8 * 501_000, 2),
        ("batch in train", 8 * 500, 1),
    ]
    assert memory["host_peak"] > 8 * 501_000


BUSY = """
import time

def compute():
    return sum(range(100_000))

print("ready", flush=True)
end = time.monotonic() + 300
while time.monotonic() < end:
    compute()
"""


def test_a_running_process_is_sampled_and_continues(accelbench: Run, tmp_path: Path) -> None:
    words = [sys.executable, written(tmp_path, BUSY)]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        done = accelbench("diagnose", "--pid", str(process.pid), "--seconds", "3")
        assert process.poll() is None
        process.kill()
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    record = diagnosed(tmp_path)
    assert record["status"] == "skipped"
    assert record["profile"]["bottleneck"]["bound"] is None
    assert record["profile"]["host"]["counters"]["cpu_s"] > 0
    lines = record["profile"]["script"]["host_lines"]
    assert {(line["file"], line["function"]) for line in lines} <= {("train.py", "compute"), ("train.py", "<module>")}
    assert lines[0]["function"] == "compute"
    (flames,) = tmp_path.glob("runs/*/host/process/*.svg")
    assert "compute" in flames.read_text(encoding="utf-8")


def test_a_process_that_is_not_python_is_not_sampled(accelbench: Run, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "300"], cwd=tmp_path) as process:
        done = accelbench("diagnose", "--pid", str(process.pid), "--seconds", "1")
        process.kill()
    assert done.returncode == 1
    assert diagnosed(tmp_path)["profile"]["host"]["missing"]


@pytest.mark.parametrize("words", [[], ["--pid", "1", "python", "train.py"], ["--pid", "999999999"], ["--pid", "0"]])
def test_invalid_processes_leave_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["diagnose", *words]) == 2
    assert main(["diagnose", "--pid", str(os.getpid())]) == 2
    assert not (tmp_path / "runs").exists()


def test_ctrl_c_ends_script_and_diagnosis(tmp_path: Path) -> None:
    text = "import time\ntry:\n    open('begun', 'w').close()\n    time.sleep(60)\nfinally:\n    print('cleaned up')\n"
    words = command("diagnose", sys.executable, written(tmp_path, text))
    process = subprocess.Popen(
        words, cwd=tmp_path, env=environment(), start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not (tmp_path / "begun").exists():
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=200)
    assert output == b"cleaned up\n"
    assert process.returncode == 128 + signal.SIGINT
    assert diagnosed(tmp_path)["status"] == "failed"


def cause(record: dict[str, Any]) -> str:
    """Return the largest cause; contention, the share that other processes add, counts as part of each cause."""
    shares = record["profile"]["bottleneck"]["shares"]
    return str(max((name for name in shares if name != "contention"), key=shares.__getitem__))


def trained(script: str, folder: Path, *options: str) -> str:
    """Diagnose a script that trains until SIGUSR1, which follows the report; return all that was written to stderr.

    Assert that the output equals the output of the script alone for as many steps or epochs.
    """
    training = [sys.executable, str(SCRIPTS / script)]
    diagnosis = command("diagnose", "--no-ceilings", "--seconds", "1", *options, *training)
    with subprocess.Popen(
        diagnosis, cwd=folder, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr
        answer: list[str] = []
        for line in process.stderr:
            answer.append(line)
            if line.startswith("accelbench: report "):
                break
        process.send_signal(signal.SIGUSR1)
        output, rest = process.communicate()
    written = "".join([*answer, rest])
    assert process.returncode == 0, written
    alone = subprocess.run([*training, output.split()[0]], capture_output=True, text=True, check=True)
    assert output == alone.stdout
    return written


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_a_slow_transform_is_found_and_the_training_is_the_same(tmp_path: Path) -> None:
    trained("torch_slow_input.py", tmp_path)
    record = diagnosed(tmp_path)
    found = record["profile"]["script"]
    assert cause(record) == "input"
    assert record["timing"]["summary"]["count"] >= 10
    assert found["examples"] == 32
    assert record["work"]["flops"] == 2 * 32 * 64 * (2 * 64 + 3 * 10)
    assert record["bound"]["dtype"] == "float32"
    assert found["waiting"] > 0.5
    assert found["waiting_lines"][0]["function"] == "augment"
    prefetched = record["profile"]["bottleneck"]["prefetched"]
    assert prefetched, found["missing"]
    assert prefetched["speedup"] > 2
    assert prefetched["same_random_numbers"]


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_without_experiments_the_training_is_the_same(tmp_path: Path) -> None:
    assert "USDT" not in trained("torch_large_product.py", tmp_path, "--no-experiments")
    record = diagnosed(tmp_path)
    assert cause(record) == "device"
    assert record["profile"]["bottleneck"]["prefetched"] is None


@pytest.mark.slow
def test_a_loop_of_jax_is_device_bound_and_the_training_is_the_same(tmp_path: Path) -> None:
    trained("jax_large_product.py", tmp_path)
    record = diagnosed(tmp_path)
    found = record["profile"]["script"]
    assert cause(record) == "device"
    assert found["steps_by"] == "jitted calls"
    assert record["work"]["flops"] == pytest.approx((3 * 4 - 1) * 2 * 128 * 512 * 512, rel=0.05)
    assert record["timing"]["summary"]["count"] >= 10
    assert found["waiting"] is None


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_many_small_operations_are_host_bound(accelbench: Run, tmp_path: Path) -> None:
    script = SCRIPTS / "torch_small_operations.py"
    done = accelbench("diagnose", "--no-ceilings", "--stop", "--seconds", "1", sys.executable, script, "100000")
    assert done.returncode == 0
    record = diagnosed(tmp_path)
    assert cause(record) == "dispatch"
    assert record["profile"]["script"]["waiting"] is None


@pytest.mark.slow
def test_keras_waits_for_its_input(accelbench: Run, tmp_path: Path) -> None:
    script = SCRIPTS / "keras_slow_input.py"
    done = accelbench("diagnose", "--no-ceilings", "--stop", "--seconds", "1", sys.executable, script, "1000")
    assert done.returncode == 0
    record = diagnosed(tmp_path)
    found = record["profile"]["script"]
    assert cause(record) == "input"
    assert found["steps_by"] == "fit"
    assert found["waiting"] > 0.5
    assert found["waiting_lines"][0]["function"] == "augment"


@pytest.mark.slow
@pytest.mark.needs("tensorflow")
def test_a_loop_of_tensorflow_waits_for_its_input_and_the_training_is_the_same(tmp_path: Path) -> None:
    trained("tensorflow_slow_input.py", tmp_path)
    record = diagnosed(tmp_path)
    found = record["profile"]["script"]
    assert cause(record) == "input"
    assert (found["steps_by"], found["examples"]) == ("tf.function calls", 16)
    assert record["profile"]["bottleneck"]["confirmed"]
    assert found["waiting"] > 0.5
    assert "tf.data" in record["profile"]["bottleneck"]["help"]


@pytest.mark.slow
@pytest.mark.needs("tensorflow")
def test_a_loop_of_tensorflow_in_one_launch_leaves_the_training_as_it_is(tmp_path: Path) -> None:
    trained("tensorflow_logged_step.py", tmp_path)
    found = diagnosed(tmp_path)["profile"]
    assert found["bottleneck"]["bound"] == "dispatch-bound"
    assert found["bottleneck"]["one_launch"], found["script"]["missing"]
    assert found["bottleneck"]["one_launch"]["speedup"] > 1


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_the_slow_one_of_two_ranks_is_found(accelbench: Run, tmp_path: Path) -> None:
    launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
    script = str(SCRIPTS / "torch_slow_rank.py")
    done = accelbench("diagnose", "--stop", "--seconds", "1", *launcher, script, "1000000")
    assert done.returncode == 0, done.stderr
    record = diagnosed(tmp_path)
    assert record["point"]["benchmark"] == "script:torch_slow_rank.py"
    found = record["profile"]["script"]
    assert (found["world"], [rank["rank"] for rank in found["ranks"]]) == (2, [0, 1])
    assert found["slow_rank"], found
    assert (found["slow_rank"]["rank"], found["slow_rank"]["part"]) == (1, "forward")
    assert {*found["ranks"][0]["parts"]} == {"input", "forward", "backward", "optimizer"}
