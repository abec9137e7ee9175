"""What a stranger tries first: the Makefile's targets, and the README's example."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from accelbench.__main__ import cli
from accelbench.run.plan import make_plan
from accelbench.run.suite import load_suite
from accelbench.settings_file import defaults, read_settings
from tests.conftest import Run, environment, records
from tests.fixtures.attempts import attempts

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


def blocks(page: str, language: str) -> list[str]:
    """The code of that language in a page of the documentation."""
    found = re.findall(
        rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found
    return found


@pytest.mark.parametrize("page", ["README.md", "docs/guide.md"])
def test_every_command_line_of_the_documentation_has_options_that_there_are(page: str) -> None:
    lines = [line for code in blocks(page, "sh") for line in code.splitlines() if line.startswith("accelbench ")]
    assert lines
    for line in lines:
        _, name, *words = shlex.split(line, comments=True)
        command = cli.get_command(click.Context(cli), name)
        assert command, line
        command.make_parser(click.Context(command)).parse_args(words)


def test_the_suite_and_the_settings_of_the_guide_are_understood(tmp_path: Path) -> None:
    suite, settings = blocks("docs/guide.md", "toml")
    (tmp_path / "mine.toml").write_text(suite, encoding="utf-8")
    points = make_plan((), load_suite(str(tmp_path / "mine.toml")), "gpu", (), None)
    assert {point.benchmark for point in points} == {"matmul", "cnn-mnist"}
    (tmp_path / "accelbench.toml").write_text(settings, encoding="utf-8")
    file, options = read_settings(tmp_path)
    for name, values in options.items():
        command = cli.get_command(click.Context(cli), name)
        assert command
        assert defaults(file, name, command, values)


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


NO_COMMAND = {
    "report": ["RUN", "PYTHON", "VENV", "SET", "DEVICE"],
    "resume": ["RUN"],
    "tensorboard": ["RUN"],
    "list": ["SET", "DEVICE", "CUDA", "JOBS"],
    "bench": ["BENCH", "SUITE", "PARAMS", "ROUNDS", "BACKEND", "STRATEGY", "OUT", "PROCS", "DEVICE"],
    "gpu-day": ["STAGES", "BUDGET", "OUT"],
    "test": ["PYTEST", "JOBS"],
    "kernels-report": ["KERNELS", "CUDA"],
    "bench-self": ["PART"],
    "reproduce": ["PAPER", "SMALL", "DEVICE"],
}
"""The variables of each target, all of which are tried; those of the containers' targets are tried by their tests."""


@pytest.mark.parametrize("target", NO_COMMAND)
def test_what_is_given_to_a_target_is_text_and_no_command(target: str, tmp_path: Path) -> None:
    """A stand-in for Python does nothing: what is tried is what make and its shell do."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    for variable in NO_COMMAND[target]:
        for value in attempts(tmp_path / "stranger"):
            make(
                target, *(f"{name}={word}" for name, word in ({"PYTHON": python, "VENV": "", variable: value}).items())
            )
            assert not (tmp_path / "stranger").exists(), f"make {target} {variable}={value!r}"


@pytest.mark.parametrize("value", ["a'b", 'a"b', "a b", "a;b", "$(shell echo c)", "$$HOME", "a\\b", "#a", "%a", "é"])
def test_what_is_given_arrives_as_it_was_given(value: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nfor word; do :; done; printf %s "$word"\n')
    python.chmod(0o755)
    assert make("report", f"PYTHON={python}", "VENV=", f"RUN={value}").stdout == value


def test_a_value_of_two_lines_is_refused_by_its_name() -> None:
    process = make("report", f"PYTHON={sys.executable}", "VENV=", "RUN=a\nb")
    assert process.returncode == 2
    assert "RUN= has more than one line" in process.stderr


def test_a_quoted_expression_chooses_among_the_tests() -> None:
    options = "-k 'no_such_name or the_readmes_benchmark' --collect-only -q -m slow"
    chosen = make("test", f"PYTHON={sys.executable}", "VENV=", f"PYTEST={options} tests/test_front_door.py")
    assert "deselected" in chosen.stdout, chosen.stdout + chosen.stderr


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
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "saxpy.py").write_text(example, encoding="utf-8")
    words = ("run", "saxpy", "--param", "n=1000", "--no-ceilings", "--device", "cpu")
    process = accelbench(*words, ACCELBENCH_PATH=str(folder))
    assert process.returncode == 0, process.stdout + process.stderr
    assert "1 of 1 points measured and verified" in process.stdout
    wrong = example.replace("np.add(out, y, out=out)", "np.add(out, y, out=out), out.put(7, 5.0)")
    (folder / "saxpy.py").write_text(wrong, encoding="utf-8")
    process = accelbench(*words, ACCELBENCH_PATH=str(folder))
    assert process.returncode == 1
    told = " ".join(process.stdout.split())
    assert re.search(r"wrong answer: the formula on fresh inputs: .*expected -?[\d.]+ at \[7\], found 5\.0", told)


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
