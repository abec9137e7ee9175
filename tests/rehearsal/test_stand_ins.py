"""Signatures of the NVBench stand-in, compared with the published package (a download of two megabytes)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.requirements import not_tested

PINS = ROOT / "requirements" / "gpu13.txt"
STAND_IN = Path(__file__).parent / "stand_ins" / "cuda" / "bench" / "__init__.py"
Signatures = dict[str, list[list[str]]]


def signatures(source: Path) -> Signatures:
    """Return the positional-only, other and keyword-only parameters of each public function (its first overload)."""
    found: Signatures = {}
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for function in inside:
            if isinstance(function, ast.FunctionDef) and not function.name.startswith(("_", "__init__")):
                parameters = function.args
                kinds = (parameters.posonlyargs, parameters.args, parameters.kwonlyargs)
                found.setdefault(prefix + function.name, [[each.arg for each in kind] for kind in kinds])
    return found


@pytest.mark.needs("package-index")
def test_the_nvbench_stand_in_has_the_signatures_of_nvbench(tmp_path: Path) -> None:
    (pinned,) = re.findall(r"^cuda-bench==.+$", PINS.read_text(encoding="utf-8"), re.MULTILINE)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path), pinned]
    fetched = subprocess.run(pip, capture_output=True, text=True)
    if fetched.returncode != 0:
        not_tested("package-index", f"pip could not install {pinned}: {fetched.stderr.splitlines()[-1]}")
    real, ours = signatures(tmp_path / "cuda" / "bench" / "__init__.pyi"), signatures(STAND_IN)
    assert ours == {name: real.get(name) for name in ours}
