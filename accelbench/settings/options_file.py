"""Options file of a folder: `accelbench.toml`, or the table `tool.accelbench` of `pyproject.toml`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from accelbench.errors import UserError, reason_of
from accelbench.profiling.text import suggest

FILES = {"accelbench.toml": (), "pyproject.toml": ("tool", "accelbench")}
"""File names with the path of the table in each; the first file with options is used."""


OWN_TABLE = re.compile(rb"""tool['"]?\s*\.\s*['"]?accelbench""")

ALLOWED_IN_FILE = frozenset(
    [
        "backend",
        "ceilings",
        "cores",
        "device",
        "include-noisy",
        "host-profile",
        "max-seconds",
        "new-ceilings",
        "no-ceilings",
        "param",
        "patience",
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
"""Options that a file may set: they select measurements and output. Options that delete, write to a path, set
environment variables or trust a network are only allowed on the command line."""


def read_settings(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the file name and its options by command; both empty if no file has options.

    Raises UserError for invalid TOML.
    """
    for name, tables in FILES.items():
        if not (folder / name).exists():
            continue
        from accelbench.profiling.files import read_regular, read_toml  # imported late: most folders have no such file

        try:
            found: Any = read_toml(folder / name)
        except (OSError, ValueError) as error:
            reason = f"{name} cannot be read: {reason_of(error)}"
            of_other_tools = tables and isinstance(error, ValueError)
            if not of_other_tools or OWN_TABLE.search(read_regular(folder / name, follow_link=True)):
                raise UserError(reason) from None
            from accelbench.output.console import say

            say(f"accelbench: {reason}", stderr=True)
            continue
        for number, table in enumerate(tables, start=1):
            found = found.get(table, {})
            if not isinstance(found, Mapping):
                raise UserError(f"{name}: {'.'.join(tables[:number])} must be a table keyed by command name")
        if found:
            _refuse_others_file(folder / name)
            return name, dict(found)
    return "", {}


def _refuse_others_file(path: Path) -> None:
    """Raise UserError for a file that belongs to neither this user nor root."""
    owner = path.stat().st_uid
    if owner not in (0, os.geteuid()):
        raise UserError(f"{path.name} belongs to user {owner}: copy it to your own file, or run in another folder")


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
        if option not in ALLOWED_IN_FILE:
            raise UserError(f"{file}: {name}.{option} is not allowed in a file: use the command line")
        param = known[option]
        values = value if param.multiple and isinstance(value, list) else [value]
        if isinstance(param.type, click.types.BoolParamType):
            if not isinstance(value, bool):
                raise UserError(f"{file}: {name}.{option} must be true or false, not {value!r}")
            found[str(param.name)] = value
        elif all(isinstance(each, str | int | float) and not isinstance(each, bool) for each in values):
            texts = [str(each) for each in values]  # parsed as on the command line
            found[str(param.name)] = texts if param.multiple else texts[0]
        else:
            raise UserError(f"{file}: {name}.{option} must be a text or number, not {value!r}")
    return found
