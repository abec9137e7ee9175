"""Files of other programs and users: only regular files up to a size limit are read, and no link is followed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from accelbench.profiling.files import (
    MAX_TEXT_BYTES,
    Refused,
    find_link,
    lines_of,
    open_for_appending,
    open_regular,
    read_regular,
    read_toml,
    replace_file,
)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("mine")
    return path


def make_fifo(path: Path, victim: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path, victim: Path) -> None:
    path.symlink_to("/dev/zero")


def make_link(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def make_folder(path: Path, victim: Path) -> None:
    path.mkdir()


def make_hard_link(path: Path, victim: Path) -> None:
    path.hardlink_to(victim)


@pytest.mark.parametrize("make", [make_fifo, make_device, make_link, make_folder])
def test_only_regular_files_are_read(tmp_path: Path, victim: Path, make) -> None:  # type: ignore[no-untyped-def]
    make(tmp_path / "file", victim)
    with pytest.raises(Refused):
        open_regular(tmp_path / "file")
    if make is not make_link:  # `follow_link` allows a link
        with pytest.raises(Refused):
            read_regular(tmp_path / "file", follow_link=True)


def test_a_link_is_followed_on_request(tmp_path: Path, victim: Path) -> None:
    make_link(tmp_path / "link", victim)
    assert read_regular(tmp_path / "link", follow_link=True) == b"mine"


@pytest.mark.parametrize("make", [make_fifo, make_device, make_link, make_folder, make_hard_link])
def test_only_a_regular_file_with_one_name_is_appended_to(tmp_path: Path, victim: Path, make) -> None:  # type: ignore[no-untyped-def]
    make(tmp_path / "file", victim)
    with pytest.raises(Refused):
        os.write(open_for_appending(tmp_path / "file"), b"theirs")
    assert victim.read_text() == "mine"


def test_a_missing_file_is_created_and_appended_to(tmp_path: Path) -> None:
    for _ in range(2):
        with open(open_for_appending(tmp_path / "file"), "ab") as file:
            file.write(b"line\n")
    assert (tmp_path / "file").read_text() == "line\nline\n"


def test_a_sparse_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb") as file:
        file.truncate(9 << 30)
    with pytest.raises(Refused):
        read_regular(tmp_path / "file")


def test_a_file_of_unknown_size_is_read_up_to_the_limit() -> None:
    with pytest.raises(Refused):  # a regular file with a reported size of 0 and megabytes of content
        read_regular(Path("/proc/kallsyms"), max_bytes=1000)


def test_a_long_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345\n" + b"x" * 11 + b"\n")
    with open_regular(tmp_path / "file") as file:
        lines = lines_of(file, tmp_path / "file", max_bytes=10)
        assert next(lines) == b"12345\n"
        with pytest.raises(Refused):
            next(lines)


@pytest.mark.parametrize(
    "text",
    ["x = " + "[" * 5000 + "]" * 5000, f"x = {'9' * 5000}", "x = ", "x = '" + "y" * MAX_TEXT_BYTES + "'"],
    ids=["nested", "digits", "incomplete", "large"],
)
def test_invalid_toml_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "file.toml").write_text(text)
    with pytest.raises((ValueError, OSError)):
        read_toml(tmp_path / "file.toml")


def test_replacing_a_link_keeps_its_target(tmp_path: Path, victim: Path) -> None:
    make_link(tmp_path / "file", victim)
    replace_file(tmp_path / "file", lambda new: new.write_text("new"), sync=True)
    assert ((tmp_path / "file").read_text(), victim.read_text()) == ("new", "mine")
    assert not (tmp_path / "file").is_symlink()


def test_a_replaced_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "file", lambda new: new.write_text("new"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_a_failed_write_keeps_the_old_content_and_leaves_no_other_file(tmp_path: Path, victim: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        replace_file(victim, lambda new: new.write_text(str(1 / 0)))
    assert victim.read_text() == "mine"
    assert os.listdir(tmp_path) == ["victim"]


def test_a_link_is_found_at_any_depth(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert find_link(tmp_path) is None
    make_link(tmp_path / "a" / "b" / "link", victim)
    assert find_link(tmp_path) == tmp_path / "a" / "b" / "link"
