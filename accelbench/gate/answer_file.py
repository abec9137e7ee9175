"""File of the gate's answer in a folder or at a URL, which `accelbench fleet` reads."""

from __future__ import annotations

import re
from pathlib import Path

from accelbench.errors import UserError, reason_of
from accelbench.gate.answer import GateAnswer
from accelbench.profiling.files import replace_file
from accelbench.remote_folder import RemoteFolder, local_name

SUFFIX = ".json"


class AnswerFile:
    """Destination of an answer: a folder, in which the file is named by node and answer, or a file `*.json`.

    Raises UserError if the protocol of a URL is unknown or its package is missing.
    """

    def __init__(self, destination: str) -> None:
        self._path = local_name(destination)
        self._remote = RemoteFolder(destination) if self._path is None else None
        self._is_file = destination.endswith(SUFFIX)

    def write(self, answer: GateAnswer) -> None:
        """Write the answer; raise UserError if that is not possible."""
        node = re.sub(r"[^\w.-]+", "-", answer.node).lstrip(".-")
        name = "" if self._is_file else "-".join(filter(None, [node, answer.id])) + SUFFIX
        content = answer.model_dump_json(indent=1).encode() + b"\n"
        if self._remote:
            self._remote.write(content, name)
        elif self._path:
            path = Path(self._path, name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, lambda new: new.write_bytes(content))
            except OSError as error:
                raise UserError(f"cannot write {path}: {reason_of(error)}") from error
