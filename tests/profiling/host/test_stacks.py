"""Tests of collapsed stacks: parsing py-spy's output and writing speedscope files."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.host.stacks import (
    Frame,
    Stack,
    merge,
    parse_frame,
    parse_stacks,
    threads_of,
    write_speedscope,
)

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"), exclude_characters=";"), min_size=1)
FILES = st.from_regex(r"[\w./<>+?-]{1,30}", fullmatch=True)
FRAMES = st.builds(Frame, TEXT.filter(lambda name: not name.isspace()), FILES, st.none() | st.integers(0, 10**6))
STACKS = st.dictionaries(
    st.builds(
        Stack,
        st.integers(1, 2**31),
        TEXT.filter(lambda name: name == name.strip()),
        st.lists(FRAMES, min_size=1).map(tuple),
    ),
    st.integers(1, 10**9),
    min_size=1,
    max_size=8,
)


def collapsed(stacks: dict[Stack, int]) -> str:
    """Return these stacks in py-spy's output format."""
    return "".join(
        f"{';'.join([f'thread ({stack.thread}): {stack.thread_name}', *map(str, stack.frames)])} {count}\n"
        for stack, count in stacks.items()
    )


REAL = """\
thread (30595): MainThread;0x7f7e3fc4524a (libc.so.6);<module> (a.py:9);spin (a.py:4);math_1 (mathmodule.c:1118) 16
thread (30597): input_0;Thread.run (threading.py:982);clock_nanosleep (libc.so.6) 59
thread (0x1F);pybind11::initialize<init(module_&)::$_58>(int, char const*)::{lambda(call&)#1} (_pywrap.so);0x7f (?) 2
"""


def test_parsing_of_pyspys_output() -> None:
    stacks = parse_stacks(REAL)
    assert threads_of(stacks) == {30595: "MainThread", 30597: "input_0", 31: ""}
    busy, waiting, native = stacks
    assert [frame.name for frame in busy.frames] == ["0x7f7e3fc4524a", "<module>", "spin", "math_1"]
    assert [frame.is_python for frame in busy.frames] == [False, True, True, False]
    assert busy.python_only().frames == (Frame("<module>", "a.py", 9), Frame("spin", "a.py", 4))
    assert waiting.frames[-1] == Frame("clock_nanosleep", "libc.so.6", None)
    assert native.frames[0].name == "pybind11::initialize<init(module_&)::$_58>(int, char const*)::{lambda(call&)#1}"
    assert native.frames[1].file == "?"
    assert list(stacks.values()) == [16, 59, 2]


def test_parsing_of_stacks_without_threads() -> None:
    (stack,) = parse_stacks("<module> (a.py:1);main (a.py:2) 7\n")
    assert stack == Stack(None, "", (Frame("<module>", "a.py", 1), Frame("main", "a.py", 2)))


@settings(deadline=None, max_examples=30)
@given(STACKS)
def test_any_stacks_survive_writing_and_parsing(stacks: dict[Stack, int]) -> None:
    assert parse_stacks(collapsed(stacks)) == stacks


@pytest.mark.slow
@settings(deadline=None, max_examples=10)
@given(STACKS, STACKS)
def test_two_merged_windows_are_their_sum(a: dict[Stack, int], b: dict[Stack, int]) -> None:
    assert merge([a, b]) == Counter(a) + Counter(b) == parse_stacks(collapsed(a) + collapsed(b))


@given(st.text(st.characters(exclude_characters="\n")))
def test_any_text_is_a_frame(text: str) -> None:
    frame = parse_frame(text)
    assert frame.name in text
    assert frame.file in text


@pytest.mark.parametrize("line", ["main (a.py:1)", "main (a.py:1) x", "7", "main -3", "main 1.5"])
def test_a_line_in_another_format_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(line))):
        parse_stacks(REAL + line)


def test_an_empty_file_has_no_stacks() -> None:
    assert parse_stacks("") == parse_stacks("\n \n") == Counter()


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(STACKS)
def test_a_speedscope_file_contains_every_sample(
    tmp_path_factory: pytest.TempPathFactory, stacks: dict[Stack, int]
) -> None:
    path = tmp_path_factory.mktemp("speedscope") / "host.json"
    write_speedscope(stacks, path, "Host time")
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    assert all(frame.keys() <= {"name", "file", "line", "col"} and frame["name"] for frame in frames)
    read: Counter[tuple[str, ...]] = Counter()
    for profile in document["profiles"]:
        assert (profile["type"], profile["unit"], profile["startValue"]) == ("sampled", "none", 0)
        assert profile["endValue"] == sum(profile["weights"])
        for sample, weight in zip(profile["samples"], profile["weights"], strict=True):
            read[tuple(frames[index]["name"] for index in sample)] += weight
    expected: Counter[tuple[str, ...]] = Counter()
    for stack, count in stacks.items():
        expected[tuple(frame.name for frame in stack.frames)] += count
    assert read == expected


def test_each_thread_is_a_separate_profile(tmp_path: Path) -> None:
    write_speedscope(parse_stacks(REAL), tmp_path / "host.json", "Host time")
    profiles = json.loads((tmp_path / "host.json").read_text())["profiles"]
    assert [profile["name"] for profile in profiles] == ["MainThread (30595)", "input_0 (30597)", "thread (31)"]
