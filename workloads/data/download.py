"""A file over HTTP, continued where an earlier attempt broke off; neither longer nor slower than it has to be."""

from __future__ import annotations

import time
from collections.abc import Iterator

import requests
from urllib3.exceptions import HTTPError

from workloads.data.cache import DataError, sha256_of
from workloads.data.sources import File
from workloads.data.unpack import Progress

CHUNK = 1 << 16
"""The most bytes written at a time."""
TIMEOUT_S = (10, 60)
"""The longest wait for a connection, and for anything of the answer."""
SLOWEST = 1_000
"""The fewest bytes a second, over `RATE_S` seconds: a server that trickles would hold the set's lock for days."""
RATE_S = 60.0


def download(file: File, name: str, progress: Progress) -> None:
    """Fetch the file of the data set `name`; nothing but the whole file with the right checksum gets its name.

    What has arrived lies beside it as `.part`, and is continued. `DataError` if there is no whole file at the end.
    """
    continued = _begun(file) > 0
    try:
        _transfer(file, name, progress)
    except requests.RequestException as error:
        answer = error.response
        cause = type(error).__name__ if answer is None else f"{answer.status_code} {answer.reason}"
        raise DataError(
            f"cannot download {file.url} ({cause}): fetch it where there is a network, then "
            f"'accelbench data fetch {name} --from FILE'"
        ) from error
    found = sha256_of(file.part)
    if found == file.sha256:
        file.part.replace(file.path)
        return
    file.part.unlink()
    if continued:  # the file may have changed between the two halves
        download(file, name, progress)
        return
    raise DataError(
        f"what {file.url} sent is not the file it should be: its SHA-256 is {found}, expected {file.sha256}; it was "
        f"not kept"
    )


def _begun(file: File) -> int:
    return file.part.stat().st_size if file.part.exists() else 0


def _transfer(file: File, name: str, progress: Progress) -> None:
    done = _begun(file)
    if done >= file.most:
        return  # there is no more: the checksum tells whether this is all
    headers = {"Accept-Encoding": "identity"}  # bytes as they are in the file, so that they can be counted
    if done:
        headers["Range"] = f"bytes={done}-"
    with requests.get(file.url, headers=headers, stream=True, timeout=TIMEOUT_S) as answer:
        if done and answer.status_code == requests.codes.requested_range_not_satisfiable:
            return
        answer.raise_for_status()
        if answer.status_code != requests.codes.partial_content:
            done = 0  # a server that knows no ranges begins again
        length = answer.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        _refuse_more(file, total or 0)
        try:
            with file.part.open("ab" if done else "wb") as part:
                for piece in _pieces(answer):
                    _refuse_more(file, done + len(piece))
                    part.write(piece)
                    done += len(piece)
                    progress(file.path.name, done, total)
        except (HTTPError, _TooSlowError) as error:
            raise _broke_off(file, name, done, total, error) from error
    if total is not None and done < total:  # older versions of urllib3 end silently
        raise _broke_off(file, name, done, total)


class _TooSlowError(Exception):
    """The server sends less than `SLOWEST`; the message is an aside that says so."""


def _pieces(answer: requests.Response) -> Iterator[bytes]:
    """Yield what has arrived, as it arrives: a read that waits for a full buffer never sees a trickle."""
    begun, arrived = time.monotonic(), 0
    while piece := answer.raw.read1(CHUNK, decode_content=False):
        yield piece
        arrived += len(piece)
        seconds = time.monotonic() - begun
        if seconds > RATE_S:
            if arrived < SLOWEST * seconds:
                raise _TooSlowError(f", after {seconds:.0f} s with {arrived / seconds:,.0f} bytes a second")
            begun, arrived = time.monotonic(), 0


def _refuse_more(file: File, size: int) -> None:
    """Raise DataError if that many bytes are more than the file has, and keep none of them."""
    if size > file.most:
        file.part.unlink(missing_ok=True)
        limit = f"{file.most:,} bytes, the {'most that is taken' if file.size is None else 'size'} of {file.path.name}"
        raise DataError(f"{file.url} sends more than {limit}: it was cut off and not kept")


def _broke_off(file: File, name: str, done: int, total: int | None, why: Exception | None = None) -> DataError:
    of = f" of {total / 1e6:.1f}" if total else ""
    aside = str(why) if isinstance(why, _TooSlowError) else ""
    return DataError(
        f"the download of {file.url} broke off at {done / 1e6:.1f}{of} MB{aside}: 'accelbench data fetch {name}' "
        "continues it"
    )
