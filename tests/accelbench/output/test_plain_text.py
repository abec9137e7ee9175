"""A text that came from others is shown, and does nothing."""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from accelbench.output.console import PlainConsole
from accelbench.output.plain_text import may_act, plain, plain_data
from tests.conftest import ROOT

ACTING = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
JSON = st.recursive(st.text() | st.integers() | st.none(), lambda of: st.lists(of) | st.dictionaries(st.text(), of))


@given(st.text())
def test_plain_text_has_no_control_characters_and_loses_nothing_else(text: str) -> None:
    kept = plain(text)
    acting = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
    assert not re.search(acting, kept)
    if "\x1b" not in text:
        assert kept == re.sub(acting, "", text)


def test_plain_text_reads_in_one_direction() -> None:
    assert plain("a\u202eb\u2066c\u200fd\u061ce") == "abcde"


@given(JSON)
def test_data_that_is_read_has_plain_texts_of_one_line_only(data: object) -> None:
    written = json.dumps(plain_data(data), ensure_ascii=False)
    assert not re.search(ACTING, written)
    assert not re.search(r"\\[bfnrt]", written.replace("\\\\", ""))


@given(JSON)
def test_only_json_that_may_act_needs_to_be_made_plain(data: object) -> None:
    for written in (json.dumps(data), json.dumps(data, ensure_ascii=False)):
        if not may_act(written):
            assert plain_data(data) == data


HOSTILE = "\x1b]52;c;aGk=\x07[red]a[/red] :smile: \x1b[2J\u202eb\r\x07"


@pytest.mark.parametrize("shown", [HOSTILE, Text(HOSTILE, style="bold"), Text.assemble((HOSTILE, "red"))])
def test_no_text_acts_on_the_terminal_or_is_markup(shown: str | Text) -> None:
    out = io.StringIO()
    console = PlainConsole(file=out, width=200)
    table = Table(title=str(shown))
    table.add_column(str(shown))
    table.add_row(shown)
    for what in (shown, table):
        console.print(what)
    console.print(shown, style="bold", soft_wrap=True)
    assert not re.search(ACTING, out.getvalue())
    assert out.getvalue().count("[red]a[/red] :smile: b") == 5


OWN_WORDS = {
    "__init__.py": "a line of our own, before anything is imported",
    "__main__.py": "a complaint is made one plain line where it is printed",
    "commands/list.py": "a console would take longer to import; each text is made plain where it is printed",
    "commands/schema.py": "JSON of our own",
    "doctor/gpu_trials.py": "a child's answer to its parent",
    "doctor/traced_process.py": "an empty line to its parent",
    "gpu_day/process.py": "a line of our own in a log",
    "gpu_day/system_facts.py": "a child's lines in a log",
    "pair/server.py": "JSON to a parent",
    "output/console.py": "the one way to the terminal",
}
"""The modules that print by themselves, and why nothing that they print acts on anybody."""


def prints(tree: ast.AST) -> Iterator[str]:
    """The calls by which a text gets to the terminal without `accelbench.output.console`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in ("print", "Console", "sys.stdout.write", "sys.stderr.write") or name.endswith("echo"):
                yield name


def test_nothing_is_printed_but_by_the_plain_console() -> None:
    package = ROOT / "accelbench"
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if any(prints(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found == OWN_WORDS.keys()


def test_no_template_lets_markup_of_others_through() -> None:
    templates = [path.read_text(encoding="utf-8") for path in (ROOT / "accelbench" / "report").rglob("*.html")]
    assert templates
    assert not [template for template in templates if re.search(r"\|\s*safe\b|autoescape", template)]
