"""Tests of results in stores and on standard input: written by `gate` and `pack`, read by `fleet`."""

from __future__ import annotations

import io
import json
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from accelbench import remote_folder
from accelbench.__main__ import main
from accelbench.errors import UserError
from accelbench.execution.store import Label
from accelbench.fleet.documents import read_documents
from accelbench.gate import node_gate
from accelbench.gate.answer import GateAnswer
from accelbench.gate.answer_file import AnswerFile
from accelbench.pack.write import write_pack
from accelbench.remote_folder import BATCH_FILES, REQUEST_BYTES, RemoteFolder
from tests.accelbench.fleet.test_fleet import document, write_answer, write_fleet
from tests.fixtures.compare_runs import measured, run, samples

Captured = pytest.CaptureFixture[str]
STORE = "memory://bucket/results"


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryFileSystem:
    """Empty store in memory; bundles are unpacked in the test's folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setattr(MemoryFileSystem, "pseudo_dirs", [""])
    return MemoryFileSystem()


def copy_to_store(store: MemoryFileSystem, folder: Path, name: str = "bucket/results") -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            store.pipe_file(f"/{name}/{path.relative_to(folder)}", path.read_bytes())


def give_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


def test_answers_in_a_folder_a_store_and_on_standard_input_give_the_same_result(
    tmp_path: Path, store: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    folder = tmp_path / "gates"
    write_fleet(folder, BATCH_FILES + 4, slow=[3, 7])
    expected = document(capsys, folder)
    assert expected["odd_nodes"] == 2
    copy_to_store(store, folder)
    assert document(capsys, f"{STORE}/") == expected
    assert document(capsys, STORE, f"file://{folder}", "memory://bucket") == expected, "copies count once"
    texts = [path.read_text(encoding="utf-8") for path in folder.iterdir()]
    give_input(monkeypatch, "".join(texts).encode())
    assert document(capsys, "-") == expected
    lines = "\n".join(json.dumps(json.loads(text)) for text in reversed(texts))
    give_input(monkeypatch, lines.encode())
    assert document(capsys, "-", STORE) == expected


def test_runs_and_bundles_in_a_store_are_read_like_those_in_a_folder(
    tmp_path: Path, store: MemoryFileSystem, capsys: Captured
) -> None:
    runs = []
    for number in range(8):
        label = Label(tags=(f"node=n{number}",)) if number else Label()
        records = [measured(samples(1.5 if number == 4 else 1.0 + number / 5000, 500, spread=0.001, seed=number))]
        runs.append(run(tmp_path / "made" / f"unnamed-{number}", records, label=label))
    write_pack(runs[:2], tmp_path / "made" / "complete.tar.xz")
    write_pack(runs[2:5], tmp_path / "made" / "cut.tar.xz", part_mib=0.01)
    assert len(list((tmp_path / "made").glob("cut.tar.xz.part*"))) > 1
    for packed in runs[:5]:
        shutil.rmtree(packed.path)
    (runs[5].path / "logs").mkdir()
    (runs[5].path / "logs" / "other.json").write_text("{}", encoding="utf-8")
    expected = document(capsys, tmp_path / "made")
    assert (expected["nodes"], [row["name"] for row in expected["rows"]]) == (8, ["n4"])
    copy_to_store(store, tmp_path / "made")
    assert document(capsys, STORE) == expected
    one = document(capsys, f"{STORE}/unnamed-5")
    assert (one["nodes"], one["skipped"]) == (1, [])
    assert document(capsys, f"{STORE}/complete.tar.xz")["nodes"] == 2


def test_nodes_without_a_name_are_named_by_their_file(
    tmp_path: Path, store: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for number in range(5):
        path = write_answer(tmp_path / "gates", "", [100.0], id=f"i{number}", file=f"rack1-n{number}")
    copy_to_store(store, tmp_path / "gates")

    def nodes(*words: str) -> set[str]:
        assert main(["fleet", *words, "--format", "csv"]) == 0
        return {line.split(",")[2] for line in capsys.readouterr().out.splitlines()[1:]}

    assert nodes(STORE) == {f"rack1-n{number}" for number in range(5)}
    assert nodes(f"{STORE}/{path.name}") == {path.stem}
    give_input(monkeypatch, path.read_bytes())
    assert nodes("-") == {"i4"}


def test_bad_content_of_a_store_is_skipped_and_its_names_are_no_paths(
    tmp_path: Path, store: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    write_fleet(tmp_path / "gates", 6)
    copy_to_store(store, tmp_path / "gates")
    good = (tmp_path / "gates" / "n0.json").read_bytes()
    for name, content in {
        "../../escaped.json": good.replace(b'"n0"', b'"n8"'),
        ".hidden.json": good.replace(b'"n0"', b'"n8"'),
        "/etc/absolute.json": good.replace(b'"n0"', b'"n9"'),
        "text.txt": b"no result",
        "large.json": good + b" " * (1 << 20),
        "empty.json": b"",
        "cut.json": good[:100],
        "\x1b[31mred.json": b"{}",
        "half/run.json": b"{",
        "damaged.tar.xz": b"no archive",
        "lone.tar.xz.part2of3": b"x",
    }.items():
        store.pipe_file(f"/bucket/results/{name}", content)
    before = sorted(tmp_path.rglob("*"))
    found = document(capsys, STORE)
    assert found["nodes"] == 7, "the one with the absolute name is an answer like others"
    for name in ("large", "empty", "cut", "red", "half", "damaged", "lone"):
        (reason,) = [reason for reason in found["skipped"] if name in reason]
        assert f"{STORE}/" in reason
        assert "/tmp" not in reason
        assert ("1,048,576" in reason) == (name == "large")
    assert len(found["skipped"]) == 7
    assert [path for path in sorted(tmp_path.rglob("*")) if "cache" not in path.parts] == before


def test_a_download_has_the_listed_size_however_large_the_file_is_now(tmp_path: Path, store: MemoryFileSystem) -> None:
    content = bytes(range(256)) * (REQUEST_BYTES // 128)
    for name in ("grows", "shrinks", "stays", "goes"):
        store.pipe_file(f"/bucket/results/{name}", content)
    folder = RemoteFolder(STORE)
    targets = {tmp_path / file.name: file for file in folder.files()}
    store.pipe_file("/bucket/results/grows", content + b"more")
    store.pipe_file("/bucket/results/shrinks", content[:-1])
    store.rm_file("/bucket/results/goes")
    assert {path.name for path in folder.download(targets)} == {"shrinks", "goes"}
    assert {(tmp_path / name).read_bytes() == content for name in ("grows", "stays")} == {True}


@pytest.mark.parametrize(
    ("content", "documents"),
    [
        (b"", []),
        (b' {"a": 1}{"b": {}}\n\n{"c": "\\n{"}', ['{"a": 1}', '{"b": {}}', '{"c": "\\n{"}']),
        (b'Pulling image\n{\n "a": 1\n}\n', ["Pulling image\n", '{\n "a": 1\n}']),
        (b'{"a": \n{"b": 1}\n', ['{"a": \n', '{"b": 1}']),
        (b'{"cut": 1, "x', ['{"cut": 1, "x']),
        (b"[" * 100_000 + b'\n{"a": 1}', ["[" * 100_000 + "\n", '{"a": 1}']),
        (b'\xff\n{"a": 1}', ["\ufffd\n", '{"a": 1}']),
    ],
    ids=["empty", "concatenated", "log line", "cut off", "end", "nested", "binary"],
)
def test_standard_input_is_split_into_documents(content: bytes, documents: list[str]) -> None:
    assert list(read_documents(io.BytesIO(content))) == documents


def test_other_text_on_standard_input_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    good = write_answer(tmp_path, "n0", [1.0]).read_bytes()
    give_input(monkeypatch, b"error: no GPU\n" + good + b'{"command": "run"}\n' + good[:50])
    found = document(capsys, "-")
    assert (found["nodes"], len(found["skipped"])) == (1, 3)
    give_input(monkeypatch, b"")
    assert main(["fleet", "-"]) == 2


def test_the_gates_answer_is_written_to_a_folder_a_file_or_a_store(
    tmp_path: Path, store: MemoryFileSystem, capsys: Captured
) -> None:
    answer = GateAnswer.model_validate_json(write_answer(tmp_path, "../n/1", [1.0], file="x", id="i").read_bytes())
    for destination in (f"{tmp_path / 'new' / 'folder'}", f"file://{tmp_path / 'n1.json'}", STORE, f"{STORE}/n1.json"):
        AnswerFile(destination).write(answer)
    written = [*(tmp_path / "new").rglob("*.json"), tmp_path / "n1.json"]
    assert [path.relative_to(tmp_path).as_posix() for path in written] == ["new/folder/n-1-i.json", "n1.json"]
    assert sorted(store.find("/bucket")) == ["/bucket/results/n-1-i.json", "/bucket/results/n1.json"]
    contents = [path.read_bytes() for path in written] + [store.cat(path) for path in store.find("/bucket")]
    assert [GateAnswer.model_validate_json(content) for content in contents] == [answer] * 4
    (tmp_path / "file").touch()
    with pytest.raises(UserError):
        AnswerFile(f"{tmp_path / 'file'}").write(answer)


@pytest.mark.parametrize(
    ("name", "options"),
    [("", []), ("", ["--anonymous"]), ("/mine.tar.xz", []), ("/mine.tar.xz", ["--part-size", "0.01"])],
)
def test_a_bundle_is_written_to_a_store_and_read_from_it(
    name: str, options: list[str], tmp_path: Path, store: MemoryFileSystem, capsys: Captured
) -> None:
    records = [measured(samples(1.0, seed=number), params={"n": number}) for number in range(30)]
    made = run(tmp_path / "made", records, label=Label(tags=("node=n1",)))
    made.close()
    words = ["pack", str(made.path), "--out", STORE + name, *options]
    assert main(words) == 0
    printed = capsys.readouterr().out
    files = store.find("/bucket/results")
    assert all(f"memory:/{file} " in printed for file in files)
    assert (len(files) > 1) == ("--part-size" in options)
    assert all(file.startswith(f"/bucket/results{name}") for file in files)
    assert document(capsys, STORE)["nodes"] == 1
    if not name:
        assert main(words) == 2, "it exists"
        assert store.find("/bucket/results") == files


def test_the_default_name_is_used_in_a_folder(tmp_path: Path) -> None:
    made = run(tmp_path / "made", [measured(samples(1.0))])
    made.close()
    assert main(["pack", str(made.path), "--out", str(tmp_path)]) == 0
    (pack,) = tmp_path.glob("*.tar.xz")
    assert pack.name.startswith(f"{made.info().created:%Y%m%d-%H%M%S}-")


@pytest.fixture
def silent() -> Iterator[int]:
    """Port of a server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("kind", ["fleet", "pack", "gate"])
@pytest.mark.parametrize("place", ["nowhere", "silent", "unknown protocol", "no package"])
def test_a_store_that_cannot_be_reached_is_a_user_error(
    kind: str, place: str, silent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    url, expected = {
        "nowhere": ("ftp://user:secret@127.0.0.1:1/results", "ftp://user@127.0.0.1:1/results: "),
        "silent": (f"ftp://127.0.0.1:{silent}/results", "no response"),
        "unknown protocol": ("s4://bucket/results", "s4://bucket/results: "),
        "no package": ("s3://bucket/results", "pip install 'accelbench[s3]'"),
    }[place]
    if place == "silent":
        monkeypatch.setattr(remote_folder, "RESPONSE_S", 0.2)
    monkeypatch.setitem(sys.modules, "s3fs", None)  # an ImportError, also where it is installed
    made = run(tmp_path / "made", [measured(samples(1.0))])
    words = {
        "fleet": ["fleet", url],
        "pack": ["pack", str(made.path), "--out", url],
        "gate": ["gate", "--out", url],
    }
    assert main(words[kind]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n"), "secret" in printed.err) == ("", 1, False)
    assert expected in printed.err


def test_a_store_without_results_is_a_user_error(store: MemoryFileSystem, capsys: Captured) -> None:
    store.pipe_file("/bucket/results/notes.txt", b"text")
    assert main(["fleet", STORE]) == 2
    assert main(["fleet", "memory://nothing"]) == 2


def test_an_error_that_the_listing_ignores_is_reported(
    store: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def refuse(self: MemoryFileSystem, path: str, **options: object) -> None:
        raise ConnectionError("refused by the store")

    monkeypatch.setattr(MemoryFileSystem, "ls", refuse)
    assert main(["fleet", STORE]) == 2
    assert "refused by the store" in capsys.readouterr().err


@pytest.mark.parametrize(("verdict", "status"), [("fit", 2), ("unfit", 1), ("unknown", 2)])
def test_an_answer_that_cannot_be_stored_is_printed_and_an_unfit_node_remains_unfit(
    verdict: str,
    status: int,
    tmp_path: Path,
    store: MemoryFileSystem,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    exit_status = {"fit": 0, "unfit": 1, "unknown": 2}[verdict]
    path = write_answer(tmp_path, "n1", [1.0], verdict=verdict, exit_status=exit_status)
    answer = GateAnswer.model_validate_json(path.read_bytes())
    monkeypatch.setattr(node_gate, "check_node", lambda settings: answer)
    store.pipe_file("/bucket/results", b"a file, not a folder")
    assert main(["gate", "--format", "json", "--out", STORE]) == status
    printed = capsys.readouterr()
    assert GateAnswer.model_validate_json(printed.out) == answer
    assert STORE in printed.err
    assert main(["gate", "--format", "jsonl", "--out", "memory://bucket/others"]) == exit_status
    (line,) = capsys.readouterr().out.splitlines()
    assert GateAnswer.model_validate_json(line) == answer
    assert len(store.find("/bucket/others")) == 1
