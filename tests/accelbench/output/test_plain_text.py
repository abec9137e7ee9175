"""Tests that untrusted text cannot control the terminal."""

from __future__ import annotations

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from accelbench.output.console import PlainConsole
from accelbench.output.plain_text import may_have_control, plain, plain_data
from tests.conftest import ROOT

CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
JSON = st.recursive(st.text() | st.integers() | st.none(), lambda of: st.lists(of) | st.dictionaries(st.text(), of))


@given(st.text())
def test_plain_removes_only_control_characters(text: str) -> None:
    kept = plain(text)
    control = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
    assert not re.search(control, kept)
    if "\x1b" not in text:
        assert kept == re.sub(control, "", text)


def test_plain_removes_bidirectional_marks() -> None:
    assert plain("a\u202eb\u2066c\u200fd\u061ce") == "abcde"


@given(JSON)
def test_plain_data_has_plain_strings_on_one_line(data: object) -> None:
    written = json.dumps(plain_data(data), ensure_ascii=False)
    assert not re.search(CONTROL, written)
    assert not re.search(r"\\[bfnrt]", written.replace("\\\\", ""))


@given(JSON)
def test_data_without_control_characters_is_unchanged(data: object) -> None:
    for written in (json.dumps(data), json.dumps(data, ensure_ascii=False)):
        if not may_have_control(written):
            assert plain_data(data) == data


HOSTILE = "\x1b]52;c;aGk=\x07[red]a[/red] :smile: \x1b[2J\u202eb\r\x07"


@pytest.mark.parametrize("shown", [HOSTILE, Text(HOSTILE, style="bold"), Text.assemble((HOSTILE, "red"))])
def test_console_output_has_no_control_characters_and_no_markup(shown: str | Text) -> None:
    out = io.StringIO()
    console = PlainConsole(file=out, width=200)
    table = Table(title=str(shown))
    table.add_column(str(shown))
    table.add_row(shown)
    for what in (shown, table):
        console.print(what)
    console.print(shown, style="bold", soft_wrap=True)
    assert not re.search(CONTROL, out.getvalue())
    assert out.getvalue().count("[red]a[/red] :smile: b") == 5


def test_no_template_disables_escaping() -> None:
    templates = [path.read_text(encoding="utf-8") for path in (ROOT / "accelbench" / "report").rglob("*.html")]
    assert templates
    assert not [template for template in templates if re.search(r"\|\s*safe\b|autoescape", template)]
