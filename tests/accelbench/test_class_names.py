"""Names of public classes: one name, one class."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("accelbench", "kernels", "profiling", "workloads")
"""Top-level folders with distinct names of public classes."""


def python_files(folder: Path) -> list[Path]:
    """Return the Python files in the folder, without those behind symbolic links."""
    return [file for file in folder.rglob("*.py") if file.resolve().is_relative_to(folder)]


def test_no_public_class_name_is_defined_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for file in python_files(ROOT / package):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(file.relative_to(ROOT)))
    assert "RunStore" in places
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
