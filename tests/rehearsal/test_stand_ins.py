"""The stand-ins have the signatures of what they stand in for, where that is installed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

STAND_IN = Path(__file__).parent / "stand_ins" / "cuda" / "bench" / "__init__.py"
Signatures = dict[str, list[list[str]]]


def signatures(source: Path) -> Signatures:
    """The parameters of each public function: positional-only, other and keyword-only; of its overloads the first."""
    found: Signatures = {}
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for function in inside:
            if isinstance(function, ast.FunctionDef) and not function.name.startswith(("_", "__init__")):
                taken = function.args
                kinds = (taken.posonlyargs, taken.args, taken.kwonlyargs)
                found.setdefault(prefix + function.name, [[each.arg for each in kind] for kind in kinds])
    return found


def test_nvbenchs_stand_in_takes_what_nvbench_takes() -> None:
    stubs = [stub for folder in sys.path if (stub := Path(folder, "cuda", "bench", "__init__.pyi")).is_file()]
    if not stubs:
        pytest.skip("cuda-bench is not installed")
    real, ours = signatures(stubs[0]), signatures(STAND_IN)
    assert ours == {name: real.get(name) for name in ours}
