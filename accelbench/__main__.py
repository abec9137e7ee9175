"""Command line: `accelbench` and `python -m accelbench`.

Exit status: 0 all points measured and verified, or skipped; 1 a point failed, nothing was measured, the run was aborted
or data is corrupt; 2 usage error, unknown name or missing device; 3 regression found by `--fail-on` of `compare`,
`pair` or `fleet`, or odd node of `fleet`; 130 interrupted. `gate`: 0 fit, 1 unfit, 2 unknown. `soak`: 0 all results
right, 1 a wrong one, 2 not measurable.
"""

from __future__ import annotations

# ruff: noqa: E402
import os
import signal
import sys

_CTRL_C = signal.getsignal(signal.SIGINT)
_IS_PROGRAM = __name__ == "__main__" or os.path.basename(sys.argv[0]) == "accelbench"
if _IS_PROGRAM and _CTRL_C is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while modules are imported, Ctrl-C would end in a traceback

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from accelbench.errors import DataDamaged, Interrupted, RunBroken, UserError, collect_damage, missing_package

try:
    import click
except ModuleNotFoundError as error:
    if not _IS_PROGRAM:
        raise
    print(f"accelbench: {missing_package(str(error.name))}", file=sys.stderr)
    sys.exit(2)

from accelbench import __version__, commands
from accelbench.profiling.text import suggest
from accelbench.settings.options_file import defaults, read_settings

GROUPS = {
    "Measure": {
        "run": "Measure benchmarks or a suite",
        "resume": "Measure what is missing of an interrupted run",
        "diagnose": "Find what limits a training script",
        "cores": "Measure how many host cores a training needs",
        "launch": "Run in several processes, as the ranks of one run",
        "gpu-day": "Measure and test a GPU within a time budget",
    },
    "Results": {
        "report": "Print the table of runs and rebuild their pages",
        "runs": "List or delete the stored runs",
        "tensorboard": "Open traces and scalars in TensorBoard",
        "export": "Export a run for monitoring (OpenMetrics)",
        "pack": "Write runs into one bundle",
    },
    "Compare": {
        "compare": "Compare two sides of stored runs, point by point",
        "pair": "Compare two sides by alternating measurements",
        "history": "Show spread, drifts and changes over stored runs",
        "reproduce": "Evaluate the claims of a published study",
        "contribute": "Store a run's results as references",
    },
    "Machines and nodes": {
        "doctor": "Check devices, software and sources of noise",
        "peaks": "Show the vendors' peak rates with their sources",
        "gate": "Check whether this node is fit for the next job",
        "soak": "Load all devices, and check every result",
        "baseline": "Learn the limits of the gate from good nodes",
        "fleet": "Find the odd nodes of a fleet",
        "gather": "Check the runs of a job, join their records",
    },
    "Benchmarks and data": {
        "list": "List the benchmarks and suites",
        "data": "List, fetch and verify data sets",
        "schema": "Print the JSON Schema of stored records",
    },
}
"""Commands with their short descriptions by group, in the order of the help."""
ORDER = tuple(name for group in GROUPS.values() for name in group)
EXAMPLES = """\b
Examples:
  accelbench run                                  suite quick on the best available device
  accelbench run matmul --param n=4096            one benchmark
  accelbench run --suite kimm2021-small           small training workloads of a paper
  accelbench run cnn-mnist --trace                with a trace for TensorBoard
  accelbench compare runs/A runs/B                faster or slower, point by point
  accelbench reproduce kimm2021 --small           evaluate the claims of the paper
"""
SYNONYMS = {
    "bench": "run",
    "benchmark": "run",
    "measure": "run",
    "show": "report",
    "diff": "compare",
    "env": "doctor",
}
"""Command names of other tools, with the equivalent command."""


class Commands(click.Group):
    """Command group of the modules in `accelbench/commands`, each imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all command names in the order of `ORDER`, others at the end."""
        names = sorted(found.name.replace("_", "-") for found in iter_modules(commands.__path__))
        return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the `command` of the module with this name; None for an unknown name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = import_module(f"{commands.__name__}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by group; a module without a group comes last, with its own description."""
        others = [name for name in self.list_commands(ctx) if name not in ORDER]
        described = {name: command.get_short_help_str() for name in others if (command := self.get_command(ctx, name))}
        groups = {**GROUPS, "Others": described} if described else GROUPS
        width = max(map(len, (*ORDER, *others)))
        for title, group in groups.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in group.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; raise UserError with a suggestion for an unknown one."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            other = SYNONYMS.get(args[0])
            meant = f": did you mean {other!r}?" if other else suggest(args[0], self.list_commands(ctx))
            raise UserError(f"unknown command {args[0]!r}{meant}")
        name, command, rest = super().resolve_command(ctx, args)
        if name and command and not ctx.resilient_parsing:  # True during shell completion
            ctx.default_map = {name: self._settings(ctx, command, name)}
        return name, command, rest

    def _settings(self, ctx: click.Context, command: click.Command, name: str) -> dict[str, Any]:
        """Return and print the command's options from the options file in this folder; they change results."""
        file, settings = read_settings(Path())
        if unknown := sorted(set(settings) - set(self.list_commands(ctx))):
            raise UserError(f"{file}: unknown command {unknown[0]!r}{suggest(unknown[0], ORDER)}")
        if name not in settings:
            return {}
        found = defaults(file, name, command, settings[name])
        options = ", ".join(f"{option} = {value}" for option, value in settings[name].items())
        from accelbench.output.plain_text import one_line

        print(f"accelbench: {file} sets {one_line(options)}", file=sys.stderr)
        return found


@click.group(
    cls=Commands, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__)
def cli() -> None:
    """Measure the speed of this machine for GPU computing and deep learning, and what limits it."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    if _IS_PROGRAM:
        signal.signal(signal.SIGINT, _CTRL_C)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a locale without µ or × must not end the run
    with collect_damage() as damage:
        status = _run(argv)
    for reason in damage:
        status = status or DataDamaged.exit_status
        _print_error(reason, status)
    return status


def _run(argv: list[str] | None) -> int:
    try:
        status = cli.main(argv, prog_name="accelbench", standalone_mode=False) or 0
        sys.stdout.flush()  # raises BrokenPipeError here for output smaller than the buffer
        return status
    except click.NoSuchOption as error:
        return _print_error(f"{error.format_message()}{_as_axis(error.option_name)}", UserError.exit_status)
    except click.ClickException as error:
        return _print_error(error.format_message(), UserError.exit_status)
    except UserError as error:
        return _print_error(str(error), error.exit_status)
    except (KeyboardInterrupt, click.Abort):
        return _print_error("interrupted", Interrupted.exit_status)
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe; prevent an error message of Python at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1  # as click does
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package == "accelbench":  # a broken installation
            raise
        return _print_error(missing_package(package), UserError.exit_status)
    except (OSError, MemoryError, ImportError) as error:  # a library that does not fit into the memory limit
        return _print_error(f"system error: {error or type(error).__name__}", RunBroken.exit_status)


def _as_axis(option: str) -> str:
    """Return the advice for an unknown option that has the name of an axis; empty for other options."""
    from accelbench.execution.plan import discover

    axis = option.lstrip("-")
    is_axis = any(axis in benchmark.axis_names for benchmark in discover().values())
    return f" It is an axis: write --param {axis}=VALUE." if is_axis else ""


def _print_error(message: str, status: int) -> int:
    from accelbench.output.plain_text import one_line

    print(f"accelbench: {one_line(message)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
