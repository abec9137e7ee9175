"""Putting runs into a pack, whole or cut into parts."""

from __future__ import annotations

import io
import lzma
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from accelbench.errors import RunBroken, UserError
from accelbench.execution.store import LOCK, RunInfo, RunStore
from accelbench.pack import written_parts
from accelbench.profiling.devices import device_kind, kinds

if TYPE_CHECKING:
    from typing_extensions import Buffer

SUFFIX = ".tar.xz"
PRESET = 2
"""The preset of xz: this one makes files twice the size of its best one, in a tenth of the time."""


def write_pack(
    runs: Sequence[RunStore],
    out: Path | None = None,
    traces: bool = True,
    part_mib: float | None = None,
    beside: Sequence[Path] = (),
) -> list[Path]:
    """Pack the runs into `out`, by default a new file here that is named after the last run's date and machine.

    The files `beside` them, logs and the like, go along.

    Returns the file, or the files of at most `part_mib` MiB each that it was cut into. Raises `UserError` where a file
    of that name is there already, and `RunBroken` where it cannot be written.
    """
    infos = [run.info() for run in runs]
    pack = out or Path(default_name(infos))
    if taken := [pack] * pack.exists() + written_parts(pack):
        raise UserError(f"{taken[0]} is there already: remove it, or choose another name with --out")
    named = dict(zip(_folders(runs, infos), runs, strict=True))
    members = [(f"{name}/{file}", run.path / file) for name, run in named.items() for file in _files(run.path, traces)]
    members += [(file.name, file) for file in beside]
    try:
        with _Parts(pack, int(part_mib * 2**20) if part_mib else None) as parts:
            with (
                lzma.open(cast("IO[bytes]", parts), "wb", preset=PRESET) as packed,
                tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
            ):
                for name, file in members:
                    archive_file(archive, file, name)
            return parts.finish()
    except OSError as error:
        raise RunBroken(f"cannot write the pack {pack}: {error.strerror or error}; the runs are kept") from error


def default_name(infos: Sequence[RunInfo]) -> str:
    """Return a name of when the last run began and on what: `20260131-140503-nvidia-h100-80gb-hbm3.tar.xz`."""
    last = max(infos, key=lambda info: info.created)
    machine = (last.device in kinds() and device_kind(last.device).model(last.environment)) or last.device
    created: datetime = last.created
    return f"{created:%Y%m%d-%H%M%S}-{re.sub(r'[^a-z0-9]+', '-', machine.lower()).strip('-')}{SUFFIX}"


def remove_pack(pack: Path) -> None:
    """Remove the pack of that name, cut into parts or not, if it is there."""
    for file in (pack, *written_parts(pack)):
        file.unlink(missing_ok=True)


def _folders(runs: Sequence[RunStore], infos: Sequence[RunInfo]) -> list[str]:
    """Return a name for each run in the pack: its directory's, or its id where two directories are called the same."""
    names = [run.path.resolve().name for run in runs]
    return [info.run_id if names.count(name) > 1 else name for name, info in zip(names, infos, strict=True)]


def _files(run: Path, traces: bool) -> Iterator[Path]:
    """Yield each file that a run keeps, relative to its directory."""
    for path in sorted(run.rglob("*")):
        within = path.relative_to(run)
        temporary = path.name == LOCK or path.name.endswith(".new")
        if path.is_file() and not path.is_symlink() and not temporary and (traces or within.parts[0] != "traces"):
            yield within


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
            for file in self._files:  # the pack was not finished
                file.unlink(missing_ok=True)
        super().close()
