"""Downloads with pooch: SHA-256 verification, resumption, and limits on size and duration."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from accelbench.workloads.data.cache import DataError, cache_directory
from accelbench.workloads.data.sources import File

Progress = Callable[[str, int, "int | None"], None]
"""Called with the current activity, the bytes done so far, and the total (None: unknown)."""
TIMEOUT_S = (10, 30)
"""Time limits in seconds for a connection, and for the next bytes of a response."""
RETRIES = 1
"""A retry continues an interrupted download, and restarts one with a wrong SHA-256."""
SLOWEST = 1_000
"""Minimum rate in bytes per second over `RATE_S` seconds, because a fetch holds the lock of its data set."""
RATE_S = 60.0
CHUNK = 1024
"""Bytes per read. Large reads would hide a server that sends single bytes."""


def download(file: File, sha256: str, local: Path | None, progress: Progress) -> None:
    """Download or copy a file into the data folder, unless it is there with this SHA-256.

    `DataError` if the download fails or has another SHA-256.
    """
    import pooch
    from requests import RequestException

    def copy(url: str, output: str, _pooch: Any) -> None:
        assert local is not None
        shutil.copyfile(local, output)

    def fetch(url: str, output: str, _pooch: Any) -> None:
        with file.part.open("ab") as part:
            _transfer(file, part, progress)
        os.replace(file.part, output)

    pooch.get_logger().setLevel(logging.WARNING)
    folder = pooch.create(cache_directory(), base_url="", retry_if_failed=RETRIES if local is None else 0)
    folder.registry[file.name] = f"sha256:{sha256}"
    folder.urls[file.name] = file.url
    try:
        folder.fetch(file.name, downloader=fetch if local is None else copy)
    except RequestException as error:
        answer = error.response
        cause = type(error).__name__ if answer is None else f"{answer.status_code} {answer.reason}"
        if file.part.exists() and not file.part.stat().st_size:
            file.part.unlink()
        raise DataError(
            f"cannot download {file.url} ({cause}): repeat the command to continue, or download the file on a machine "
            "with network access and pass it with --from FILE"
        ) from error
    except ValueError as error:
        raise DataError(f"cannot use {local or file.url}: {error}") from error
    if local is not None:
        file.part.unlink(missing_ok=True)


def _transfer(file: File, part: IO[bytes], progress: Progress) -> None:
    """Append the missing bytes of the file to `part`."""
    from pooch import HTTPDownloader

    limits = _Limits(file, part, progress)

    def start_over(response: Any, **_: Any) -> None:
        if limits.begun and response.status_code in (200, 416):  # full content, or a range that cannot be continued
            part.truncate(0)
            limits.begun = limits.counted = 0

    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={limits.begun}-"} if limits.begun else {})
    hooks = {"response": start_over}
    HTTPDownloader(limits, CHUNK, timeout=TIMEOUT_S, headers=headers, hooks=hooks)(file.url, part, None)


class _Limits:
    """Progress bar for pooch that aborts a transfer that is too large or too slow."""

    def __init__(self, file: File, part: IO[bytes], progress: Progress) -> None:
        self.file, self.part, self.progress = file, part, progress
        self.total = 0  # pooch sets it to the length of the response, 0 if unknown
        self.begun = self.counted = part.tell()
        self.since = time.monotonic()

    def update(self, _: int) -> None:
        done, now = self.part.tell(), time.monotonic()
        total = self.begun + self.total if self.total else None
        if max(done, total or 0) > self.file.most:
            self.file.part.unlink()
            raise DataError(f"{self.file.url} sends more than {self.file.most:,} bytes: the download was discarded")
        if (seconds := now - self.since) > RATE_S:
            if done - self.counted < SLOWEST * seconds:
                raise DataError(f"{self.file.url} sends less than {SLOWEST:,} bytes/s: repeat the command to continue")
            self.counted, self.since = done, now
        self.progress(self.file.path.name, done, total)

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass
