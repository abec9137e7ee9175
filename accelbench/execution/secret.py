"""The secret by which the ranks of a run tell each other from strangers, as every rank finds it.

It is given by a variable, as `accelbench launch` does, or kept in a file of the user's, which hosts with a common home
share. Whoever can read neither cannot take part.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from accelbench.errors import UserError
from accelbench.profiling.files import open_regular

SECRET = "ACCELBENCH_SECRET"
"""The variable that gives the secret to all ranks of a run."""
LEAST_CHARACTERS = 16
"""The length below which a secret could be found by trying."""
ADVICE = f"set {SECRET} to the same random text for all ranks, as 'openssl rand -hex 32' prints"


def take_secret() -> str:
    """Return the secret of this run, and take it out of the variables, which all that this process starts inherits."""
    found = find_secret(os.environ)
    os.environ.pop(SECRET, None)
    return found


def find_secret(variables: Mapping[str, str]) -> str:
    """Return the secret that the variables give, or else the one that is kept for this user, drawn at first need.

    UserError for one that is short, or that others could read, or where there is no place to keep one.
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
            _draw(file)
        return _read(file)
    except OSError as error:
        raise UserError(f"the ranks' secret cannot be kept in {file} ({error.strerror}): {ADVICE}") from None


def _draw(file: Path) -> None:
    """Draw a secret and put it there in one step; another rank may have been first, and then its own stays."""
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
            raise UserError(
                f"{file} is not a file that you alone may read, so that it keeps no secret: remove it, or {ADVICE}"
            )
        found = kept.read(1 << 10).decode("ascii", errors="replace").strip()
    if len(found) < LEAST_CHARACTERS:
        raise UserError(f"{file} holds no secret of {LEAST_CHARACTERS} characters: remove it, or {ADVICE}")
    return found
