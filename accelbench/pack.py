"""Runs in one file: a compressed tar archive with a folder for each run, and reading it wherever a run is read.

A pack may come from anybody. So nothing but regular files is taken out of it, by this module's own code, into a folder
of the user's cache that is named after the pack's digest; a link, a device, or a name that leads out of it is refused.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import re
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, cast

import platformdirs

from accelbench.errors import RunBroken, UserError
from accelbench.store import LOCK, RunInfo, RunStore

if TYPE_CHECKING:
    from typing_extensions import Buffer

SUFFIX = ".tar.xz"
PART = re.compile(r"(?P<pack>.+)\.part(?P<number>[1-9]\d*)of(?P<count>[1-9]\d*)")
PRESET = 2
"""Of xz: twice the size of its best, in a tenth of the time."""
MOST_BYTES, MOST_FILES = 8 << 30, 20_000
"""What a pack may unpack to: some tens of runs with their traces."""
CHUNK = 1 << 20


def write_pack(
    runs: Sequence[RunStore], out: Path | None = None, traces: bool = True, part_mib: float | None = None
) -> list[Path]:
    """Pack the runs into `out`, by default a new file here that is named after the last run's date and machine.

    Returns the file, or the files of at most `part_mib` MiB each that it was cut into. Raises `UserError` where a file
    of that name is there already, and `RunBroken` where it cannot be written.
    """
    infos = [run.info() for run in runs]
    pack = out or Path(default_name(infos))
    if taken := [pack] * pack.exists() + written_parts(pack):
        raise UserError(f"{taken[0]} is there already: remove it, or choose another name with --out")
    try:
        with _Parts(pack, int(part_mib * 2**20) if part_mib else None) as parts:
            with (
                lzma.open(cast("IO[bytes]", parts), "wb", preset=PRESET) as packed,
                tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
            ):
                for folder, run in zip(_folders(runs, infos), runs, strict=True):
                    for file in _files(run.path, traces):
                        archive_file(archive, file, f"{folder}/{file.relative_to(run.path).as_posix()}")
            return parts.finish()
    except OSError as error:
        raise RunBroken(f"cannot write the pack {pack}: {error.strerror or error}; the runs are kept") from error


def default_name(infos: Sequence[RunInfo]) -> str:
    """`20260131-140503-nvidia-h100-80gb-hbm3.tar.xz`: when the last of the runs began, and on what."""
    last = max(infos, key=lambda info: info.created)
    gpus = last.environment.gpus
    machine = (gpus[0].name if last.device == "gpu" and gpus else last.environment.cpu.model) or last.device
    created: datetime = last.created
    return f"{created:%Y%m%d-%H%M%S}-{re.sub(r'[^a-z0-9]+', '-', machine.lower()).strip('-')}{SUFFIX}"


def written_parts(pack: Path) -> list[Path]:
    """The files that a pack of this name was cut into, whichever are there."""
    found = [path for path in pack.parent.glob(f"{pack.name}.part*") if PART.fullmatch(path.name)]
    return sorted(found, key=lambda path: tuple(map(int, re.findall(r"\d+", path.name.rpartition(".part")[2])))[::-1])


def _folders(runs: Sequence[RunStore], infos: Sequence[RunInfo]) -> list[str]:
    """A name for each run in the pack: its directory's, or its id where two directories are called the same."""
    names = [run.path.resolve().name for run in runs]
    return [info.run_id if names.count(name) > 1 else name for name, info in zip(names, infos, strict=True)]


def _files(run: Path, traces: bool) -> Iterator[Path]:
    for path in sorted(run.rglob("*")):
        within = path.relative_to(run)
        temporary = path.name == LOCK or path.name.endswith(".new")
        if path.is_file() and not path.is_symlink() and not temporary and (traces or within.parts[0] != "traces"):
            yield path


def archive_file(archive: tarfile.TarFile, file: Path, name: str) -> None:
    """Add one file, without saying whose it was."""
    member = tarfile.TarInfo(name)
    with file.open("rb") as content:
        status = os.fstat(content.fileno())
        member.size, member.mtime = status.st_size, int(status.st_mtime)
        archive.addfile(member, content)


class _Parts(io.RawIOBase):
    """The files that a pack is written to, one after the other, which get their names when it is complete."""

    def __init__(self, pack: Path, size: int | None) -> None:
        self._pack, self._size = pack, size
        self._files: list[Path] = []
        self._open_next()

    def _open_next(self) -> None:
        self._files.append(self._pack.with_name(f".{self._pack.name}.{os.getpid()}.{len(self._files) + 1}.new"))
        self._file = self._files[-1].open("wb")

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        """Write all of it, into further files where it is more than the last one may hold."""
        left = memoryview(data)
        while len(left):
            if self._size is not None and self._file.tell() == self._size:
                self._file.close()
                self._open_next()
            room = len(left) if self._size is None else self._size - self._file.tell()
            left = left[self._file.write(left[:room]) :]
        return len(memoryview(data))

    def finish(self) -> list[Path]:
        """Give the files their names: that of the pack if there is one only."""
        self._file.close()
        count = len(self._files)
        cut = [self._pack.with_name(f"{self._pack.name}.part{number}of{count}") for number in range(1, count + 1)]
        names = cut if count > 1 else [self._pack]
        for file, name in zip(self._files, names, strict=True):
            file.replace(name)
        self._files = []
        return names

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            for file in self._files:  # of a pack that was not finished
                file.unlink(missing_ok=True)
        super().close()


def find_pack(name: str) -> tuple[Path, str | None] | None:
    """The pack, and the run of it, that `PACK` or `PACK:RUN` names; None if it names none that is there."""
    for pack, run in ((name, None), (name.rpartition(":")[0], name.rpartition(":")[2])):
        if pack and (Path(pack).is_file() or written_parts(Path(pack))):
            return Path(pack), run
    return None


def open_packed(pack: Path, run: str | None = None) -> RunStore:
    """The run of that name or id in a pack, its only one by default, unpacked in the user's cache.

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
    """The folder in the user's cache that holds what is in the pack; a second time nothing is unpacked."""
    try:
        parts = _all_parts(pack)
        folder = platformdirs.user_cache_path("accelbench") / "packs" / _digest(parts)
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=folder.parent, prefix=".unpacking-") as place:
                whole = Path(place, "whole")
                whole.mkdir()
                _extract(pack, parts, whole)
                if not folder.is_dir():  # another process may have been faster
                    whole.replace(folder)
    except OSError as error:
        raise UserError(f"cannot unpack {pack}: {error.strerror or error}") from error
    return folder


def _all_parts(pack: Path) -> list[Path]:
    """The files that together are the pack, of which any one may be named, or the name before they were cut."""
    named = PART.fullmatch(pack.name)
    found = written_parts(pack) if not pack.exists() else []
    if found:
        named = PART.fullmatch(found[0].name)
    if named is None:
        return [pack]
    count = int(named["count"])
    parts = [pack.with_name(f"{named['pack']}.part{number}of{count}") for number in range(1, count + 1)]
    if missing := [part.name for part in parts if not part.is_file()]:
        raise UserError(f"{pack} is one of {count} parts, and {', '.join(missing)} is not beside it")
    return parts


def _digest(parts: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        with part.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    return digest.hexdigest()[:32]


class _Joined(io.RawIOBase):
    """The parts of a pack, read as the one file that they were cut from."""

    def __init__(self, parts: Sequence[Path]) -> None:
        self._files = [part.open("rb") for part in parts]

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


def _extract(pack: Path, parts: Sequence[Path], folder: Path) -> None:
    """Write the pack's regular files into the folder; `UserError` where it is damaged or holds anything else."""
    size = files = 0
    try:
        with (
            io.BufferedReader(_Joined(parts), CHUNK) as joined,
            lzma.open(joined) as packed,
            tarfile.open(fileobj=packed, mode="r|") as archive,
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
            while packed.read(CHUNK):  # to the end, whose checksum tells whether all of it is there
                pass
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError) as error:
        raise UserError(f"{pack} is damaged, or no pack: {error}") from error
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise UserError(f"{pack} is damaged: it holds {Path(str(error.filename)).name} twice") from error


def _refuse(pack: Path, member: tarfile.TarInfo, size: int, files: int) -> None:
    """`UserError` for a member that no run has, and for more than fits."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise UserError(f"{pack} is no pack of runs: {member.name!r} would lead out of its folder")
    if not (member.isreg() or member.isdir()) or member.size < 0:
        raise UserError(f"{pack} is no pack of runs: {member.name!r} is neither a file nor a folder")
    if size > MOST_BYTES or files > MOST_FILES:
        most = f"{MOST_BYTES / 2**30:.0f} GiB or {MOST_FILES:,} files"
        raise UserError(f"{pack} holds more than {most}: unpack it with tar where you trust it, and name the folder")
