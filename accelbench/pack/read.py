"""Reading of runs from bundles.

Bundles are untrusted input: only regular files are extracted, by code of this module, to a directory in the user's
cache that is named by the bundle's digest. Links, devices and paths outside of that directory raise `UserError`.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import shutil
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO

import platformdirs

from accelbench.errors import UserError, reason_of
from accelbench.execution.store import RunStore
from accelbench.pack import CHUNK, PART, written_parts
from accelbench.profiling.files import open_regular
from accelbench.profiling.text import format_bytes

MOST_BYTES, MOST_FILES = 8 << 30, 20_000
"""Maximum size and number of files of an unpacked bundle: several tens of runs with traces."""
MAX_HEADER_BYTES = 1 << 16
"""Maximum size of an extended header (for a long name), which tarfile reads into memory."""
MAX_DICTIONARY_BYTES = 256 << 20
"""Maximum memory of the decompressor; the largest preset of xz needs 65 MiB."""
MAX_DEPTH = 32
"""Maximum depth of nested directories."""
MAX_PARTS = 10_000
"""Maximum number of parts of a bundle."""


def find_pack(name: str) -> tuple[Path, str | None] | None:
    """Return the bundle and the run that `PACK` or `PACK:RUN` names; None if there is no such bundle."""
    for pack, run in ((name, None), (name.rpartition(":")[0], name.rpartition(":")[2])):
        if pack and (os.path.isfile(pack) or written_parts(Path(pack))):
            return Path(pack), run
    return None


def open_packed(pack: Path, run: str | None = None) -> RunStore:
    """Return the run with that name or id in a bundle (default: its only run), unpacked in the user's cache.

    Raises `UserError` for a corrupt, incomplete or invalid bundle, and for a missing or ambiguous run.
    """
    folder = unpack(pack)
    runs = {path.parent.name: RunStore(path.parent) for path in sorted(folder.glob("*/run.json"))}
    if not runs:
        raise UserError(f"{pack} contains no run")
    if run is None and len(runs) == 1:
        return next(iter(runs.values()))
    for name, store in runs.items():
        if run in (name, store.info().run_id):
            return store
    problem = f"{pack} contains {len(runs)} runs" if run is None else f"{pack} contains no run {run!r}"
    raise UserError(f"{problem}: choose one of {', '.join(f'{pack}:{name}' for name in runs)}")


def unpack(pack: Path) -> Path:
    """Return the directory in the user's cache with the bundle's contents, unpacked if it is not there yet."""
    try:
        parts = _all_parts(pack)
        folder = platformdirs.user_cache_path("accelbench") / "packs" / _digest(parts)
        _refuse_shared(folder.parent)
        if not folder.is_dir():
            for place in (folder.parent.parent, folder.parent):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
            with TemporaryDirectory(dir=folder.parent, prefix=".unpacking-") as scratch:
                whole = Path(scratch, "whole")
                whole.mkdir()
                _extract(pack, parts, whole)
                if not folder.is_dir():  # another process may have been faster
                    whole.replace(folder)
    except OSError as error:
        raise UserError(f"cannot unpack {pack}: {reason_of(error)}") from error
    return folder


def _refuse_shared(cache: Path) -> None:
    """Raise `UserError` for a cache in which another user may have put what a pack should hold."""
    for place in (cache.parent, cache):
        with suppress(FileNotFoundError):
            facts = place.stat()
            if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
                raise UserError(f"others can write to the cache {place}: chmod go-w, or set XDG_CACHE_HOME")


def _all_parts(pack: Path) -> list[Path]:
    """Return all part files of the bundle; `pack` may be any of them, or the name without the part's suffix."""
    named = PART.fullmatch(pack.name)
    found = written_parts(pack) if not pack.exists() else []
    if found:
        named = PART.fullmatch(found[0].name)
    if named is None:
        return [pack]
    count = int(named["count"][:9])
    if count > MAX_PARTS:
        raise UserError(f"{pack} is one of {count:,} parts: the maximum is {MAX_PARTS:,}")
    parts = [pack.with_name(f"{named['pack']}.part{number}of{count}") for number in range(1, count + 1)]
    if missing := [part.name for part in parts if not part.is_file()]:
        raise UserError(f"{pack} is one of {count} parts; missing: {', '.join(missing)}")
    return parts


def _digest(parts: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        with open_regular(part, follow_link=True) as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    return digest.hexdigest()[:32]


class _Joined(io.RawIOBase):
    """Reader of the concatenated parts of a bundle."""

    def __init__(self, parts: Sequence[Path]) -> None:
        self._files = [open_regular(part, follow_link=True) for part in parts]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while self._files:
            if read := self._files[0].readinto(buffer):
                return read
            self._files.pop(0).close()
        return 0

    def close(self) -> None:
        for file in self._files:
            file.close()
        super().close()


class _Decompressed(io.RawIOBase):
    """Reader of one xz stream with limited memory; raises ValueError for data after its end."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_DICTIONARY_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._decoder.eof:
            data = self._source.read(CHUNK) if self._decoder.needs_input else b""
            if self._decoder.needs_input and not data:
                raise EOFError("unexpected end of file")
            if piece := self._decoder.decompress(data, len(buffer)):
                buffer[: len(piece)] = piece
                return len(piece)
        if self._decoder.unused_data or self._source.read(1):
            raise ValueError("data after the end of the archive")
        return 0


class _Member(tarfile.TarInfo):
    """Archive member with a limited size of its extended header."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        # tarfile calls this overridable method before it reads the extended header.
        if self.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE) and self.size > MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"extended header of {self.size:,} bytes")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return member


def _extract(pack: Path, parts: Sequence[Path], folder: Path) -> None:
    """Extract the bundle's regular files to the folder; raise `UserError` if it is corrupt or has other members."""
    size = files = 0
    try:
        with (
            io.BufferedReader(_Joined(parts), CHUNK) as joined,
            io.BufferedReader(_Decompressed(joined), CHUNK) as packed,
            tarfile.open(fileobj=packed, mode="r|", tarinfo=_Member) as archive,
        ):
            for member in archive:
                size, files = size + member.size, files + 1
                _refuse(pack, member, size, files)
                content = archive.extractfile(member)
                if content is None:  # a directory
                    continue
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    shutil.copyfileobj(content, file, CHUNK)
            while packed.read(CHUNK):  # verifies the checksum at the end
                pass
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, RecursionError) as error:
        raise UserError(f"{pack} is corrupt or not a bundle: {error}") from error
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise UserError(f"{pack} is corrupt: it contains {Path(str(error.filename)).name} twice") from error


def _refuse(pack: Path, member: tarfile.TarInfo, size: int, files: int) -> None:
    """Raise `UserError` for a member that a run cannot have, and above the limits on size and number of files."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise UserError(f"{pack} is not a bundle of runs: path {member.name!r} is outside of its directory")
    if len(name.parts) > MAX_DEPTH:
        raise UserError(f"{pack} is not a bundle of runs: directories are nested more than {MAX_DEPTH} deep")
    if not (member.isreg() or member.isdir()) or member.size < 0:
        raise UserError(f"{pack} is not a bundle of runs: {member.name!r} is neither a file nor a directory")
    if size > MOST_BYTES or files > MOST_FILES:
        most = f"{format_bytes(MOST_BYTES)} or {MOST_FILES:,} files"
        raise UserError(f"{pack} exceeds {most}: if you trust it, unpack it with tar and give the directory")
