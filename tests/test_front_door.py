"""What a stranger tries first: the Makefile's targets, and the README's example."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Run, environment, records

ROOT = Path(__file__).parent.parent


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", *arguments], cwd=ROOT, env=environment(), capture_output=True, text=True
    )


def test_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (help .*)$", makefile, re.MULTILINE)
    shown = make("help").stdout
    assert all(f"make {target} " in shown for target in phony.split())


@pytest.mark.slow
def test_bench_with_a_given_interpreter_installs_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = make(
        *("bench", f"PYTHON={sys.executable}", "VENV=", "DEVICE=cpu", f"OUT={out}"),
        *("BENCH=behave nqueens", "PARAMS=us=100,200 impl=tuned cores=all queens=6"),
    )
    assert process.returncode == 0, process.stderr
    assert [record["point"]["params"] for record in records(out)] == [
        {"us": 100},
        {"us": 200},
        {"impl": "tuned", "cores": "all", "queens": 6},
    ]


@pytest.mark.parametrize(
    ("target", "variable"), [("report", "RUN"), ("resume", "RUN"), ("bench", "BENCH"), ("container-bench", "FLAGS")]
)
def test_what_is_given_to_a_target_is_a_word_and_no_command(target: str, variable: str, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    for given in (f"x; touch {stranger}", f"x'; touch {stranger}; '", f"`touch {stranger}`"):
        assert make(target, f"PYTHON={sys.executable}", "VENV=", f"{variable}={given}", "ENGINE=none").returncode != 0
        assert not stranger.exists()


def test_bench_passes_on_a_wrong_suite_and_a_failure() -> None:
    process = make("bench", f"PYTHON={sys.executable}", "VENV=", "SUITE=quik")
    assert process.returncode != 0
    assert "no suite is called 'quik'" in process.stderr


@pytest.mark.slow
def test_a_device_that_is_not_there_is_said_before_anything_is_installed(tmp_path: Path) -> None:
    process = make("bench", f"PYTHON={sys.executable}", f"VENV={tmp_path / 'venv'}", "DEVICE=tpu")
    assert process.returncode != 0
    assert "accelbench: no TPU" in process.stderr
    assert not list((tmp_path / "venv").glob(".installed*"))


@pytest.mark.slow
def test_the_readmes_benchmark_runs_as_it_stands(accelbench: Run, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (imports,) = re.findall(r"with `(from profiling.benchmark import [^`]*)`", readme)
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "saxpy.py").write_text(f"from __future__ import annotations\n\n{imports}\n\n\n{example}")
    process = accelbench(
        "run", "saxpy", "--param", "n=1000", "--no-ceilings", "--device", "cpu", ACCELBENCH_PATH=str(folder)
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "1 of 1 points measured and verified" in process.stdout


@pytest.mark.slow
def test_the_benchmark_of_the_contributors_page_is_a_share_of_its_own_ceiling(accelbench: Run, tmp_path: Path) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "fft.py").write_text(example, encoding="utf-8")
    out = tmp_path / "out"
    process = accelbench(
        *("run", "fft", "--param", "points=1024", "--no-ceilings", "--device", "cpu", "--out", out),
        ACCELBENCH_PATH=str(folder),
    )
    assert process.returncode == 0, process.stdout + process.stderr
    bounds = [record["bound"] for record in records(out)]
    assert [(bound["dtype"], bound["cores"]) for bound in bounds] == [("float64", "one"), ("float32", "one")]


def test_every_link_of_the_pages_leads_to_something() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("containers/**/*.md")]
    assert len(pages) > 5
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for file, heading in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", text):
            target = page.parent / file if file else page
            assert target.exists(), f"{page.name} links to {file}"
            if heading:
                titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
                slugs = {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}
                assert heading in slugs, f"{page.name} links to {file}#{heading}"
