"""The command that executes a kernel of one's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.ptx.__main__ import main

pytestmark = pytest.mark.needs("g++")

PAGE = Path(__file__).parents[2] / "docs" / "gpu-without-a-gpu.md"


@pytest.fixture
def example() -> str:
    """The kernel of the page."""
    (found,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(found)


def test_the_kernel_of_the_page_is_executed(example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "reverse.py"
    file.write_text(example)
    assert main([str(file), "3"]) == 0
    file.write_text(example.replace("__syncthreads();", ""))
    assert main([str(file)]) == 1
    assert "uninitialised: " in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["missing.py"], ["empty.py"], ["empty.py", "0"], ["empty.py", "many"]])
def test_invalid_arguments(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
