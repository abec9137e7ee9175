"""Options file of a folder: `accelbench.toml`, or the table `tool.accelbench` of `pyproject.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from accelbench.errors import UserError
from accelbench.profiling.near_misses import suggest

FILES = {"accelbench.toml": (), "pyproject.toml": ("tool", "accelbench")}
"""File names with the path of the table in each; the first file with options is used."""


def read_settings(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the file name and its options by command; both empty if no file has options.

    Raises UserError for invalid TOML.
    """
    for name, tables in FILES.items():
        if not (folder / name).exists():
            continue
        import tomllib  # every command begins here, and few folders have such a file

        try:
            found = tomllib.loads((folder / name).read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{name} cannot be read: {error}") from None
        try:
            for table in tables:
                found = found.get(table, {})
            if found:
                return name, dict(found)
        except (AttributeError, TypeError):
            raise UserError(f"{name}: {'.'.join(tables)} must be a table keyed by command name") from None
    return "", {}


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
        param = known[option]
        values = value if param.multiple and isinstance(value, list) else [value]
        if not all(isinstance(each, str | int | float) for each in values):
            raise UserError(f"{file}: {name}.{option} is {value!r}: write one word, number or truth value")
        found[str(param.name)] = values if param.multiple else value
    return found
