"""Result documents in each format, with arbitrary text and numbers."""

from __future__ import annotations

import io
import json
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.export.document import Column, DocumentRow, ResultDocument
from accelbench.export.terminal import table_of
from accelbench.output.console import PlainConsole
from accelbench.output.format import UNKNOWN
from accelbench.output.plain_text import one_line, plain

texts = st.text(max_size=20)
values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts, st.lists(texts, max_size=2))
rows = st.builds(
    DocumentRow,
    name=texts,
    values=st.dictionaries(st.sampled_from(["rate", "flags", "a|b"]), values),
    outcome=st.sampled_from(["passed", "failed", "skipped"]),
    reason=texts,
    seconds=st.none() | st.floats(0, 1e6),
)
documents = st.builds(ResultDocument, command=st.just("run"), facts=st.dictionaries(texts, values), rows=st.lists(rows))


@given(documents)
def test_json_has_every_row_and_only_valid_numbers(document: ResultDocument) -> None:
    found = json.loads(document.write("json"), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert [row["outcome"] for row in found["rows"]] == [row.outcome for row in document.rows]
    for row, written in zip(document.rows, found["rows"], strict=True):
        for name, value in row.values.items():
            if not isinstance(value, float) or value - value == 0:
                assert written[name] == value


@given(documents)
def test_all_lines_of_a_markdown_table_have_the_same_number_of_cells(document: ResultDocument) -> None:
    lines = document.write("markdown").split("\n")
    table = lines[lines.index("") + 1 :] if "" in lines else lines
    cells = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in table}
    assert len(table) == len(document.rows) + 2
    assert len(cells) == 1


@given(documents)
def test_junit_is_xml_with_matching_counts(document: ResultDocument) -> None:
    (suite,) = ElementTree.fromstring(document.write("junit"))
    cases = suite.findall("testcase")
    assert suite.attrib["tests"] == str(len(cases)) == str(len(document.rows))
    assert suite.attrib["failures"] == str(len(suite.findall("testcase/failure")))
    assert suite.attrib["skipped"] == str(len(suite.findall("testcase/skipped")))
    for case, row in zip(cases, document.rows, strict=True):
        assert one_line(case.attrib["name"]) == one_line(plain(row.name))
        assert [child.tag for child in case if child.tag != "system-out"] == {
            "passed": [],
            "failed": ["failure"],
            "skipped": ["skipped"],
        }[row.outcome]


def test_a_markdown_table_has_facts_columns_and_rows() -> None:
    row = DocumentRow(
        "matmul n=1024", {"rate": 1234567.0, "unit": "FLOP/s", "flags": ["noisy", "drifts"], "bound": None}
    )
    assert ResultDocument("run", {"run": "A_1"}, [row, DocumentRow("x|y", {}, "failed", "out of memory")]).write(
        "markdown"
    ) == (
        "**run**: A\\_1  \n"
        "\n"
        "|  | rate | unit | flags | outcome | reason |\n"
        "|---|---|---|---|---|---|\n"
        "| matmul n=1024 | 1.235e+06 | FLOP/s | noisy; drifts | passed |  |\n"
        "| x\\|y |  |  |  | failed | out of memory |"
    )


def test_the_terminal_table_shows_all_text_at_any_width() -> None:
    rows = [
        DocumentRow(
            "matmul n=1024", {"a": 1.25, "verdict": "slower", "notes": ["first note", "second note"], "cost": "high"}
        ),
        DocumentRow("stream", {"a": None, "verdict": "same", "notes": [], "cost": ""}),
        DocumentRow("left out", {}),
    ]
    columns = (
        Column("point", ("{name}",), below=("costs: {cost}",)),
        Column("speed", ("× {a:.2f}",), right=True, whole=True),
        Column("verdict", ("{verdict}",), whole=True),
        Column("notes", ("{notes}",)),
    )
    table = table_of(ResultDocument("compare", {}, rows, columns=columns))
    for width in (50, 80, 200):
        console = PlainConsole(file=io.StringIO(), width=width)
        console.print(table)
        assert isinstance(console.file, io.StringIO)
        words = console.file.getvalue().split()
        assert {"matmul", "n=1024", "high", "1.25", "slower", "second", "stream", UNKNOWN} <= set(words)
        assert "left" not in words
        assert words.count("costs:") == 1
