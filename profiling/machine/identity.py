"""Names that identify a user or a host, and their removal from texts.

The home folder becomes `~`, the user's name in a path `user`, and the host's name `localhost`.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

ORDINARY = frozenset(
    {"admin", "build", "cpu", "gpu", "home", "host", "jovyan", "localhost", "node", "root", "runner", "tpu", "user"}
)
"""Common names that do not identify a user or host and occur in ordinary text."""
MIN_LETTERS = 3
"""Minimum length of a name to remove; shorter names would match too many ordinary words."""
HOME, USER, HOST = "~", "user", "localhost"
"""Replacements of the home folder, the user and the host."""


@dataclass(frozen=True)
class Identity:
    """Home folders, user names and host names that identify where a process runs."""

    homes: frozenset[str]
    users: frozenset[str]
    hosts: frozenset[str]

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], str]]:
        """Return the patterns to replace, each with its replacement; the longest names first."""
        homes = _any(home.rstrip("/") for home in self.homes)
        users, hosts = _any(identifying(self.users)), _any(identifying(self.hosts))
        found = [
            (rf"(?<!\w){homes}(?![\w-]|\.\w)", HOME, homes),
            (rf"(?<=[/\\]){users}(?![\w-]|\.\w)|(?<!\w){users}(?=@)", USER, users),
            (rf"(?<![\w-]){hosts}(?![\w-])", HOST, hosts),
        ]
        return [(re.compile(pattern), word) for pattern, word, names in found if names]

    def anonymize(self, text: str) -> str:
        """Return the text with these names replaced."""
        for pattern, word in self._patterns:
            text = pattern.sub(word, text)
        return text

    def anonymize_json(self, text: str, indent: int | None = None) -> str:
        """Return JSON with these names replaced in its strings, except in single words, which are terms of the schema.

        JSON without these names is returned unchanged.
        """
        if not any(pattern.search(text) for pattern, _ in self._patterns):
            return text
        data = map_strings(
            json.loads(text), lambda found: self.anonymize(found) if re.search(r"[\s/\\@]", found) else found
        )
        return json.dumps(data, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))


def map_strings(data: Any, change: Callable[[str], str]) -> Any:
    """Return decoded JSON with `change` applied to each string value, but not to keys."""
    if isinstance(data, str):
        return change(data)
    if isinstance(data, dict):
        return {name: map_strings(value, change) for name, value in data.items()}
    return [map_strings(value, change) for value in data] if isinstance(data, list) else data


def identifying(names: Iterable[str]) -> list[str]:
    """Return the names that identify a user or host: long enough and not common."""
    return [name for name in names if len(name) >= MIN_LETTERS and name.lower() not in ORDINARY]


def _any(names: Iterable[str]) -> str:
    """Return a pattern that matches any of the names; an empty string without names."""
    ordered = sorted(filter(None, names), key=len, reverse=True)
    return f"(?:{'|'.join(map(re.escape, ordered))})" if ordered else ""


@cache
def identity_here() -> Identity:
    """Return the names of this process's user and host, from the system and `os.environ`."""
    return find_identity(os.environ)


def find_identity(environment: Mapping[str, str]) -> Identity:
    """Return the names of this process's user and host, from the system and the given environment variables."""
    homes = {environment.get("HOME", "")}
    users = {environment.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER")}
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:  # a container's user may have no name
        pass
    else:
        homes.add(entry.pw_dir)
        users.add(entry.pw_name)
    homes |= {str(Path(home).resolve()) for home in homes if home}
    hosts = {socket.gethostname(), *(environment.get(name, "") for name in ("HOSTNAME", "SLURMD_NODENAME"))}
    hosts |= {host.partition(".")[0] for host in hosts}
    return Identity(frozenset(homes - {"", "/"}), frozenset(users - {""}), frozenset(hosts - {""}))
