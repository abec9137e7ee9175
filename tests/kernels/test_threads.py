"""Compilation of CPU kernels."""

from __future__ import annotations

import ast
from pathlib import Path

from accelbench import kernels

MODULES = sorted(Path(kernels.__file__).parent.rglob("*.py"))
DECORATORS = {"compiled", "parallel"}


def made_in_functions(source: str) -> list[str]:
    """Return the names of kernels defined in a function."""
    return [
        inner.name
        for outer in ast.walk(ast.parse(source))
        if isinstance(outer, ast.FunctionDef)
        for inner in ast.walk(outer)
        if isinstance(inner, ast.FunctionDef) and inner is not outer
        if DECORATORS & {name.id for name in inner.decorator_list if isinstance(name, ast.Name)}
    ]


def test_no_kernel_is_defined_in_a_function_so_that_later_repetitions_can_load_it() -> None:
    assert {path.name: found for path in MODULES if (found := made_in_functions(path.read_text()))} == {}


def test_a_kernel_defined_in_a_function_is_found() -> None:
    assert made_in_functions("def make():\n    @parallel\n    def run(): ...\n    return run\n") == ["run"]
