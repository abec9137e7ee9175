"""Answers of `accelbench diagnose` on scripts with a known bottleneck each, in the idioms of their frameworks."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from accelbench.profiling.records.bottleneck import Bottleneck
from accelbench.profiling.records.bottleneck import Bound as VerdictBound
from accelbench.profiling.records.record import Profile
from tests.bench_self.bounds import Bound
from tests.bench_self.verdicts import judgement
from tests.conftest import ROOT, environment, records
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
    ScriptCase("lightning_slow_input", INPUT, needs=("torch", "lightning")),
    ScriptCase("transformers_trainer", DEVICE, needs=("torch", "transformers")),
)


def answers_on_scripts(console: Console) -> list[Bound]:
    """Return the number of definite and wrong answers; impossible cases are reported on the console."""
    judgements = []
    for case in CASES:
        missing = [name for name in case.needs if find_spec(name) is None]
        if missing:
            console.print(f"{case.script}: not tested: {', '.join(missing)} is not installed")
            continue
        try:
            found = answer(case)
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


def answer(case: ScriptCase) -> Bottleneck:
    """Return the answer on the script, which is ended after it."""
    with tempfile.TemporaryDirectory() as folder, case.environment() as join:
        run = Path(folder, "run")
        diagnose = [sys.executable, "-m", "accelbench", "diagnose", "--stop", "--no-ceilings", "--seconds", SECONDS]
        script = [sys.executable, str(FOLDER / f"{case.script}.py"), *case.arguments]
        process = subprocess.run(
            [*diagnose, "--out", str(run), *script],
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            preexec_fn=join,
        )
        (record,) = records(run)
        assert record["profile"], process.stderr
        return Profile.model_validate(record["profile"]).bottleneck
