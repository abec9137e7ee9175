"""Options file of a folder: `accelbench.toml`, or the table `tool.accelbench` of `pyproject.toml`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from accelbench.errors import UserError
from accelbench.profiling.text import suggest

FILES = {"accelbench.toml": (), "pyproject.toml": ("tool", "accelbench")}
"""File names with the path of the table in each; the first file with options is used."""


MEASURED = frozenset(
    [
        "backend",
        "ceilings",
        "cores",
        "device",
        "even-if-disturbed",
        "host-profile",
        "max-seconds",
        "new-ceilings",
        "no-ceilings",
        "param",
        "quiet",
        "require-quiet",
        "rounds",
        "seed",
        "small",
        "strategy",
        "suite",
        "time-limit",
        "trace",
        "verbose",
    ]
)
"""The options that a file may set: they choose what is measured and printed. No file that lies in a folder deletes,
names an output, sets an environment variable or trusts a network."""


def read_settings(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the file name and its options by command; both empty if no file has options.

    Raises UserError for invalid TOML.
    """
    for name, tables in FILES.items():
        if not (folder / name).exists():
            continue
        from accelbench.profiling.files import read_toml  # every command begins here, and few folders have such a file

        try:
            found: Any = read_toml(folder / name)
        except (OSError, ValueError) as error:
            raise UserError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        for number, table in enumerate(tables, start=1):
            found = found.get(table, {})
            if not isinstance(found, Mapping):
                raise UserError(f"{name}: {'.'.join(tables[:number])} must be a table keyed by command name")
        if found:
            _refuse_others_file(folder / name)
            return name, dict(found)
    return "", {}


def _refuse_others_file(path: Path) -> None:
    """Raise UserError for a file of another user than this one and root."""
    owner = path.stat().st_uid
    if owner not in (0, os.geteuid()):
        raise UserError(f"{path.name} belongs to user {owner}: copy it, or run in another folder")


def defaults(file: str, name: str, command: click.Command, options: Any) -> dict[str, Any]:
    """Return the values of a command's parameters by their click names.

    `options` are named as on the command line, without the leading dashes. Raises UserError for an unknown option, for
    options that are not a table, and for a value of the wrong type.
    """
    if not isinstance(options, Mapping):
        raise UserError(f"{file}: {name} must be a table: write [{name}] and one option per line")
    known = {
        word.removeprefix("--"): param
        for param in command.params
        if isinstance(param, click.Option)
        for word in param.opts
        if word.startswith("--")
    }
    found: dict[str, Any] = {}
    for option, value in options.items():
        if option not in known:
            raise UserError(f"{file}: {name} has no option {option!r}{suggest(option, sorted(known))}")
        if option not in MEASURED:
            raise UserError(f"{file}: {name}.{option} is an option of the command line only")
        param = known[option]
        values = value if param.multiple and isinstance(value, list) else [value]
        if not all(isinstance(each, str | int | float) for each in values):
            raise UserError(f"{file}: {name}.{option} is {value!r}: write one word, number or truth value")
        found[str(param.name)] = values if param.multiple else value
    return found
