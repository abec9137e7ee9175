"""Archives are unpacked atomically; damage is detected, reported and repaired."""

from __future__ import annotations

import errno
import io
import os
import pwd
import re
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from accelbench.workloads.data import CACHE_VARIABLE, DataError, load_har, load_mnist
from accelbench.workloads.data.fetch import fetch, find, state
from accelbench.workloads.data.sources import SOURCES, SUMS
from tests.workloads.data.archives import har_zip, pets_tars, tar, zipped
from tests.workloads.data.serving import NOWHERE, Served, declare, redeclare, sha256


@pytest.fixture
def pets(server: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    images, annotations = pets_tars()
    server.files |= {"pets-images.tar.gz": images, "pets-annotations.tar.gz": annotations}
    declare(monkeypatch, "pets", images, annotations, url=server.url)
    return server


def tree(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_two_archives_are_unpacked_into_one_folder_without_macos_metadata(pets: Served, cache: Path) -> None:
    assert fetch("pets") == cache / "pets"
    assert tree(cache / "pets") == [
        SUMS,
        "annotations/list.txt",
        "annotations/trimaps/Abyssinian_1.png",
        "annotations/trimaps/pug_2.png",
        "annotations/xmls/Abyssinian_1.xml",
        "annotations/xmls/pug_2.xml",
        "images/Abyssinian_1.jpg",
        "images/pug_2.jpg",
    ]
    assert sorted(path.name for path in cache.iterdir()) == [".pets.lock", "archives", "pets"]
    assert state(SOURCES["pets"]).word == "complete"


def test_unpacked_files_are_readable_by_all_users(pets: Served, cache: Path) -> None:
    fetch("pets")
    for path in (cache / "pets").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path
    assert (cache / "pets").stat().st_mode & 0o777 == 0o755


def test_the_checksum_list_is_readable_by_sha256sum(pets: Served, cache: Path) -> None:
    fetch("pets")
    assert os.system(f"cd '{cache}/pets' && sha256sum --check --quiet {SUMS}") == 0


def test_a_fetch_continues_with_the_missing_archive(pets: Served, cache: Path) -> None:
    annotations = pets.files.pop("pets-annotations.tar.gz")
    with pytest.raises(DataError, match="404"):
        fetch("pets")
    assert not (cache / "pets").exists(), "a partial data set"
    found = state(SOURCES["pets"])
    assert found.word == "partial"
    pets.files["pets-annotations.tar.gz"] = annotations
    pets.asked.clear()
    fetch("pets")
    assert pets.asked == [None]


def test_an_archive_may_be_deleted_after_unpacking(pets: Served, cache: Path) -> None:
    fetch("pets")
    for archive in (cache / "archives").iterdir():
        archive.unlink()
    assert state(SOURCES["pets"]).word == "complete"
    pets.asked.clear()
    fetch("pets")
    assert pets.asked == []


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("pets/images/pug_2.jpg", b"changed", "images/pug_2.jpg was changed"),
        ("pets/images/pug_2.jpg", None, f"images/pug_2.jpg: {os.strerror(errno.ENOENT)}"),
        ("pets/annotations/list.txt", b"", "annotations/list.txt was changed"),
        (f"pets/{SUMS}", b"", "and 3 more"),
        (f"pets/{SUMS}", b"\xff", "SHA256SUMS"),
        ("archives/pets-images.tar.gz", b"corrupt", "archives/pets-images.tar.gz"),
    ],
)
def test_damage_is_reported_and_repaired(
    pets: Served, cache: Path, file: str, content: bytes | None, named: str
) -> None:
    fetch("pets")
    if content is None:
        (cache / file).unlink()
    else:
        (cache / file).write_bytes(content)
    found = state(SOURCES["pets"])
    assert found.word == "corrupt"
    assert named in found.detail
    assert "'accelbench data fetch pets'" in found.detail
    fetch("pets")
    assert state(SOURCES["pets"]).word == "complete"


def test_damage_to_unpacked_files_is_repaired_without_network(pets: Served, cache: Path) -> None:
    fetch("pets")
    (cache / "pets/images/pug_2.jpg").unlink()
    pets.asked.clear()
    fetch("pets")
    assert (cache / "pets/images/pug_2.jpg").is_file()
    assert pets.asked == []


def test_a_users_own_folder_is_not_changed(pets: Served, cache: Path) -> None:
    own = cache / "pets" / "images"
    own.mkdir(parents=True)
    (own / "mine.jpg").write_bytes(b"mine")
    with pytest.raises(DataError, match=r"/pets .*'accelbench data fetch pets'"):
        fetch("pets")
    assert (own / "mine.jpg").read_bytes() == b"mine"
    assert pets.asked == [], "800 MB would be downloaded before the error"
    assert state(SOURCES["pets"]).word == "corrupt"


def test_leftovers_of_a_killed_fetch_are_removed(pets: Served, cache: Path) -> None:
    (cache / ".pets-killed" / "new").mkdir(parents=True)
    fetch("pets")
    assert not (cache / ".pets-killed").exists()


@pytest.mark.parametrize("name", ["../outside.txt", "/tmp/outside.txt", "a/../../outside.txt"])
def test_an_archive_cannot_write_outside_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path, name: str
) -> None:
    for set_, content in (("pets", tar({name: b"evil"})), ("har", zipped({name: b"evil"}))):
        contents = [content, pets_tars()[1]][: len(SOURCES[set_].files)]
        declare(monkeypatch, set_, *contents)
        paths = [tmp_path / f"given {place}" for place in range(len(contents))]
        for path, given in zip(paths, contents, strict=True):
            path.write_bytes(given)
        with pytest.raises(DataError, match=re.escape(repr(name))):
            fetch(set_, paths)
        assert sorted(path.name for path in cache.iterdir() if not path.name.endswith(".lock")) == ["archives"]
        assert not list(tmp_path.rglob("outside.txt"))


def test_links_and_devices_are_not_unpacked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, kind in (("images", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("null", tarfile.CHRTYPE)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc"
            archive.addfile(entry)
    contents = buffer.getvalue(), pets_tars()[1]
    declare(monkeypatch, "pets", *contents)
    for name, content in zip("ab", contents, strict=True):
        (tmp_path / name).write_bytes(content)
    fetch("pets", [tmp_path / "a", tmp_path / "b"])
    assert not any(os.path.lexists(cache / "pets" / name) for name in ("images", "hard", "null"))


def test_an_archive_inside_an_archive_is_unpacked_and_accepted_by_itself(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path
) -> None:
    outer, inner = har_zip()
    source = declare(monkeypatch, "har", outer, url=NOWHERE)
    redeclare(monkeypatch, "har", (replace(source.files[0], inner_sha256=sha256(inner)),))
    trees = []
    for content in (outer, inner):
        local = tmp_path / "har of mine.zip"
        local.write_bytes(content)
        fetch("har", [local])
        assert state(SOURCES["har"]).word == "complete"
        trees.append(tree(cache / "har"))
        (cache / "har").rename(tmp_path / f"har{len(trees)}")
        (cache / "archives/har.zip").unlink()
    assert trees[0] == trees[1]
    assert len(trees[0]) == 1 + 1 + 2 * 11
    assert not any("MACOSX" in name or "DS_Store" in name for name in trees[0])


def test_given_files_are_identified_by_content(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    images, annotations = pets_tars()
    declare(monkeypatch, "pets", images, annotations)
    (tmp_path / "a").write_bytes(annotations)
    (tmp_path / "b").write_bytes(images)
    assert fetch("pets", [tmp_path / "a", tmp_path / "b"]) == cache / "pets"
    assert (cache / "archives/pets-images.tar.gz").stat().st_mode & 0o777 == 0o644


def test_a_given_folder_is_searched_for_the_published_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    images, annotations = pets_tars()
    source = declare(monkeypatch, "pets", images, annotations)
    published = ("images.tar.gz", "annotations.tar.gz")
    redeclare(
        monkeypatch,
        "pets",
        tuple(replace(file, url=NOWHERE + name) for file, name in zip(source.files, published, strict=True)),
    )
    stick = tmp_path / "stick"
    stick.mkdir()
    with pytest.raises(DataError, match=r"stick .*annotations\.tar\.gz, images\.tar\.gz"):
        fetch("pets", [stick])
    (stick / "images.tar.gz").write_bytes(images)
    (stick / "annotations.tar.gz").write_bytes(annotations)
    assert fetch("pets", [stick]).is_dir()


def test_an_unrelated_given_file_is_rejected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    declare(monkeypatch, "mnist", b"digits")
    (tmp_path / "other.npz").write_bytes(b"other")
    with pytest.raises(DataError, match=r"other\.npz is not mnist: .*[0-9a-f]{64}, .*[0-9a-f]{64}$"):
        fetch("mnist", [tmp_path / "other.npz"])
    with pytest.raises(DataError, match=os.strerror(errno.ENOENT)):
        fetch("mnist", [tmp_path / "missing.npz"])
    assert not cache.exists()


def test_a_local_copy_replaces_a_download(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    declare(monkeypatch, "mnist", b"digits")
    (tmp_path / "copied").write_bytes(b"digits")
    cache.mkdir()
    (cache / "mnist.npz").write_bytes(b"corrupt")
    (cache / "mnist.npz.part").write_bytes(b"dig")
    path = fetch("mnist", [tmp_path / "copied"])
    assert path.read_bytes() == b"digits"
    assert path.stat().st_mode & 0o777 == 0o644
    assert sorted(file.name for file in cache.iterdir()) == [".mnist.lock", "mnist.npz"]


def test_without_a_home_directory_the_offline_data_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_entry(user: int) -> None:
        raise KeyError(user)

    for variable in ("HOME", "XDG_CACHE_HOME", CACHE_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", no_entry)
    monkeypatch.chdir(tmp_path)
    assert len(load_mnist().x_train) == 4500
    assert len(load_har().x_train) > 4000
    with pytest.raises(DataError, match=CACHE_VARIABLE):
        fetch("mnist")
    assert CACHE_VARIABLE in state(SOURCES["mnist"]).detail
    assert list(tmp_path.iterdir()) == []


def test_a_data_folder_without_permission_counts_as_empty(cache: Path, request: pytest.FixtureRequest) -> None:
    cache.mkdir()
    cache.chmod(0)
    request.getfixturevalue("plain_user")
    assert not SOURCES["mnist"].present
    found = state(SOURCES["mnist"])
    assert (found.word, found.detail) == ("absent", f"cannot read {cache}: {os.strerror(errno.EACCES)}")


@pytest.mark.parametrize("folder", ["/proc/accelbench", "/dev/null/accelbench", "/dev/null"])
def test_an_impossible_data_folder_is_reported_in_one_line(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, folder)
    with pytest.raises(DataError, match="mnist: ") as raised:
        fetch("mnist")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("minst", "'mnist'"),
        ("pet", "'pets'"),
        ("cifar", "mnist, imdb, har, pets"),
        ("embryo", "embryo/CLASS/IMAGE"),
    ],
)
def test_an_unknown_data_set_is_reported_with_the_known_ones(name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        find(name)


def test_published_checksums_have_the_right_form(cache: Path) -> None:
    for source in SOURCES.values():
        for file in source.files:
            assert all(len(sum_) == 64 and int(sum_, 16) for sum_ in file.sums)
            assert file.url.startswith("https://")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder's pipe"])
def test_special_files_are_rejected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path, kind: str) -> None:
    declare(monkeypatch, "mnist", b"digits")
    place = tmp_path / "mnist.npz"
    if kind == "device":
        place.symlink_to("/dev/zero")
    else:
        os.mkfifo(place)
    with pytest.raises(DataError, match=r"[Nn]o.* mnist\.npz|regular file: .*mnist\.npz"):
        fetch("mnist", [tmp_path if kind == "folder's pipe" else place])
    assert not cache.exists()


@pytest.mark.parametrize("name", ["pets/images/mine.jpg", "pets/mine/pug_2.jpg", "pets/link"])
def test_additional_files_are_reported_and_never_removed(pets: Served, cache: Path, name: str) -> None:
    fetch("pets")
    mine = cache / name
    mine.parent.mkdir(exist_ok=True)
    if name.endswith("link"):
        mine.symlink_to("/etc")
    else:
        mine.write_bytes(b"mine")
    (cache / "pets" / "images" / ".DS_Store").write_bytes(b"left by a file manager")
    found = state(SOURCES["pets"])
    assert (found.word, name.removeprefix("pets/") in found.detail) == ("extended", True)
    assert fetch("pets") == cache / "pets", "an extended set is usable"
    (cache / "pets" / "images" / "pug_2.jpg").write_bytes(b"changed")
    with pytest.raises(DataError, match=re.escape(name.removeprefix("pets/"))):
        fetch("pets")
    assert mine.exists()
    assert sorted(path.name for path in cache.iterdir()) == [".pets.lock", "archives", "pets"]
    mine.unlink()
    fetch("pets")
    assert state(SOURCES["pets"]).word == "complete"


def test_a_checksum_list_changed_together_with_its_file_is_detected(pets: Served, cache: Path) -> None:
    fetch("pets")
    image, sums = cache / "pets/images/pug_2.jpg", cache / "pets" / SUMS
    before = sha256(image.read_bytes())
    image.write_bytes(b"changed")
    sums.write_text(sums.read_text().replace(before, sha256(b"changed")))
    found = state(SOURCES["pets"])
    assert found.word == "corrupt"
    assert "images/pug_2.jpg" in found.detail
    fetch("pets")
    assert image.read_bytes() != b"changed"
    (cache / "pets" / "added").write_bytes(b"added")
    sums.write_text(f"{sums.read_text()}{sha256(b'added')}  added\n")
    found = state(SOURCES["pets"])
    assert found.word == "corrupt"
    assert found.detail.startswith("added ")


def test_without_archives_a_set_is_verified_by_its_checksum_list(pets: Served, cache: Path) -> None:
    fetch("pets")
    assert state(SOURCES["pets"]).detail == str(cache / "pets")
    for archive in (cache / "archives").iterdir():
        archive.unlink()
    found = state(SOURCES["pets"])
    assert found.word == "complete"
    assert found.detail.startswith(f"{cache / 'pets'}, ")
    assert found.detail.endswith(SUMS)


def test_a_file_replaced_by_a_pipe_is_reported_without_blocking(pets: Served, cache: Path) -> None:
    fetch("pets")
    image = cache / "pets/images/pug_2.jpg"
    image.unlink()
    os.mkfifo(image)
    assert "images/pug_2.jpg: " in state(SOURCES["pets"]).detail
