"""The command line: `accelbench` and `python -m accelbench`.

Exit status: 0 all measured and verified, but for what was skipped; 1 a point failed, nothing at all was measured, the
run broke off, or data is damaged; 2 wrong use, something unknown or a device that is not there; 3 a regression found
by `--fail-on` of `compare` or `pair`; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import click

from accelbench import __version__, commands
from accelbench.errors import DataDamaged, Interrupted, RunBroken, UserError, damage_met
from accelbench.profiling.text import suggest
from accelbench.settings.options_file import defaults, read_settings

ORDER = (
    *("doctor", "list", "run", "resume", "report", "runs", "compare", "pair", "history", "reproduce"),
    *("cores", "launch", "tensorboard", "data", "peaks", "pack", "export", "contribute", "gpu-day", "schema"),
)
"""The commands in the order in which one uses them."""
EXAMPLES = """\b
Examples:
  accelbench run                                  suite quick on the best device here
  accelbench run matmul --param n=4096            one benchmark
  accelbench run --suite kimm2021-small           a paper's trainings, in minutes
  accelbench run cnn-mnist --trace                with a trace for TensorBoard
  accelbench compare runs/A runs/B                what became slower
  accelbench reproduce kimm2021 --small           does the paper hold here?
"""
OTHER_WORDS = {
    "bench": "run",
    "benchmark": "run",
    "measure": "run",
    "show": "report",
    "diff": "compare",
    "env": "doctor",
}
"""The words that other tools use, and the command of ours that does the same."""


class Commands(click.Group):
    """The files of `accelbench/commands`: each is the command of its name, and is imported only when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands in the order in which one uses them, those not named there at the end."""
        names = sorted(found.name.replace("_", "-") for found in iter_modules(commands.__path__))
        return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return what the command's file declares as `command`; None for a name that no file has."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = import_module(f"{commands.__name__}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; of a word that is none, say which was probably meant."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            other = OTHER_WORDS.get(args[0])
            meant = f": did you mean {other!r}?" if other else suggest(args[0], self.list_commands(ctx))
            raise UserError(f"no command is called {args[0]!r}{meant}")
        name, command, rest = super().resolve_command(ctx, args)
        if name and command and not ctx.resilient_parsing:  # which is that of a shell that completes a word
            ctx.default_map = {name: self._settings(ctx, command, name)}
        return name, command, rest

    def _settings(self, ctx: click.Context, command: click.Command, name: str) -> dict[str, Any]:
        """Return the options that a file in this folder sets for the command, and tell them: they change figures."""
        file, settings = read_settings(Path())
        if unknown := sorted(set(settings) - set(self.list_commands(ctx))):
            raise UserError(f"{file}: no command is called {unknown[0]!r}{suggest(unknown[0], ORDER)}")
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
    """Measure how fast this machine is for GPU computing and deep learning, and what holds it back."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a locale that lacks µ or × costs a character, never the run
    with damage_met() as damage:
        status = _run(argv)
    for reason in damage:
        status = status or DataDamaged.exit_status
        _complain(reason, status)
    return status


def _run(argv: list[str] | None) -> int:
    try:
        status = cli.main(argv, prog_name="accelbench", standalone_mode=False) or 0
        sys.stdout.flush()  # an output that fits the buffer meets its reader here
        return status
    except click.NoSuchOption as error:
        return _complain(f"{error.format_message()}{_as_axis(error.option_name)}", UserError.exit_status)
    except click.ClickException as error:
        return _complain(error.format_message(), UserError.exit_status)
    except UserError as error:
        return _complain(str(error), error.exit_status)
    except (KeyboardInterrupt, click.Abort):
        return _complain("interrupted", Interrupted.exit_status)
    except BrokenPipeError:
        # The reader (head, less) has seen enough; keep Python from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1  # as click does where the pipe breaks in a command
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package == "accelbench":  # a fault of the installation
            raise
        lacks = f"this Python ({sys.executable}) lacks the package {package}, which accelbench needs"
        return _complain(f"{lacks}: pip install '.[cpu]' in its folder brings all", UserError.exit_status)
    except OSError as error:
        return _complain(f"the system refused it: {error}", RunBroken.exit_status)


def _as_axis(option: str) -> str:
    """Return how the value of an axis is given, where the unknown option is called as an axis is."""
    from accelbench.execution.plan import discover

    axis = option.lstrip("-")
    is_axis = any(axis in benchmark.axis_names for benchmark in discover().values())
    return f" It is an axis of benchmarks: --param {axis}=VALUE gives its values." if is_axis else ""


def _complain(message: str, status: int) -> int:
    from accelbench.output.plain_text import one_line

    print(f"accelbench: {one_line(message)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
