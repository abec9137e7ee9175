"""Wrapped text with indented lines, and tables on terminals of any width."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import RenderableType
from rich.text import Text

from accelbench.export.terminal import new_table
from accelbench.output.console import HangingText, PlainConsole


def shown(renderable: RenderableType, width: int) -> list[str]:
    out = io.StringIO()
    PlainConsole(file=out, width=width).print(renderable)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@given(
    words=st.lists(st.text("abc", min_size=1, max_size=30), min_size=1, max_size=12),
    width=st.integers(12, 90),
    first=st.integers(0, 4),
    rest=st.integers(0, 4),
)
def test_a_hanging_text_keeps_its_words_and_indentation(words: list[str], width: int, first: int, rest: int) -> None:
    lines = shown(HangingText(Text(" ".join(words)), first, rest), width)
    assert max(map(len, lines)) <= width
    assert all(line.startswith(" " * (rest if number else first)) for number, line in enumerate(lines))
    assert "".join("".join(lines).split()) == "".join(words)


ROWS = [("matmul cpu impl=vendor dtype=float32 n=2048", "1.53 TFLOP/s", "±1.4 %", "89 %", "two speeds, few samples")]
HEADERS = ("point", "result (~ noisy)", "interval", "of ceiling", "flags")


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_no_column_of_a_table_vanishes_at_any_width(width: int) -> None:
    table = new_table(*HEADERS, right=HEADERS[1:4], whole=HEADERS[1:4])
    for row in ROWS:
        table.add_row(*map(Text, row))
    lines = shown(table, width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert [word for word in words if word in ["1.53", "TFLOP/s", "±1.4", "89"]] == ["1.53", "TFLOP/s", "±1.4", "89"]
    assert any("speeds" in word for word in words)
    assert all(header.split()[0] in words for header in HEADERS[1:])


def test_an_unknown_value_is_left_out_of_a_block() -> None:
    table = new_table("point", "of ceiling", "result", whole=("result", "of ceiling"))
    table.add_row(Text("matmul"), Text("–"), Text("1.53 TFLOP/s ±1.4 % over 3 repetitions"))
    assert shown(table, 30)[0] == "matmul"
    assert "ceiling" not in " ".join(shown(table, 30))
