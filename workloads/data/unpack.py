"""Atomic unpacking of archives into one folder, and verification of that folder.

Each archive's SHA-256 is verified before it is opened, so its content is trusted.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from accelbench.workloads.data.cache import DataError, sha256_of
from accelbench.workloads.data.download import Progress
from accelbench.workloads.data.sources import SUMS, File, Source


def members(archive: Path | io.BytesIO) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield name and content of each file in a zip or tar, and of zips in a zip, without macOS metadata.

    Links and devices are skipped. `DataError` for a name outside of the folder.
    """
    if not zipfile.is_zipfile(archive):
        assert isinstance(archive, Path)
        with tarfile.open(archive) as tar:
            for entry in tar:
                content = tar.extractfile(entry) if entry.isfile() and not is_macos_metadata(entry.name) else None
                if content:
                    yield _inside(entry.name), content
        return
    with zipfile.ZipFile(archive) as files:
        names = [name for name in files.namelist() if not name.endswith("/") and not is_macos_metadata(name)]
        inner = [name for name in names if name.endswith(".zip")]
        for name in inner:  # other files next to a nested zip are documentation
            yield from members(io.BytesIO(files.read(name)))
        for name in () if inner else names:
            with files.open(name) as content:
                yield _inside(name), content


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise DataError(f"cannot unpack {name!a}: the path is outside of the data set's folder")
    return path.as_posix()


def is_macos_metadata(name: str) -> bool:
    """Return whether the file is macOS metadata; resource forks have image names."""
    path = PurePosixPath(name)
    return "__MACOSX" in path.parts or path.name.startswith("._") or path.name == ".DS_Store"


def unpack(source: Source, progress: Progress) -> None:
    """Unpack the verified archives of the data set into its folder, which replaces an earlier one.

    `DataError` if the existing folder holds files that are not part of the data set.
    """
    target = source.path
    prefix = f".{source.name}-"
    for leftover in target.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)  # from a killed fetch; the lock excludes concurrent ones
    with tempfile.TemporaryDirectory(prefix=prefix, dir=target.parent) as temporary:
        new = Path(temporary) / "new"
        new.mkdir()
        for file in source.files:
            done = 0
            for name, content in members(file.path):
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                with (new / name).open("xb") as written:
                    shutil.copyfileobj(content, written)
                    done += written.tell()
                progress(f"unpacking {file.path.name}", done, None)
        files = _files(new)
        if foreign := sorted(_files(target) - files):
            raise DataError(f"{target} also contains {some(foreign)}: move it away, and fetch again")
        sums = "".join(f"{sha256_of(new / name)}  {name}\n" for name in sorted(files))
        (new / SUMS).write_text(sums, encoding="utf-8")
        for folder, _, names in os.walk(new):  # temporary folders are private, but a cluster's data is for all users
            os.chmod(folder, 0o755)
            for name in names:
                os.chmod(os.path.join(folder, name), 0o644)
        if target.exists():
            target.rename(Path(temporary) / "old")
        new.rename(target)


def _files(folder: Path) -> set[str]:
    """Return the files and links in an unpacked folder, without the checksum list and macOS metadata."""
    paths = (Path(path, name) for path, folders, names in os.walk(folder) for name in (*folders, *names))
    files = {path.relative_to(folder).as_posix() for path in paths if path.is_symlink() or not path.is_dir()}
    return {name for name in files if name != SUMS and not is_macos_metadata(name)}


def some(names: list[str]) -> str:
    """Return the first name and the number of others."""
    first = names[0] if names[0].isprintable() else ascii(names[0])
    return f"{first} and {len(names) - 1} more" if len(names) > 1 else first


def unknown_folder(source: Source) -> str:
    """Return the error message for a folder without checksum list, which may be the user's own."""
    return f"{source.path} was not made by 'accelbench data fetch {source.name}': move it away, and fetch again"


def check_unpacked(source: Source) -> None:
    """Raise `DataError` unless all unpacked files are unchanged."""
    if not source.present:
        raise DataError(unknown_folder(source))
    if wrong := changed_files(source):
        raise DataError(f"{source.path} is corrupt: {some(wrong)}; 'accelbench data fetch {source.name}' repairs it")


def changed_files(source: Source) -> list[str]:
    """Return the differences between the folder and its checksum list."""
    try:
        sums = _sums(source)
    except (OSError, UnicodeDecodeError):
        return [f"{SUMS} cannot be read"]
    wrong = [
        f"{name} is not in {SUMS}"
        for name in source.holds
        if not any(f"{file}/".startswith(f"{name}/") for file in sums)
    ]
    for name, expected in sums.items():
        try:
            if sha256_of(source.path / name) != expected:
                wrong.append(f"{name} was changed")
        except OSError as error:
            wrong.append(f"{name}: {error.strerror}")
    return wrong


def archive_differences(source: Source, archives: list[File]) -> list[str]:
    """Return the differences between the checksum list and these archives; the list may have been changed, too."""
    sums, packed = _sums(source), dict[str, str]()
    for file in archives:
        packed |= {name: hashlib.sha256(content.read()).hexdigest() for name, content in members(file.path)}
    wrong = [f"{name} is not in {SUMS} as in the archive" for name in packed if sums.get(name) != packed[name]]
    added = sorted(sums.keys() - packed.keys()) if len(archives) == len(source.files) else []
    return wrong + [f"{name} is in {SUMS} and in none of the archives" for name in added]


def unlisted_files(source: Source) -> list[str]:
    """Return the files in the unpacked folder that are missing from its checksum list."""
    return sorted(_files(source.path) - _sums(source).keys())


def _sums(source: Source) -> dict[str, str]:
    lines = (source.path / SUMS).read_text(encoding="utf-8").splitlines()
    return {name: sum_ for sum_, _, name in (line.partition("  ") for line in lines)}
