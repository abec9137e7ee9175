"""The commands that a user types: each file here declares that of its name, as `command`; what they share is here.

The help of `accelbench` imports every file: at its top a file imports click and what is as light, and the rest where it
is used.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelbench.errors import UserError
from accelbench.export.document import FORMATS, DocumentFormat
from accelbench.profiling.devices import kinds
from accelbench.profiling.text import did_you_mean

if TYPE_CHECKING:
    from accelbench.execution.store import RunStore
    from accelbench.output.console import PlainConsole
    from accelbench.profiling.records.point import Device


class BoundedNumber(click.FloatRange):
    """Number within bounds; NaN is rejected."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; a usage error for anything else."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is no number", param, ctx)
        return number


class SuggestingChoice(click.Choice[str]):
    """Choice that suggests the nearest valid word in its error message."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return what is wrong, with the word that was probably meant."""
        wrong = super().get_invalid_choice_message(value, ctx)
        return wrong.removesuffix(".") + (did_you_mean(str(value), self.choices) or ".")


def complete_benchmark(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Return the benchmarks that a word on the command line may become."""
    from accelbench.execution.plan import discover

    return [name for name in discover() if name.startswith(begun)]


def complete_suite(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Return the suites that a word on the command line may become."""
    from accelbench.execution.suite import suite_names

    return [name for name in suite_names() if name.startswith(begun)]


def complete_run(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Return the stored runs that a word on the command line may become, by their paths."""
    from accelbench.execution.store import RUNS

    found = ["latest", *sorted(str(path.parent) for path in RUNS.glob("*/run.json"))]
    return [word for word in found if word.startswith(begun)]


DEVICE_OPTION = click.option(
    "--device",
    type=SuggestingChoice(["auto", *kinds()]),
    default="auto",
    show_default=True,
    help="Where to measure; auto: the best there is.",
)
BACKEND_OPTION = click.option(
    "--backend",
    type=SuggestingChoice(["tensorflow", "jax", "torch"]),
    help="The framework under Keras. Default: the first installed of them.",
)
OUT_OPTION = click.option(
    "--out", type=click.Path(path_type=Path), help="The run's directory, new or empty. Default: runs/<run-id>."
)

TRUSTED_NETWORK_OPTION = click.option(
    "--trusted-network",
    is_flag=True,
    help="Train by TensorFlow's servers (multiworker, parameter-server), though whoever reaches this host's ports can "
    "then read and write your files.",
)


FORMAT_OPTION = click.option(
    "--format",
    "form",
    type=SuggestingChoice(FORMATS),
    default="table",
    show_default=True,
    help="For people, or for programs; what is for programs is all that goes to standard output.",
)
QUIET_OPTION = click.option(
    "--quiet", is_flag=True, help="Print only how it ended, what failed, and where the report is."
)
VERBOSE_OPTION = click.option("--verbose", is_flag=True, help="Print all there is of each training, not a line.")


def console(stderr: bool = False, verbose: bool = False, quiet: bool = False) -> PlainConsole:
    """Return the console that a command prints to."""
    from accelbench.output.console import PlainConsole

    return PlainConsole(stderr=stderr, verbose=verbose, quiet=quiet)


def say_for_programs(store: RunStore, command: str, form: DocumentFormat) -> None:
    """Print what a command measured in a format for programs; nothing more where people have its table already."""
    if form == "table":
        return
    from accelbench.output.console import say
    from accelbench.report.run_document import document_of_runs
    from accelbench.report.stored_run import Run

    say(document_of_runs([Run.of(store)], command).write(form))


def find_device(name: str) -> Device:
    """Return the device that is meant by a word of `--device`; UserError where it is not there."""
    from accelbench.profiling import devices

    try:
        return devices.find_device(name)
    except devices.DeviceMissing as error:
        raise UserError(str(error)) from None
