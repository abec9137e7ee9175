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
"""Names that tell nobody from others, and stand in texts for other things."""
LEAST_LETTERS = 3
"""The letters of the shortest name that is looked for: shorter ones stand in too many words' places."""
HOME, USER, HOST = "~", "user", "localhost"
"""The words that stand for the home folder, the user and the host."""


@dataclass(frozen=True)
class Identity:
    """The home folders, the user's names and the host's names by which a process may be told."""

    homes: frozenset[str]
    users: frozenset[str]
    hosts: frozenset[str]

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], str]]:
        """Return what is looked for, and the word that takes its place; the longest names first."""
        homes = _any(home.rstrip("/") for home in self.homes)
        users, hosts = _any(telling(self.users)), _any(telling(self.hosts))
        found = [
            (rf"(?<!\w){homes}(?![\w-]|\.\w)", HOME, homes),
            (rf"(?<=[/\\]){users}(?![\w-]|\.\w)|(?<!\w){users}(?=@)", USER, users),
            (rf"(?<![\w-]){hosts}(?![\w-])", HOST, hosts),
        ]
        return [(re.compile(pattern), word) for pattern, word, names in found if names]

    def out_of(self, text: str) -> str:
        """Return the text without these names."""
        for pattern, word in self._patterns:
            text = pattern.sub(word, text)
        return text

    def out_of_json(self, text: str, indent: int | None = None) -> str:
        """Return JSON whose texts are without these names; a lone word is one of the schema's own, and is left.

        Where no name is in it, it is the very same text.
        """
        if not any(pattern.search(text) for pattern, _ in self._patterns):
            return text
        data = in_texts(json.loads(text), lambda found: self.out_of(found) if re.search(r"[\s/\\@]", found) else found)
        return json.dumps(data, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))


def in_texts(data: Any, change: Callable[[str], str]) -> Any:
    """Return what was read from JSON with each of its texts changed, but not the names of its fields."""
    if isinstance(data, str):
        return change(data)
    if isinstance(data, dict):
        return {name: in_texts(value, change) for name, value in data.items()}
    return [in_texts(value, change) for value in data] if isinstance(data, list) else data


def telling(names: Iterable[str]) -> list[str]:
    """Return those of the names that tell somebody from others."""
    return [name for name in names if len(name) >= LEAST_LETTERS and name.lower() not in ORDINARY]


def _any(names: Iterable[str]) -> str:
    """Return the pattern of any of the names; an empty one where there is none."""
    ordered = sorted(filter(None, names), key=len, reverse=True)
    return f"(?:{'|'.join(map(re.escape, ordered))})" if ordered else ""


@cache
def identity_here() -> Identity:
    """Return the names of this process's user and host, by the system and by the environment."""
    return find_identity(os.environ)


def find_identity(environment: Mapping[str, str]) -> Identity:
    """Return the names of this process's user and host, by the system and by that environment."""
    homes = {environment.get("HOME", "")}
    users = {environment.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER")}
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:  # a container may run as a user who has no name
        pass
    else:
        homes.add(entry.pw_dir)
        users.add(entry.pw_name)
    homes |= {str(Path(home).resolve()) for home in homes if home}
    hosts = {socket.gethostname(), *(environment.get(name, "") for name in ("HOSTNAME", "SLURMD_NODENAME"))}
    hosts |= {host.partition(".")[0] for host in hosts}
    return Identity(frozenset(homes - {"", "/"}), frozenset(users - {""}), frozenset(hosts - {""}))
