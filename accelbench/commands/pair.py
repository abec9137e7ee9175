"""The command `pair`."""

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
"""The sampling time of one measurement: processes differ more than the samples of one, so many short ones tell more."""

MANY = 2
"""The rounds by the settings of both runs: more than one, so that they share the machine code of kernels."""


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.argument("benchmarks", nargs=-1, required=True, metavar="BENCHMARK...", shell_complete=complete_benchmark)
@click.option(
    "--a", "settings_a", multiple=True, metavar="SETTING", help="What only A gets: backend=, AXIS= or env:NAME=."
)
@click.option(
    "--b", "settings_b", multiple=True, metavar="SETTING", help="What only B gets: backend=, AXIS= or env:NAME=."
)
@DEVICE_OPTION
@click.option("--param", "params", multiple=True, metavar="AXIS=V1,V2", help="Values of an axis, for both sides.")
@BACKEND_OPTION
@click.option(
    "--within", default="1.5%", show_default=True, metavar="PERCENT", help="Measure until the interval is ± this."
)
@click.option(
    "--time-limit",
    type=BoundedNumber(1, MOST_SECONDS),
    default=300,
    show_default=True,
    help="Seconds for all of it: no block of turns is begun that would end later.",
)
@click.option("--fail-on", metavar="slower:3%", help="Exit with status 3 if a point of B is that much slower than A's.")
@OUT_OPTION
@FORMAT_OPTION
def command(
    a: str,
    b: str,
    benchmarks: tuple[str, ...],
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
    """Measure two sides in turns (A B B A …), and tell how fast B is against A.

    A machine drifts, and only neighbours in time can be compared on it: each measurement is a fresh process, and each
    ratio is of two that follow each other.

    A and B are each `.` (this Python), another python or the folder of a virtual environment, or an image:
    docker:IMAGE, podman:IMAGE, FILE.sif (with --device gpu it is given the GPUs). They may be the same, and differ by
    their settings:

    \b
      accelbench pair . ../new-numpy matmul             two versions of a library
      accelbench pair . . matmul --a impl=numba --b impl=vendor
      accelbench pair . . cnn-mnist --a backend=jax --b backend=torch
      accelbench pair . . matmul --b env:OPENBLAS_NUM_THREADS=1
    """
    from accelbench.compare.regression import parse_fail_on
    from accelbench.execution.plan import Choice
    from accelbench.execution.store import Settings
    from accelbench.output.console import say
    from accelbench.output.format import percent
    from accelbench.pair.pairing import PairingGoal, measure_pair
    from accelbench.pair.show import announce, document_of_pair, line_of, show
    from accelbench.pair.side import PairSide

    rule = parse_fail_on(fail_on) if fail_on else None
    side_a, side_b = PairSide.parse("A", a, settings_a), PairSide.parse("B", b, settings_b)
    wanted = PairingGoal(
        benchmarks=benchmarks,
        device=device,
        backend=backend,
        choices=[Choice.parse(param) for param in params],
        settings=Settings(max_seconds=SAMPLING_SECONDS, rounds=MANY, training_rounds=MANY),
        within=parse_within(within),
        time_limit_s=time_limit,
    )
    to = console(stderr=form != "table")
    result = measure_pair(
        out,
        side_a,
        side_b,
        wanted,
        begun=lambda path, courses: to.print(announce(path, side_a, side_b, courses, wanted), soft_wrap=True),
        tell=lambda course: to.print(line_of(course, wanted.within), soft_wrap=True),
    )
    show(result, to)
    slower = [point for point in result.points if rule and point.loss >= rule.percent / 100]
    if form != "table":
        say(document_of_pair(result, slower).write(form))
    if result.status == "interrupted":
        raise Interrupted("interrupted: the figures above are of the pairs until then")
    for point in slower:
        say(f"regression: {point.point}: {percent(point.loss)} slower", stderr=form != "table")
    if slower:
        return EXIT_REGRESSION
    return EXIT_FAILED if any(point.verdict == "not measured" for point in result.points) else 0


def parse_within(text: str) -> float:
    """Return the share that `2%` says; UserError for anything else."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UserError(f"--within {text!r} is not understood: write it as 2%, more than 0 % and less than 100 %")
    return share
