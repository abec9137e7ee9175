"""Writing of bundles, as one file or in parts."""

from __future__ import annotations

import io
import lzma
import os
import re
import secrets
import tarfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from accelbench.errors import RunBroken, UserError, reason_of
from accelbench.execution.store import LOCKS, RunInfo, RunStore
from accelbench.pack import written_parts
from accelbench.profiling.devices import device_kind, kinds
from accelbench.profiling.files import open_regular

if TYPE_CHECKING:
    from typing_extensions import Buffer

SUFFIX = ".tar.xz"
PRESET = 2
"""Preset of xz: twice the file size of the best preset in a tenth of the time."""


def write_pack(
    runs: Sequence[RunStore],
    out: Path | None = None,
    traces: bool = True,
    part_mib: float | None = None,
    beside: Sequence[Path] = (),
) -> list[Path]:
    """Write the runs to the bundle `out`, and return its path, or the paths of its parts of at most `part_mib` MiB.

    If `out` is a directory (default: the current one), the name has the last run's date and machine. The files
    `beside`, such as logs, are included. Raises `UserError` if the file exists, and `RunBroken` if it cannot be
    written.
    """
    infos = [run.info() for run in runs]
    pack = Path(out or "", default_name(infos)) if out is None or out.is_dir() else out
    if taken := [pack] * pack.exists() + written_parts(pack):
        raise UserError(f"{taken[0]} already exists: remove it, or choose another name with --out")
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
        raise RunBroken(f"cannot write the bundle {pack}: {reason_of(error)}; the runs are kept") from error


def default_name(infos: Sequence[RunInfo]) -> str:
    """Return a name with the last run's start time and machine: `20260131-140503-nvidia-h100-80gb-hbm3.tar.xz`."""
    last = max(infos, key=lambda info: info.created)
    machine = (last.device in kinds() and device_kind(last.device).model(last.environment)) or last.device
    created: datetime = last.created
    return f"{created:%Y%m%d-%H%M%S}-{re.sub(r'[^a-z0-9]+', '-', machine.lower()).strip('-')}{SUFFIX}"


def remove_pack(pack: Path) -> None:
    """Remove the bundle and its parts, if they exist."""
    for file in (pack, *written_parts(pack)):
        file.unlink(missing_ok=True)


def _folders(runs: Sequence[RunStore], infos: Sequence[RunInfo]) -> list[str]:
    """Return a name in the bundle for each run: its directory's name, or its id if that name is not unique."""
    names = [run.path.resolve().name for run in runs]
    return [info.run_id if names.count(name) > 1 else name for name, info in zip(names, infos, strict=True)]


def _files(run: Path, traces: bool) -> Iterator[Path]:
    """Yield the relative path of each file of a run."""
    for path in sorted(run.rglob("*")):
        within = path.relative_to(run)
        temporary = path.name in LOCKS or path.name.endswith(".new")
        if path.is_file() and not path.is_symlink() and not temporary and (traces or within.parts[0] != "traces"):
            yield within


def archive_file(archive: tarfile.TarFile, file: Path, name: str) -> None:
    """Add one file without its owner and permissions."""
    member = tarfile.TarInfo(name)
    with open_regular(file) as content:
        status = os.fstat(content.fileno())
        member.size, member.mtime = status.st_size, int(status.st_mtime)
        archive.addfile(member, content)


class _Parts(io.RawIOBase):
    """Writer of a bundle's part files, which are renamed from temporary names when the bundle is complete."""

    def __init__(self, pack: Path, size: int | None) -> None:
        self._pack, self._size = pack, size
        self._files: list[Path] = []
        self._open_next()

    def _open_next(self) -> None:
        self._files.append(self._pack.with_name(f".{self._pack.name}.{secrets.token_hex(8)}.new"))
        self._file = self._files[-1].open("xb")

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        """Write the data, to further parts if a part reaches its maximum size; return the number of bytes."""
        left = memoryview(data)
        while len(left):
            if self._size is not None and self._file.tell() == self._size:
                self._file.close()
                self._open_next()
            room = len(left) if self._size is None else self._size - self._file.tell()
            left = left[self._file.write(left[:room]) :]
        return len(memoryview(data))

    def finish(self) -> list[Path]:
        """Rename the parts, or the single file to the bundle's name, and return their paths."""
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
            for file in self._files:  # empty after `finish`
                file.unlink(missing_ok=True)
        super().close()
