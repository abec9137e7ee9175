"""An odd archive ends in one line, and leaves nothing behind: not in the data folder, and not outside of it."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workloads.data.archives import pets_tars, tar
from tests.workloads.data.serving import declare
from workloads.data import DataError
from workloads.data.fetch import fetch
from workloads.data.members import members, readable
from workloads.data.sources import File

Unpack = Callable[[str, bytes], str]


@pytest.fixture
def unpack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> Unpack:
    """Fetch `har` from such an archive, or `pets` with such images, and return what is wrong: '' if nothing is."""

    def attempt(name: str, content: bytes) -> str:
        contents = [content] if name == "har" else [content, pets_tars()[1]]
        declare(monkeypatch, name, *contents)
        paths = [tmp_path / f"given {place}" for place in range(len(contents))]
        for path, given_ in zip(paths, contents, strict=True):
            path.write_bytes(given_)
        before = set(tmp_path.iterdir()) | {cache}
        try:
            fetch(name, paths)
            said = ""
        except DataError as error:
            said = str(error)
            assert not (cache / name).exists(), "half a data set"
            assert not list(cache.glob(f".{name}-*")), "left behind"
        assert set(tmp_path.iterdir()) <= before, "written outside"
        return said

    return attempt


def tar_of(*entries: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for entry, content in entries:
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def entry(name: str, content: bytes = b"x", **facts: object) -> tuple[tarfile.TarInfo, bytes]:
    found = tarfile.TarInfo(name)
    found.size = len(content)
    for fact, value in facts.items():
        setattr(found, fact, value)
    return found, content


def zip_of(*entries: tuple[zipfile.ZipInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, content in entries:
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def zip_entry(name: str, content: bytes = b"x", mode: int = stat.S_IFREG | 0o644) -> tuple[zipfile.ZipInfo, bytes]:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info, content


def encrypted() -> bytes:
    """A zip that says its file is encrypted, as the bit of its headers tells."""
    content = bytearray(zip_of(zip_entry("secret")))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + place] |= 1
    return bytes(content)


def unknown_compression() -> bytes:
    content = bytearray(zip_of(zip_entry("file")))
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.index(mark) + place] = 99
    return bytes(content)


TARS = {
    "above": (entry("../outside"), "'../outside' is no file or folder inside of it"),
    "absolute": (entry("/tmp/outside"), "'/tmp/outside' is no file or folder"),
    "link out": (entry("images", b"", type=tarfile.SYMTYPE, linkname="/etc"), "'images' is no file or folder"),
    "hard link": (entry("images", b"", type=tarfile.LNKTYPE, linkname="/etc/passwd"), "'images' is no file or folder"),
    "device": (entry("images/null", b"", type=tarfile.CHRTYPE), "'images/null' is no file or folder"),
    "pipe": (entry("images/pipe", b"", type=tarfile.FIFOTYPE), "'images/pipe' is no file or folder"),
    "not UTF-8": (entry("images/\udcff.jpg"), r"'images/\udcff.jpg' is no plain name"),
    "line's end": (entry("images/a\nb.jpg"), r"'images/a\nb.jpg' is no plain name"),
    "escape": (entry("images/\x1b[2J.jpg"), r"'images/\x1b[2J.jpg' is no plain name"),
    "deep": (entry("a/" * 1500 + "b"), "longer than 500 characters or 20 folders deep"),
    "long": (entry("a" * 400), "File name too long"),
}


@pytest.mark.parametrize("case", TARS)
def test_an_entry_that_does_not_belong_into_the_folder_is_refused(unpack: Unpack, case: str) -> None:
    odd, message = TARS[case]
    said = unpack("pets", tar_of(entry("images/pug_2.jpg"), odd))
    assert message in said
    assert said.isprintable()


@pytest.mark.parametrize(
    ("name", "mode", "message"),
    [
        ("../outside", stat.S_IFREG, "'../outside' is no file or folder"),
        ("/tmp/outside", stat.S_IFREG, "'/tmp/outside' is no file or folder"),
        ("", stat.S_IFREG, "'' is no file or folder"),
        ("link", stat.S_IFLNK, "'link' is no file or folder"),
        ("device", stat.S_IFCHR, "'device' is no file or folder"),
        ("a\\b", stat.S_IFREG, r"'a\\b' is no plain name"),
        ("a/" * 300 + "b", stat.S_IFREG, "20 folders deep"),
    ],
)
def test_a_zip_is_held_to_the_same(unpack: Unpack, name: str, mode: int, message: str) -> None:
    assert message in unpack("har", zip_of(zip_entry(name, b"/etc", mode | 0o644)))


def test_a_file_that_is_twice_in_an_archive_is_refused(unpack: Unpack) -> None:
    twice = tar_of(entry("images/pug_2.jpg", b"one"), entry("./images//pug_2.jpg", b"another"))
    assert "is in it twice" in unpack("pets", twice)
    with pytest.warns(UserWarning, match="Duplicate name"):
        content = zip_of(zip_entry("a", b"one"), zip_entry("a", b"another"))
    assert "'a' is in it twice" in unpack("har", content)


def test_a_file_in_the_place_of_a_folder_is_one_line(unpack: Unpack) -> None:
    for names in (("images", "images/pug_2.jpg"), ("images/pug_2.jpg", "images")):
        said = unpack("pets", tar_of(*map(entry, names)))
        assert said.startswith("cannot fetch pets: ")
        assert said.isprintable()


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is_written(
    unpack: Unpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.data.members.MOST_UNPACKED", 1 << 20)
    zeros = bytes(1 << 21)
    assert len(tar({"images/zeros": zeros})) < 1 << 14
    for said in (unpack("pets", tar({"images/zeros": zeros})), unpack("har", zip_of(zip_entry("zeros", zeros)))):
        assert "it holds more than 1,048,576 bytes or 100,000 files" in said
    monkeypatch.setattr("workloads.data.members.MOST_ENTRIES", 10)
    many = tar_of(*(entry(f"images/{number}", b"") for number in range(11)))
    assert "bytes or 10 files" in unpack("pets", many)


def test_an_archive_inside_the_archive_is_not_read_into_memory_whatever_its_size(
    unpack: Unpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.data.members.MOST_INNER", 1 << 20)
    assert "'inner.zip' in it is larger than" in unpack("har", zip_of(zip_entry("inner.zip", bytes(1 << 21))))


def test_what_cannot_be_read_is_one_line(unpack: Unpack) -> None:
    assert "is encrypted" in unpack("har", encrypted())
    assert "compression" in unpack("har", unknown_compression())
    for content in (b"", b"no archive", b"PK\x05\x06", b"\x1f\x8b", os.urandom(5000)):
        assert "cannot unpack" in unpack("pets", content)


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz", "w"])
def test_a_truncated_archive_is_one_line_wherever_it_ends(unpack: Unpack, mode: str) -> None:
    whole = tar_of(*(entry(f"images/{number}.jpg", os.urandom(700)) for number in range(5)), mode=mode)
    for end in (100, 600, len(whole) // 2, len(whole) - 1200, len(whole) - 5):
        said = unpack("pets", whole[:end])
        assert said.isprintable()


WHOLE = (
    zip_of(zip_entry("a/b", b"x" * 300), zip_entry("c", b"")),
    zip_of(zip_entry("inner.zip", zip_of(zip_entry("a", b"x" * 300)))),
    *(tar_of(entry("images/a.jpg", b"x" * 300), entry("é" * 80), mode=mode) for mode in ("w", "w:gz", "w:bz2", "w:xz")),
)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    whole=st.sampled_from(WHOLE),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
    end=st.one_of(st.none(), st.integers(0, 10_000)),
)
def test_an_archive_with_any_bytes_changed_is_read_or_one_line(
    cache: Path, whole: bytes, changes: list[tuple[int, int]], end: int | None
) -> None:
    content = bytearray(whole)
    for place, value in changes:
        content[place % len(content)] = value
    file = File(name="odd", url="", sha256="", inner_sha256=None)
    file.path.parent.mkdir(exist_ok=True)
    file.path.write_bytes(content[:end])
    said = "all is well"
    try:
        with readable(file.path):
            for member in members(file):
                member.content.read()
    except (DataError, OSError) as error:  # a broken gzip stream is an OSError, which `fetch` tells in one line, too
        said = str(error)
    assert said.isprintable()
