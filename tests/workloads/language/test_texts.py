"""The text is split by whole files, reproducibly, and the bigram reference is correct."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.workloads.data.cache import CACHE_VARIABLE, DataError
from accelbench.workloads.data.texts import bits_per_byte, is_held_out, load_text, split
from accelbench.workloads.transformer import sequences

names = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=20)
contents = st.dictionaries(names, st.binary(min_size=1, max_size=30), min_size=1, max_size=40)


@given(contents)
def test_each_file_is_completely_in_one_part(files: dict[str, bytes]) -> None:
    parts = [[text for name, text in files.items() if is_held_out(name) is side] for side in (False, True)]
    everything = b"".join(b"".join(part) for part in parts)
    if not all(parts) and len(everything) < 10:
        with pytest.raises(DataError, match="some files"):
            split("some files", files.items())
        return
    text = split("some files", files.items())
    assert text.train.tobytes() + text.held_out.tobytes() == everything
    assert len(text.held_out) == (len(b"".join(parts[1])) if all(parts) else len(everything) // 10)


@given(st.binary(min_size=10, max_size=300), st.integers(1, 20), st.integers(1, 8))
def test_targets_are_the_next_bytes(data: bytes, count: int, length: int) -> None:
    text = np.frombuffer(data, np.uint8)
    x, y = sequences(text, count, length)
    assert x.shape == y.shape == (count, length)
    assert (x[:, 1:] == y[:, :-1]).all()
    for here, after in zip(x, y, strict=True):
        assert bytes([*here, after[-1]]) in data
    assert x[0, 0] == data[0]
    assert count == 1 or y[-1, -1] == data[-1]


def test_the_default_text_is_pythons_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    text = load_text()
    assert "Python 3." in text.source
    assert len(text.train) > 3e6
    assert len(text.held_out) > 2e5
    assert b"def " in text.held_out.tobytes()


def test_a_users_folder_replaces_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    for number in range(40):
        file = tmp_path / "text" / str(number % 3) / f"{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"chapter {number} " * 9, encoding="utf-8")
    text = load_text()
    assert text.source.startswith("0.0 MB of the folder text, ")
    assert " of 40 files" in text.source
    assert len(text.train) + len(text.held_out) == sum(len(f"chapter {number} " * 9) for number in range(40))


def test_hidden_and_binary_files_are_ignored(tmp_path: Path) -> None:
    for name, content in {
        "book.txt": b"a large file " * 100,
        "picture.png": b"\x89PNG\0\0",
        "code/__pycache__/code.pyc": b"cached text",
        ".git/index": b"DIRC\0\0",
        ".git/description": b"hidden text",
        "@eaDir/book.txt@SynoEAStream": b"text of a file server",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    text = load_text(tmp_path)
    assert text.train.tobytes() + text.held_out.tobytes() == b"a large file " * 100
    assert len(text.held_out) == 130


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "0 bytes"), (b"", "0 bytes"), (b"one", "3 bytes"), (b"\x7fELF\0\0", "0 bytes")]
)
def test_a_folder_without_text_is_rejected(tmp_path: Path, content: bytes | None, reason: str) -> None:
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataError, match=reason):
        load_text(tmp_path)


def test_bits_per_byte_of_known_distributions() -> None:
    draw = np.random.default_rng(2)
    uniform = draw.integers(0, 256, 400_000).astype(np.uint8)
    assert bits_per_byte(uniform, uniform[:1000]) == pytest.approx(8, abs=0.4)
    in_turn = np.tile(np.frombuffer(b"abc", np.uint8), 10_000)
    assert bits_per_byte(in_turn, in_turn) < 0.01
    coin = np.where(draw.random(100_000) < 0.5, ord("a"), ord("b")).astype(np.uint8)
    assert bits_per_byte(coin, coin) == pytest.approx(1, abs=0.01)
    assert np.isfinite(bits_per_byte(in_turn, np.frombuffer(b"never met", np.uint8)))
