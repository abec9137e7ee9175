"""Reading a run out of a pack.

A pack may come from anybody. So nothing but regular files is taken out of it, by this module's own code, into a folder
of the user's cache that is named after the pack's digest; a link, a device, or a name that leads out of it is refused.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO

import platformdirs

from accelbench.errors import UserError
from accelbench.execution.store import RunStore
from accelbench.pack import CHUNK, PART, written_parts
from accelbench.profiling.files import open_regular
from accelbench.profiling.text import format_bytes

MOST_BYTES, MOST_FILES = 8 << 30, 20_000
"""The most bytes and files that a pack may unpack to: some tens of runs with their traces."""
MAX_HEADER_BYTES = 1 << 16
"""Maximum size of an extended header, which holds a long name; tarfile reads it as a whole."""
MAX_DICTIONARY_BYTES = 256 << 20
"""Maximum memory of the decompressor; the largest preset of xz needs 65 MiB."""
MAX_DEPTH = 32
"""Maximum number of nested folders."""
MAX_PARTS = 10_000
"""Maximum number of files that a pack is cut into."""


def find_pack(name: str) -> tuple[Path, str | None] | None:
    """Return the pack, and the run of it, that `PACK` or `PACK:RUN` names; None if it names none that is there."""
    for pack, run in ((name, None), (name.rpartition(":")[0], name.rpartition(":")[2])):
        if pack and (os.path.isfile(pack) or written_parts(Path(pack))):
            return Path(pack), run
    return None


def open_packed(pack: Path, run: str | None = None) -> RunStore:
    """Return the run of that name or id in a pack, its only one by default, unpacked in the user's cache.

    `UserError` for a pack that is damaged or incomplete or holds what no run has, and where the choice is not clear.
    """
    folder = unpack(pack)
    runs = {path.parent.name: RunStore(path.parent) for path in sorted(folder.glob("*/run.json"))}
    if not runs:
        raise UserError(f"{pack} holds no run")
    if run is None and len(runs) == 1:
        return next(iter(runs.values()))
    for name, store in runs.items():
        if run in (name, store.info().run_id):
            return store
    problem = f"{pack} holds {len(runs)} runs" if run is None else f"{pack} holds no run {run!r}"
    raise UserError(f"{problem}: name one as {', '.join(f'{pack}:{name}' for name in runs)}")


def unpack(pack: Path) -> Path:
    """Return the folder in the user's cache that holds what is in the pack; a second time nothing is unpacked."""
    try:
        parts = _all_parts(pack)
        folder = platformdirs.user_cache_path("accelbench") / "packs" / _digest(parts)
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
        raise UserError(f"cannot unpack {pack}: {error.strerror or error}") from error
    return folder


def _all_parts(pack: Path) -> list[Path]:
    """Return the files that together are the pack, of which any one, or the name before the cut, may be named."""
    named = PART.fullmatch(pack.name)
    found = written_parts(pack) if not pack.exists() else []
    if found:
        named = PART.fullmatch(found[0].name)
    if named is None:
        return [pack]
    count = int(named["count"][:9])
    if count > MAX_PARTS:
        raise UserError(f"{pack} is one of {count:,} parts: at most {MAX_PARTS:,} are read")
    parts = [pack.with_name(f"{named['pack']}.part{number}of{count}") for number in range(1, count + 1)]
    if missing := [part.name for part in parts if not part.is_file()]:
        raise UserError(f"{pack} is one of {count} parts, and {', '.join(missing)} is not beside it")
    return parts


def _digest(parts: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        with open_regular(part, follow_link=True) as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    return digest.hexdigest()[:32]


class _Joined(io.RawIOBase):
    """The parts of a pack, read as the one file that they were cut from."""

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
    """The content of one xz stream, read with limited memory; ValueError for bytes after its end."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_DICTIONARY_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._decoder.eof:
            data = self._source.read(CHUNK) if self._decoder.needs_input else b""
            if self._decoder.needs_input and not data:
                raise EOFError("it is cut off")
            if piece := self._decoder.decompress(data, len(buffer)):
                buffer[: len(piece)] = piece
                return len(piece)
        if self._decoder.unused_data or self._source.read(1):
            raise ValueError("there are bytes after its end")
        return 0


class _Member(tarfile.TarInfo):
    """A member of an archive with a limit on the size of its extended header."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        # The method that tarfile has for subclasses to override: it is called before anything of the header is read.
        if self.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE) and self.size > MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return member


def _extract(pack: Path, parts: Sequence[Path], folder: Path) -> None:
    """Write the pack's regular files into the folder; `UserError` where it is damaged or holds anything else."""
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
                if content is None:  # a folder, which its files bring along
                    continue
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    shutil.copyfileobj(content, file, CHUNK)
            while packed.read(CHUNK):  # the checksum at the end tells whether all of it is there
                pass
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, RecursionError) as error:
        raise UserError(f"{pack} is damaged, or no pack: {error}") from error
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise UserError(f"{pack} is damaged: it holds {Path(str(error.filename)).name} twice") from error


def _refuse(pack: Path, member: tarfile.TarInfo, size: int, files: int) -> None:
    """Raise `UserError` for a member that no run has, and for more than fits."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise UserError(f"{pack} is no pack of runs: {member.name!r} would lead out of its folder")
    if len(name.parts) > MAX_DEPTH:
        raise UserError(f"{pack} is no pack of runs: it has folders nested more than {MAX_DEPTH} deep")
    if not (member.isreg() or member.isdir()) or member.size < 0:
        raise UserError(f"{pack} is no pack of runs: {member.name!r} is neither a file nor a folder")
    if size > MOST_BYTES or files > MOST_FILES:
        most = f"{format_bytes(MOST_BYTES)} or {MOST_FILES:,} files"
        raise UserError(f"{pack} holds more than {most}: unpack it with tar where you trust it, and name the folder")
