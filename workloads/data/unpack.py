"""Archives become a folder that is there as a whole or not at all, with the SHA-256 of all that is in it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from workloads.data.cache import DataError, sha256_of, sha256_of_open
from workloads.data.members import litter, members, readable
from workloads.data.sources import SUMS, File, Source

Progress = Callable[[str, int, "int | None"], None]
"""A function that is told what is being done, how many bytes of it are done, and of how many (None: not known)."""


def unpack(source: Source, progress: Progress) -> None:
    """Unpack the set's archives, checked before, into its folder; a folder unpacked earlier is replaced.

    DataError for an archive that is not what it should be, and for a folder that holds files of somebody else.
    """
    target = source.path
    prefix = f".{source.name}-"
    for leftover in target.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)  # left by a fetch that was killed; only one works at a time
    with tempfile.TemporaryDirectory(prefix=prefix, dir=target.parent) as temporary:
        new = Path(temporary) / "new"
        new.mkdir()
        for file in source.files:
            with readable(file.path):
                _extract(file, new, progress)
        missing = [name for name in source.holds if not (new / name).exists()]
        if missing:
            raise DataError(f"the archives of {source.name} lack {missing[0]}: they are not what they should be")
        foreign = sorted(set(_own(target)) - set(_files(new)))
        if foreign:
            raise DataError(
                f"{target} holds what is no part of {source.name}: {some(foreign)}: move it away, and fetch again"
            )
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
    """Yield all that lies in the folder and is no folder itself; a link to one is not followed."""
    for path, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(path, name))]
        for name in (*names, *links):
            yield (Path(path) / name).relative_to(folder).as_posix()


def _own(folder: Path) -> Iterator[str]:
    """Yield what lies in an unpacked folder, without the list of sums and what file managers leave everywhere."""
    return (name for name in _files(folder) if name != SUMS and not litter(name))


def _extract(file: File, folder: Path, progress: Progress) -> None:
    done = 0
    for member in members(file):
        target = folder / member.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as written:
            shutil.copyfileobj(member.content, written)
        done += member.size
        progress(f"unpacking {file.path.name}", done, None)


def some(names: list[str]) -> str:
    """Name the first, and the number of the others."""
    first = names[0] if names[0].isprintable() else ascii(names[0])
    return f"{first} and {len(names) - 1} more" if len(names) > 1 else first


def check_unpacked(source: Source) -> None:
    """Raise DataError unless everything that was unpacked is still there and unchanged."""
    if not source.present:
        raise DataError(not_ours(source))
    wrong = damage(source)
    if wrong:
        raise DataError(f"{source.path} is damaged: {some(wrong)}; 'accelbench data fetch {source.name}' mends it")


def damage(source: Source) -> list[str]:
    """Return what is wrong with the unpacked files, one by one, by the list of sums; nothing if all is well."""
    try:
        sums = _listed(source)
    except (OSError, UnicodeDecodeError):
        return [f"{SUMS} cannot be read"]
    wrong = [
        f"{name} is not in {SUMS}"
        for name in source.holds
        if not any(file == name or file.startswith(f"{name}/") for file in sums)
    ]
    for name, expected in sums.items():
        try:
            if sha256_of(source.path / name) != expected:
                wrong.append(f"{name} was changed")
        except OSError as error:
            wrong.append(f"{name}: {error.strerror}")
    return wrong


def contradictions(source: Source, archives: list[File]) -> list[str]:
    """Return what the list of sums has otherwise than these archives of the set, whose own sums are published."""
    sums, wrong, packed = _listed(source), [], set()
    for file in archives:
        with readable(file.path):
            for member in members(file):
                packed.add(member.name)
                if sums.get(member.name) != sha256_of_open(member.content):
                    wrong.append(f"{member.name} is not in {SUMS} as in {file.name}")
    added = sorted(set(sums) - packed) if len(archives) == len(source.files) else []
    return wrong + [f"{name} is in {SUMS} and in none of the archives" for name in added]


def strangers(source: Source) -> list[str]:
    """Return the files in the unpacked folder that its list of sums does not name, but for what file managers leave."""
    try:
        known = _listed(source).keys()
    except (OSError, UnicodeDecodeError):
        return []
    return sorted(set(_own(source.path)) - known)


def _listed(source: Source) -> dict[str, str]:
    """Return the SHA-256 of each file, as the folder's list has it."""
    lines = (source.path / SUMS).read_text(encoding="utf-8").splitlines()
    return {name: sum_ for sum_, _, name in (line.partition("  ") for line in lines)}
