"""Command `pair`: compare two Python environments, images or settings by interleaved measurements."""

from __future__ import annotations

from pathlib import Path

import click

from accelbench.commands import (
    BACKEND_OPTION,
    DEVICE_OPTION,
    FORMAT_OPTION,
    OUT_OPTION,
    BoundedNumber,
    complete_benchmark,
    console,
)
from accelbench.errors import Interrupted, UserError
from accelbench.export.document import DocumentFormat
from accelbench.settings.limits import MOST_SECONDS

EXIT_FAILED = 1
EXIT_REGRESSION = 3
SAMPLING_SECONDS = 0.5
"""Sampling time of one measurement in seconds; short, since processes vary more than samples of one process."""

REPETITIONS = 2
"""Repetitions in the settings of both runs; more than one, so that processes share the kernels' machine code."""


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.argument("benchmarks", nargs=-1, metavar="BENCHMARK...", shell_complete=complete_benchmark)
@click.option(
    "--script", metavar="'python SCRIPT...'", help="Compare the step time of a training script instead of benchmarks."
)
@click.option(
    "--a", "settings_a", multiple=True, metavar="SETTING", help="Setting of A only: backend=, AXIS= or env:NAME=."
)
@click.option(
    "--b", "settings_b", multiple=True, metavar="SETTING", help="Setting of B only: backend=, AXIS= or env:NAME=."
)
@DEVICE_OPTION
@click.option("--param", "params", multiple=True, metavar="AXIS=V1,V2", help="Values of an axis for both sides.")
@BACKEND_OPTION
@click.option(
    "--within",
    default="1.5%",
    show_default=True,
    metavar="PERCENT",
    help="Half-width of the confidence interval at which to stop.",
)
@click.option(
    "--time-limit",
    type=BoundedNumber(1, MOST_SECONDS),
    default=300,
    show_default=True,
    help="Total time in seconds; no block of measurements is started that would exceed it.",
)
@click.option(
    "--fail-on", metavar="slower:3%", help="Exit with status 3 if a point is slower in B than in A by more than this."
)
@OUT_OPTION
@FORMAT_OPTION
def command(
    a: str,
    b: str,
    benchmarks: tuple[str, ...],
    script: str | None,
    settings_a: tuple[str, ...],
    settings_b: tuple[str, ...],
    device: str,
    params: tuple[str, ...],
    backend: str | None,
    within: str,
    time_limit: float,
    fail_on: str | None,
    out: Path | None,
    form: DocumentFormat,
) -> int:
    """Compare B with A by alternating measurements (A B B A …).

    Each measurement is a new process, and each ratio is of two consecutive measurements, so that drift of the machine
    cancels.

    A and B are each `.` (this Python), another Python or the folder of a virtual environment, or an image:
    docker:IMAGE, podman:IMAGE, FILE.sif (with access to the GPUs if --device is gpu). They may be equal and differ in
    their settings:

    \b
      accelbench pair . ../new-numpy matmul             two versions of a library
      accelbench pair . . matmul --a impl=numba --b impl=vendor
      accelbench pair . . cnn-mnist --a backend=jax --b backend=torch
      accelbench pair . . matmul --b env:OPENBLAS_NUM_THREADS=1
      accelbench pair . . --script 'python train.py' --b env:OMP_NUM_THREADS=1

    A script is started anew for each measurement, and ended when enough steps are timed (see 'accelbench diagnose').
    """
    from accelbench.compare.regression import parse_fail_on
    from accelbench.execution.plan import Choice
    from accelbench.execution.store import Settings
    from accelbench.output.console import say
    from accelbench.output.format import percent
    from accelbench.pair.pairing import PairingGoal, measure_pair
    from accelbench.pair.script import parse_script
    from accelbench.pair.show import announce, document_of_pair, line_of, show
    from accelbench.pair.side import PairSide

    if bool(benchmarks) == (script is not None):
        raise UserError(
            "give BENCHMARK, such as 'accelbench pair . . matmul', or --script 'python SCRIPT' (one of them)"
        )
    if script is not None and (params or backend or any(not s.startswith("env:") for s in (*settings_a, *settings_b))):
        raise UserError("--script: a script has no axes and no --backend; the settings of a side are env:NAME=VALUE")

    rule = parse_fail_on(fail_on) if fail_on else None
    side_a, side_b = PairSide.parse("A", a, settings_a), PairSide.parse("B", b, settings_b)
    wanted = PairingGoal(
        benchmarks=benchmarks,
        script=() if script is None else parse_script(script),
        device=device,
        backend=backend,
        choices=[Choice.parse(param) for param in params],
        settings=Settings(max_seconds=SAMPLING_SECONDS, rounds=REPETITIONS, training_rounds=REPETITIONS),
        within=parse_within(within),
        time_limit_s=time_limit,
    )
    to = console(stderr=form != "table")
    result = measure_pair(
        out,
        side_a,
        side_b,
        wanted,
        on_start=lambda path, series: to.print(announce(path, side_a, side_b, series, wanted), soft_wrap=True),
        on_progress=lambda one: to.print(line_of(one, wanted.within), soft_wrap=True),
    )
    show(result, to)
    slower = [point for point in result.points if rule and point.loss >= rule.percent / 100]
    if form != "table":
        say(document_of_pair(result, slower).write(form))
    if result.status == "interrupted":
        raise Interrupted("interrupted: the results above are from the completed pairs")
    for point in slower:
        say(f"regression: {point.point}: {percent(point.loss)} slower", stderr=form != "table")
    if slower:
        return EXIT_REGRESSION
    return EXIT_FAILED if any(point.verdict == "not measured" for point in result.points) else 0


def parse_within(text: str) -> float:
    """Return a percentage such as `2%` as a fraction; raise UserError for any other text."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UserError(f"--within {text!r} must be a percentage such as 2%, more than 0 % and less than 100 %")
    return share
