"""Bundles that are written to a URL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from accelbench.remote_folder import RemoteFolder


def upload_pack(url: str, write: Callable[[Path], list[Path]]) -> list[tuple[str, int]]:
    """Upload the bundle that `write` writes to a local path, and return URL and size in bytes of each file.

    The URL is a file's if its last part contains `.tar`, as bundles in folders must, and otherwise a folder's. Raises
    UserError if a file cannot be written or exists.
    """
    folder, _, name = url.rstrip("/").rpartition("/")
    is_file = ".tar" in name and "://" in folder
    remote = RemoteFolder(folder if is_file else url)
    with TemporaryDirectory(prefix="accelbench-") as scratch:
        files = write(Path(scratch, name) if is_file else Path(scratch))
        return [(remote.upload(file, file.name), file.stat().st_size) for file in files]
