"""Shared secret that authenticates the ranks of a run.

The secret is in an environment variable, as set by `accelbench launch`, or in a file of the user that hosts with a
common home directory share.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from accelbench.errors import UserError
from accelbench.profiling.child import SECRET
from accelbench.profiling.files import open_regular

LEAST_CHARACTERS = 16
"""Minimum length of a secret in characters; a shorter one could be guessed."""
ADVICE = f"set {SECRET} to the same random text for all ranks, as 'openssl rand -hex 32' prints"


def take_secret() -> str:
    """Return the secret of this run, and remove it from the environment, which child processes inherit."""
    found = find_secret(os.environ)
    os.environ.pop(SECRET, None)
    return found


def find_secret(variables: Mapping[str, str]) -> str:
    """Return the secret from the environment variables, else from the user's file, which is created if missing.

    Raises UserError for a short secret, for a file that other users may access, and for a file that cannot be written.
    """
    given = variables.get(SECRET)
    if given is None:
        return _kept(_file(variables))
    if len(given) < LEAST_CHARACTERS:
        raise UserError(f"{SECRET} has fewer than {LEAST_CHARACTERS} characters: {ADVICE}")
    return given


def _file(variables: Mapping[str, str]) -> Path:
    state = variables.get("XDG_STATE_HOME", "")
    home = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return home / "accelbench" / "secret"


def _kept(file: Path) -> str:
    try:
        if not file.exists():
            _create(file)
        return _read(file)
    except OSError as error:
        raise UserError(f"cannot store the secret of the ranks in {file} ({error.strerror}): {ADVICE}") from None


def _create(file: Path) -> None:
    """Create the file with a random secret atomically; if another rank was first, its file is kept."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "w", encoding="ascii") as made:
            made.write(secrets.token_hex(32))
            made.flush()
            os.fsync(made.fileno())
        with suppress(FileExistsError):
            os.link(new, file)
    finally:
        new.unlink()


def _read(file: Path) -> str:
    with open_regular(file) as kept:
        facts = os.fstat(kept.fileno())
        if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise UserError(f"{file} is accessible to other users: remove it (a new secret is created), or {ADVICE}")
        found = kept.read(1 << 10).decode("ascii", errors="replace").strip()
    if len(found) < LEAST_CHARACTERS:
        raise UserError(f"{file} contains no secret of {LEAST_CHARACTERS} or more characters: remove it, or {ADVICE}")
    return found
