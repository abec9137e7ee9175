"""The project's prose uses the terms of the field: vague words stay rare in every folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wording import files, passages

MOST_VAGUE = 1.5
"""Vague words in 1,000."""


@pytest.mark.parametrize(
    "place", ["accelbench", "kernels", "profiling", "workloads", "containers", "tests", "docs", ":(glob)*.md"]
)
def test_vague_words_are_rare(place: str) -> None:
    found = [passage for path in files(place) for passage in passages(path)]
    words, vague = sum(passage.words for passage in found), sum(len(passage.vague) for passage in found)
    assert words > 1000
    assert vague / words <= MOST_VAGUE / 1000, f"list them: python -m tests.wording '{place}'"


def test_vague_words_are_found_in_docstrings_messages_comments_and_pages(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    lines = [
        '"""What is told of nobody here."""',
        'NAME = "said"',
        'ERROR = "the file says so much"  # whose is that of it?',
    ]
    module.write_text("\n".join(lines))
    page = tmp_path / "page.md"
    page.write_text("# A page\nIt asks for a file, beside what was asked for.\n")
    vague = [[word.lower() for word in passage.vague] for path in (module, page) for passage in passages(path)]
    assert vague == [
        ["what is", "told", "nobody"],
        ["says", "so much"],
        ["whose", "that of"],
        ["asks", "beside", "what was", "asked for"],
    ]
