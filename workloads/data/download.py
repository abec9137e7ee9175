"""A file over HTTP, continued where an earlier attempt broke off."""

from __future__ import annotations

import requests

from workloads.data.cache import DataError, sha256_of
from workloads.data.sources import File
from workloads.data.unpack import Progress

CHUNK = 1 << 16
"""The bytes written at a time, and lost at most when a connection breaks."""
TIMEOUT_S = (10, 60)
"""The longest wait for a connection, and between two pieces of the answer."""


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
    headers = {"Accept-Encoding": "identity"}  # bytes as they are in the file, so that they can be counted
    if done:
        headers["Range"] = f"bytes={done}-"
    with requests.get(file.url, headers=headers, stream=True, timeout=TIMEOUT_S) as answer:
        if done and answer.status_code == requests.codes.requested_range_not_satisfiable:
            return  # there is no more: the checksum tells whether this is all
        answer.raise_for_status()
        if answer.status_code != requests.codes.partial_content:
            done = 0  # a server that knows no ranges begins again
        length = answer.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        try:
            with file.part.open("ab" if done else "wb") as part:
                for piece in answer.iter_content(CHUNK):
                    part.write(piece)
                    done += len(piece)
                    progress(file.path.name, done, total)
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
            raise _broke_off(file, name, done, total) from error
    if total is not None and done < total:  # older versions of urllib3 end silently
        raise _broke_off(file, name, done, total)


def _broke_off(file: File, name: str, done: int, total: int | None) -> DataError:
    of = f" of {total / 1e6:.1f}" if total else ""
    return DataError(
        f"the download of {file.url} broke off at {done / 1e6:.1f}{of} MB: 'accelbench data fetch {name}' continues it"
    )
