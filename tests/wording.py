"""Count of vague words in the project's prose: docstrings, messages, comments and pages.

``python -m tests.wording PATH ...`` prints every occurrence as file, line and text.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
VAGUE = re.compile(
    r"\b(tells?|told|says?|said|asks?|asked for|beside|whose|nobody('s)?|in words|so (many|much)"
    r"|(that|those) of|what (is|was|are|were)|whatever|nothing of|meanwhile|goes on|gone on|as it (is|was))\b",
    re.IGNORECASE,
)
"""Words with unclear reference, or that personify code."""
WORDS_OF_PROSE = 4
"""Minimum number of words; shorter strings are names, keys and labels."""
ALLOWED = {"tests/wording.py"}
"""Files that define the words and are not counted."""


@dataclass(frozen=True)
class Passage:
    """A docstring, message, comment or line of a page, with its position."""

    path: Path
    line: int
    text: str

    @property
    def words(self) -> int:
        """Number of words."""
        return len(self.text.split())

    @property
    def vague(self) -> list[str]:
        """Vague words of the text, in order."""
        return [match.group() for match in VAGUE.finditer(self.text)]


def _strings(path: Path, source: str) -> Iterator[Passage]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Passage(path, node.lineno, node.value)


def _comments(path: Path, source: str) -> Iterator[Passage]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Passage(path, token.start[0], token.string.lstrip("#! "))


def _lines(path: Path, source: str) -> Iterator[Passage]:
    for number, line in enumerate(source.splitlines(), 1):
        yield Passage(path, number, line)


def passages(path: Path) -> Iterator[Passage]:
    """Yield the prose of a file: a Python file's strings and comments, every line of any other file."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        found: Iterable[Passage] = [*_strings(path, source), *_comments(path, source)]
    else:
        found = _lines(path, source)
    return (passage for passage in found if passage.words >= WORDS_OF_PROSE)


def files(*places: str) -> list[Path]:
    """Return the tracked files with prose under places, which are relative to the repository."""
    kinds = (".py", ".md", ".toml", ".sh", ".def", ".cu", ".cuh", ".cpp", ".h", ".c")
    listed = subprocess.run(["git", "ls-files", "--", *places], cwd=ROOT, check=True, capture_output=True, text=True)
    names = [name for name in listed.stdout.splitlines() if name not in ALLOWED]
    found = [ROOT / name for name in names if name.endswith(kinds) or Path(name).name in ("Makefile", "Dockerfile")]
    return [path for path in found if path.is_file() and not path.is_symlink()]


def main() -> None:
    """Print the occurrences under the given paths and their number per 1,000 words."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+")
    words = vague = 0
    for path in files(*parser.parse_args().paths):
        for passage in passages(path):
            words += passage.words
            vague += len(passage.vague)
            if passage.vague:
                place = f"{path.relative_to(ROOT)}:{passage.line}"
                print(f"{place}: {', '.join(passage.vague)}: {' '.join(passage.text.split())[:160]}")
    print(f"{vague} vague words of {words}: {1000 * vague / max(words, 1):.1f} in 1,000")


if __name__ == "__main__":
    main()
