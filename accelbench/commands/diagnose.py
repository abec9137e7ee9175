"""Command `diagnose`: what limits a training script."""

from __future__ import annotations

from pathlib import Path

import click

from accelbench.commands import OUT_OPTION, BoundedNumber
from accelbench.errors import UserError
from accelbench.settings.limits import MOST_SECONDS


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--seconds",
    type=BoundedNumber(1, MOST_SECONDS),
    default=10,
    show_default=True,
    help="Seconds of untouched steps to time; afterwards, py-spy samples as long.",
)
@click.option(
    "--pid", type=click.IntRange(1), help="Observe this running process for --seconds; nothing is added to it."
)
@click.option("--no-experiments", is_flag=True, help="Do not prefetch batches to measure steps without waiting.")
@click.option("--no-ceilings", is_flag=True, help="Do not measure the ceiling that the script's FLOP/s are a share of.")
@click.option("--stop", is_flag=True, help="End the script after the answer.")
@OUT_OPTION
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[LAUNCHER ...] python SCRIPT [ARGUMENT]...")
def command(
    seconds: float,
    pid: int | None,
    no_experiments: bool,
    no_ceilings: bool,
    stop: bool,
    out: Path | None,
    words: tuple[str, ...],
) -> int:
    """Run a training script unchanged and find what limits its speed.

    Steps of PyTorch optimizers, of Keras' fit and of jitted functions of JAX are recognised; mark other loops with
    `for batch in accelbench.steps(loader)`. After a warm-up, some steps are timed untouched, then some are traced and
    sampled, and some get batches from memory, which measures a step without the wait for input. The exit status is the
    script's.

    \b
      accelbench diagnose python train.py --epochs 3
      accelbench diagnose --stop python -m package.train
      accelbench diagnose torchrun --nproc-per-node 2 train.py
      accelbench diagnose --pid 4711
    """
    from accelbench.diagnosis import diagnose, diagnose_process

    if (pid is None) == (not words):
        raise UserError("give either a command to start, such as 'python train.py', or --pid of a running process")
    if pid is not None:
        diagnose_process(pid, out, seconds)
        return 0
    return diagnose(words, out, seconds, not no_experiments, stop, not no_ceilings)
