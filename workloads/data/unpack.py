"""Archives become a folder that is there as a whole or not at all, with the SHA-256 of all that is in it."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from workloads.data.cache import DataError, sha256_of
from workloads.data.sources import SUMS, File, Source

Progress = Callable[[str, int, "int | None"], None]
"""A function that is told what is being done, how many bytes of it are done, and of how many (None: not known)."""


def unpack(source: Source, progress: Progress) -> None:
    """Unpack the set's archives, checked before, into its folder; a folder unpacked earlier is replaced."""
    target = source.path
    prefix = f".{source.name}-"
    for leftover in target.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)  # left by a fetch that was killed; only one works at a time
    with tempfile.TemporaryDirectory(prefix=prefix, dir=target.parent) as temporary:
        new = Path(temporary) / "new"
        new.mkdir()
        for file in source.files:
            try:
                _extract(file, new, progress)
            except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
                raise DataError(f"cannot unpack {file.path}: {error}") from error
        missing = [name for name in source.holds if not (new / name).exists()]
        if missing:
            raise DataError(f"the archives of {source.name} lack {missing[0]}: they are not what they should be")
        _finish(new)
        if target.exists():
            target.rename(Path(temporary) / "old")
        new.rename(target)


def not_ours(source: Source) -> str:
    """Return the error for a folder without the list of sums: it may be the user's own, and is left alone."""
    return f"{source.path} was not made by 'accelbench data fetch {source.name}': move it away, and fetch again"


def _finish(folder: Path) -> None:
    """Write the list of sums, and let every user of a shared data folder read."""
    files = sorted(_files(folder))
    sums = "".join(f"{sha256_of(folder / file)}  {file}\n" for file in files)
    (folder / SUMS).write_text(sums, encoding="utf-8")
    for path, _, names in os.walk(folder):
        os.chmod(path, 0o755)
        for name in names:
            os.chmod(os.path.join(path, name), 0o644)


def _files(folder: Path) -> Iterator[str]:
    for path, _, names in os.walk(folder):
        for name in names:
            yield (Path(path) / name).relative_to(folder).as_posix()


def check_unpacked(source: Source) -> None:
    """Raise DataError unless everything that was unpacked is still there and unchanged."""
    if not source.present:
        raise DataError(not_ours(source))
    wrong = damage(source)
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise DataError(f"{source.path} is damaged: {wrong[0]}{more}; 'accelbench data fetch {source.name}' mends it")


def damage(source: Source) -> list[str]:
    """Return what is wrong with the unpacked folder, file by file; nothing if all is well."""
    folder, wrong = source.path, []
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return [f"{SUMS} cannot be read"]
    sums = {name: sum_ for sum_, _, name in (line.partition("  ") for line in lines)}
    for name in source.holds:
        if not any(file == name or file.startswith(f"{name}/") for file in sums):
            wrong.append(f"{name} is not in {SUMS}")
    for name, expected in sums.items():
        try:
            if sha256_of(folder / name) != expected:
                wrong.append(f"{name} was changed")
        except OSError as error:
            wrong.append(f"{name}: {error.strerror}")
    return wrong


def _extract(file: File, folder: Path, progress: Progress) -> None:
    what = f"unpacking {file.path.name}"
    if zipfile.is_zipfile(file.path):
        with zipfile.ZipFile(file.path) as outer:
            inner = [name for name in outer.namelist() if name.endswith(".zip") and not _is_litter(name)]
            if not inner:
                _extract_zip(outer, folder, what, progress)
                return
            content = outer.read(inner[0])
        if hashlib.sha256(content).hexdigest() != file.inner_sha256:
            raise DataError(f"{inner[0]} in {file.path} is not the file it should be: its SHA-256 is another")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _extract_zip(archive, folder, what, progress)
    else:
        _extract_tar(file.path, folder, what, progress)


def _extract_zip(archive: zipfile.ZipFile, folder: Path, what: str, progress: Progress) -> None:
    members = [member for member in archive.infolist() if not _is_litter(member.filename)]
    total, done = sum(member.file_size for member in members), 0
    for member in members:
        archive.extract(member, folder)  # drops a leading / and every ..
        done += member.file_size
        progress(what, done, total)


def _extract_tar(path: Path, folder: Path, what: str, progress: Progress) -> None:
    """Extract files and folders alone, none outside of the folder; not every Python 3.11 has a filter for that."""
    done = 0
    with tarfile.open(path) as archive:
        for member in archive:
            place = PurePosixPath(member.name)
            if place.is_absolute() or ".." in place.parts or not (member.isfile() or member.isdir()):
                raise tarfile.TarError(f"{member.name} is no file or folder inside of it")
            content = archive.extractfile(member) if member.isfile() and not _is_litter(member.name) else None
            if content is not None:
                target = folder / place
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    shutil.copyfileobj(content, file)
                done += member.size
                progress(what, done, None)


def _is_litter(name: str) -> bool:
    """Return whether macOS left it in the archive: resource forks look like images, and are none."""
    path = PurePosixPath(name)
    return "__MACOSX" in path.parts or path.name.startswith("._") or path.name == ".DS_Store"
