"""Answers of `accelbench diagnose` on scripts with a known bottleneck each, in the idioms of their frameworks."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from accelbench.execution.store import RunStore
from accelbench.profiling.records.bottleneck import Bound as VerdictBound
from accelbench.profiling.records.record import Record
from tests.bench_self.bounds import Bound
from tests.bench_self.verdicts import judgement
from tests.conftest import ROOT, environment
from tests.fixtures.verdict_cases import Impossible, Join, quota, unchanged, with_other_load

FOLDER = ROOT / "tests/fixtures/scripts"
SECONDS = "3"
LIMIT_S = 180


@dataclass(frozen=True)
class ScriptCase:
    """Script, the correct answers, and what it needs."""

    script: str
    right: tuple[VerdictBound, ...]
    arguments: tuple[str, ...] = ()
    environment: Callable[[], AbstractContextManager[Join]] = unchanged
    needs: tuple[str, ...] = ("torch",)
    launcher: tuple[str, ...] = ()


TWO_RANKS = ("-m", "torch.distributed.run", "--nproc-per-node", "2")

INPUT: tuple[VerdictBound, ...] = ("input-bound",)
DEVICE: tuple[VerdictBound, ...] = ("device-bound",)
HOST: tuple[VerdictBound, ...] = ("dispatch-bound",)
CASES = (
    ScriptCase("torch_slow_input", INPUT),
    ScriptCase("torch_slow_workers", INPUT),
    ScriptCase("torch_slow_disk", INPUT),
    ScriptCase("torch_text_lines", INPUT),
    ScriptCase("torch_compiled_slow_input", INPUT),
    ScriptCase("torch_large_product", DEVICE),
    ScriptCase("torch_accumulation", DEVICE),
    ScriptCase("torch_autocast", DEVICE),
    ScriptCase("torch_gan", DEVICE),
    ScriptCase("torch_in_thread", DEVICE),
    ScriptCase("torch_changing_batch", DEVICE),
    ScriptCase("torch_small_operations", HOST, ("1000000",)),
    ScriptCase("torch_log_every_step", HOST),
    ScriptCase("torch_sleep", HOST),
    ScriptCase("torch_large_product", ("cpu-quota-bound",), environment=quota(50_000, 100_000)),
    ScriptCase("torch_large_product", ("cpu-contended",), environment=with_other_load),
    ScriptCase("jax_large_product", DEVICE, needs=("jax",)),
    ScriptCase("jax_optax", DEVICE, needs=("jax", "optax")),
    ScriptCase("jax_small_calls", HOST, needs=("jax",)),
    ScriptCase("jax_marked_generator", INPUT, needs=("jax",)),
    ScriptCase("jax_torch_loader", INPUT, needs=("jax", "torch")),
    ScriptCase("keras_slow_input", INPUT, ("1000",), needs=("jax", "keras")),
    ScriptCase("keras_torch", DEVICE, needs=("torch", "keras")),
    ScriptCase("keras_custom_step", DEVICE, needs=("tensorflow",)),
    ScriptCase("keras_callback", HOST, needs=("tensorflow",)),
    ScriptCase("keras_eager", HOST, needs=("tensorflow",)),
    ScriptCase("tensorflow_slow_input", INPUT, needs=("tensorflow",)),
    ScriptCase("tensorflow_small_operations", HOST, needs=("tensorflow",)),
    ScriptCase("tensorflow_large_product", DEVICE, needs=("tensorflow",)),
    ScriptCase("torch_slow_exchange", ("communication-bound",), ("1000000",), launcher=TWO_RANKS),
    ScriptCase("jax_logged_step", HOST, needs=("jax",)),
    ScriptCase("tensorflow_logged_step", HOST, needs=("tensorflow",)),
    ScriptCase("lightning_slow_input", INPUT, needs=("torch", "lightning")),
    ScriptCase("transformers_trainer", DEVICE, needs=("torch", "transformers")),
)


MENDED = {
    "torch_slow_input": (
        "DataLoader(Images(), batch_size=32, shuffle=True)",
        "list(DataLoader(Images(), batch_size=32, shuffle=True))",
    ),
    "torch_text_lines": (
        "DataLoader(Lines(), batch_size=32):",
        "[x for x, _ in zip(DataLoader(Lines(), batch_size=32), range(100))] * 10_000:",
    ),
    "jax_marked_generator": ("steps(batches())", "steps([x for x, _ in zip(batches(), range(200))] * 10_000)"),
    "tensorflow_slow_input": ("in dataset:", "in list(dataset.take(40)) * 10_000:"),
}
"""Scripts whose input can be mended: a part of the text, and its replacement, by which all batches are in memory."""
REPETITIONS = 5
"""Number of predictions for each script. A machine's speed changes within seconds, so each prediction is compared with
the mean of the mended script's step times before and after it."""


def predicted_steps(console: Console) -> list[Bound]:
    """Return the step time that the experiment on the input predicts ÷ the step time of the mended script."""
    bounds = []
    for name, (slow, mended) in MENDED.items():
        case = next(case for case in CASES if case.script == name)
        if not all(map(find_spec, case.needs)):
            console.print(f"{name}: not tested")
            continue
        text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        assert slow in text
        bound = Bound(f"{name}: predicted step ÷ mended step", "×", at_least=0.9, at_most=1.1)
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "mended.py")
            script.write_text(text.replace(slow, mended), encoding="utf-8")
            before = step_seconds(case, script)
            for _ in range(REPETITIONS):
                predicted = diagnosed(case).profile.bottleneck.prefetched  # type: ignore[union-attr]
                after = step_seconds(case, script)
                assert predicted, f"{name}: no experiment on the input"
                bound.found.append(predicted.mean / ((before + after) / 2))
                before = after
        bounds.append(bound)
    return bounds


def step_seconds(case: ScriptCase, script: Path) -> float:
    timing = diagnosed(case, script).timing
    assert timing, f"{case.script}: no timed steps"
    return timing.execution.seconds


def answers_on_scripts(console: Console) -> list[Bound]:
    """Return the number of definite and wrong answers; impossible cases are reported on the console."""
    judgements = []
    for case in CASES:
        missing = [name for name in case.needs if find_spec(name) is None]
        if missing:
            console.print(f"{case.script}: not tested: {', '.join(missing)} is not installed")
            continue
        try:
            found = diagnosed(case).profile.bottleneck  # type: ignore[union-attr]
        except Impossible as reason:
            console.print(f"{case.script}: not possible on this machine: {reason}")
            continue
        judgements.append(judgement(case.right, found))
        verdicts = " and ".join([found.bound, *found.beside]) if found.bound else f"unknown ({found.reason})"
        confirmed = ", confirmed" if found.confirmed else ""
        console.print(f"{case.script}: {verdicts}{confirmed}: {judgements[-1]}")
        if judgements[-1] != "right":
            for text in found.evidence:
                console.print(f"    {text}")
    wrong = Bound("definite and wrong answers on scripts", f"of {len(judgements)}", at_most=0)
    wrong.found.append(float(judgements.count("wrong")))
    undecided = Bound("undecided answers on scripts", f"of {len(judgements)}")
    undecided.found.append(float(sum(each.startswith("undecided") for each in judgements)))
    return [wrong, undecided]


def diagnosed(case: ScriptCase, script: Path | None = None) -> Record:
    """Return the record of the case's script, or of another one in its place; it is ended after the answer."""
    with tempfile.TemporaryDirectory() as folder, case.environment() as join:
        run = Path(folder, "run")
        diagnose = [sys.executable, "-m", "accelbench", "diagnose", "--stop", "--no-ceilings", "--seconds", SECONDS]
        file = script or FOLDER / f"{case.script}.py"
        process = subprocess.run(
            [*diagnose, "--out", str(run), sys.executable, *case.launcher, str(file), *case.arguments],
            cwd=folder,
            env={**environment(), "PYTHONPATH": os.environ.get("PYTHONPATH", "")},  # as users have it
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            preexec_fn=join,
        )
        (record,) = RunStore.open(run).records()
        assert record.profile, process.stderr
        return record
