"""Tests of the entry points: targets of the Makefile, and examples in README, guide and CONTRIBUTING."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import click
import pytest

import accelbench
from accelbench.__main__ import cli
from accelbench.execution.plan import make_plan
from accelbench.execution.suite import load_suite
from accelbench.settings.options_file import defaults, read_settings
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
    assert {*phony.split()} <= {*shown.split()}


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a language in a page of the documentation."""
    found = re.findall(
        rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found
    return found


@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/{name}.md" for name in ("acceptance", "diagnose", "fleet", "gate", "guide", "soak"))]
)
def test_every_command_line_in_the_documentation_has_valid_options(page: str) -> None:
    lines = [line for code in blocks(page, "sh") for line in code.splitlines()]
    commands = [line.removeprefix("accelbench ") for line in lines if line.startswith("accelbench ")]
    commands += [line.partition("$bench ")[2].removesuffix("'") for line in lines if "$bench " in line]
    assert commands
    for line in commands:
        name, *words = shlex.split(line, comments=True)
        command = cli.get_command(click.Context(cli), name)
        assert command, line
        command.make_parser(click.Context(command, **command.context_settings)).parse_args(words)


def test_the_suite_and_the_settings_in_the_guide_are_valid(tmp_path: Path) -> None:
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
def test_the_python_example_in_the_guide_runs(tmp_path: Path) -> None:
    (code,) = blocks("docs/guide.md", "python")
    command = [sys.executable, "-c", code]
    process = subprocess.run(
        command, cwd=tmp_path, env=environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert lines[0].startswith("dot: ")
    assert float(lines[-1]) > 0
    assert {record["round"] for record in records(next((tmp_path / "runs").glob("*/")))} == {1, 2, 3}


@pytest.mark.slow
def test_bench_with_a_given_interpreter_installs_nothing(tmp_path: Path) -> None:
    process = make(
        *("bench", f"PYTHON={sys.executable}", "VENV=", "DEVICE=cpu", "BENCH=behave nqueens"),
        f"ARGS=--patience 0 --max-seconds 0.2 --out {tmp_path / 'out'} --param us=100,200 "
        "--param impl=tuned --param cores=all --param queens=6",
    )
    assert process.returncode == 0, process.stderr
    points = [str(record["point"]["params"]) for record in records(tmp_path / "out")]
    assert Counter(points) == dict.fromkeys(
        map(str, [{"us": 100}, {"us": 200}, {"impl": "tuned", "cores": "all", "queens": 6}]), 3
    )


VARIABLES = {
    "bench": ["BENCH", "SUITE", "ARGS", "DEVICE", "PYTHON", "VENV", "SET"],
    "report": ["ARGS"],
    "gpu-day": ["ARGS"],
    "test": ["PYTEST", "JOBS"],
    "kernels-report": ["ARGS", "CUDA"],
    "bench-self": ["PART"],
    "fuzz": ["MINUTES"],
}
"""Variables of each kind of target, except for the targets of containers, which have separate tests."""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Create a stand-in for Python that prints its last argument."""
    path = tmp_path / "python"
    path.write_text('#!/bin/sh\nfor word; do :; done; printf %s "$word"\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("target", VARIABLES)
def test_a_value_is_not_executed(target: str, python: Path, tmp_path: Path) -> None:
    for variable in VARIABLES[target]:
        for value in attempts(tmp_path / "injected"):
            values = {"PYTHON": python, "VENV": "", variable: value}
            make(target, *(f"{name}={word}" for name, word in values.items()))
            assert not (tmp_path / "injected").exists(), f"make {target} {variable}={value!r}"


@pytest.mark.parametrize("value", ["a'b", 'a"b', "a b", "a;b", "$(shell echo c)", "$$HOME", "a\\b", "#a", "%a", "é"])
def test_a_value_is_passed_unchanged(value: str, python: Path) -> None:
    arguments = ("bench", f"PYTHON={python}", "VENV=", "DEVICE=cpu")
    assert make(*arguments, f"SUITE={value}").stdout == value
    assert make(*arguments, f"ARGS=--name {value}").stdout == value.split()[-1]


@pytest.mark.parametrize("there", [True, False])
def test_a_command_that_is_not_on_path_has_the_line_that_makes_it_one(there: bool, tmp_path: Path) -> None:
    """The given environment has an interpreter only, so nothing is installed."""
    for file in (tmp_path / "venv" / "bin" / "python", tmp_path / "bin" / "accelbench"):
        file.parent.mkdir(parents=True)
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    (tmp_path / "venv" / ".installed-cpu").touch()
    if not there:
        (tmp_path / "bin" / "accelbench").unlink()
    path = os.pathsep.join([str(tmp_path / "bin"), "/usr/bin", "/bin"])
    command = ["make", "--no-print-directory", f"VENV={tmp_path}/venv", "DEVICE=cpu", "bench"]
    done = subprocess.run(command, cwd=ROOT, env=environment(PATH=path), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == (
        [] if there else [f"for the command accelbench: source {tmp_path}/venv/bin/activate"]
    )


def test_a_value_of_two_lines_and_an_unknown_variable_are_rejected_by_name() -> None:
    for given in ("ARGS=a\nb", "SUIT=quick", "ROUNDS=5", "backend=jax"):
        process = make("bench", f"PYTHON={sys.executable}", "VENV=", given)
        assert process.returncode == 2
        assert given.partition("=")[0] in process.stderr
    assert "ARGS" in process.stderr


def test_a_quoted_expression_selects_tests() -> None:
    options = "-k 'no_such_name or the_readmes_benchmark' --collect-only -q -m slow"
    chosen = make("test", f"PYTHON={sys.executable}", "VENV=", f"PYTEST={options} tests/test_front_door.py")
    assert "deselected" in chosen.stdout, chosen.stdout + chosen.stderr


def test_bench_passes_a_wrong_suite_and_returns_its_failure() -> None:
    process = make("bench", f"PYTHON={sys.executable}", "VENV=", "SUITE=quik")
    assert process.returncode != 0
    assert "'quik'" in process.stderr


@pytest.mark.slow
def test_a_missing_device_is_reported_before_the_installation(tmp_path: Path) -> None:
    process = make("bench", f"PYTHON={sys.executable}", f"VENV={tmp_path / 'venv'}", "DEVICE=tpu")
    assert process.returncode != 0
    assert "accelbench: no TPU" in process.stderr
    assert not list((tmp_path / "venv").glob(".installed*"))


@pytest.mark.slow
def test_the_readmes_benchmark_runs(accelbench: Run, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "saxpy.py").write_text(example, encoding="utf-8")
    words = ("run", "saxpy", "--param", "n=1000", "--no-ceilings", "--device", "cpu")
    process = accelbench(*words, ACCELBENCH_PATH=str(folder))
    assert process.returncode == 0, process.stdout + process.stderr
    assert "1 of 1 points" in process.stdout
    wrong = example.replace("np.add(out, y, out=out)", "np.add(out, y, out=out), out.put(7, 5.0)")
    (folder / "saxpy.py").write_text(wrong, encoding="utf-8")
    process = accelbench(*words, ACCELBENCH_PATH=str(folder))
    assert process.returncode == 1
    printed = " ".join(process.stdout.split())
    assert re.search(r"expected -?[\d.]+ at \[7\], found 5\.0", printed)


@pytest.mark.slow
def test_the_benchmark_in_contributing_declares_its_ceilings(accelbench: Run, tmp_path: Path) -> None:
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


@pytest.fixture(scope="module")
def saxpy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the GPU kernel in CONTRIBUTING and its test to a folder that pytest adds to the kernels."""
    code = [block for block in blocks("CONTRIBUTING.md", "python") if "saxpy" in block]
    folder = tmp_path_factory.mktemp("contributed")
    (folder / "saxpy").mkdir()
    places = (folder / "saxpy" / "__init__.py", folder / "saxpy" / "gpu_numba.py", folder / "test_saxpy.py")
    for place, text in zip(places, code, strict=True):
        place.write_text(text, encoding="utf-8")
    (folder / "added.py").write_text(f"from accelbench import kernels\nkernels.__path__.append({str(folder)!r})\n")
    return folder


def with_saxpy(saxpy: Path, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(saxpy), str(ROOT)])
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment(PYTHONPATH=path, **changes), capture_output=True, text=True
    )


@pytest.mark.slow
@pytest.mark.needs("g++")
def test_the_gpu_kernel_of_the_contributors_page_passes_its_test(saxpy: Path) -> None:
    words = ("-m", "pytest", "-q", "-p", "added", "-p", "no:cacheprovider", "--rootdir", str(saxpy), str(saxpy))
    process = with_saxpy(saxpy, *words)
    assert process.returncode == 0, process.stdout + process.stderr
    assert re.search(r"\b2 passed", process.stdout)


COMPILE = """
import added
from accelbench.execution.plan import discover
from accelbench.kernels.lib.gpu.compilation import CAPABILITIES, compile_kernel, to_ptx
from accelbench.kernels.report import device_kernels

(kernel,) = [kernel for kernel in device_kernels() if kernel.name == "saxpy numba"]
assert ".entry" in to_ptx(kernel, (9, 0))
for capability in CAPABILITIES:
    code = compile_kernel(kernel, capability)
    assert code.registers > 0 and code.stack_bytes == code.spill_bytes == 0
declared = discover()["saxpy"]
print(*declared.axes_on("gpu")["impl"], *(point["n"] for point in declared.small_points("gpu")))
"""


@pytest.mark.slow
def test_the_gpu_kernel_in_contributing_is_found_and_compiles(saxpy: Path) -> None:
    process = with_saxpy(saxpy, "-c", COMPILE)
    assert process.returncode == 0, process.stderr
    assert process.stdout.split() == ["numba", "1000"]


def test_documentation_and_user_files_import_public_names_from_the_package_only() -> None:
    code = [*blocks("CONTRIBUTING.md", "python"), *blocks("docs/guide.md", "python")]
    code += [file.read_text(encoding="utf-8") for file in (ROOT / "tests/fixtures/own_benchmarks").rglob("*.py")]
    places = {name: place for place, names in accelbench._PLACES.items() for name in names}
    imported = [
        (node.module, each.name)
        for text in code
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for each in node.names
    ]
    assert ("accelbench", "benchmark") in imported
    assert [(module, name) for module, name in imported if module == f"accelbench.{places.get(name)}"] == []


def test_every_link_in_the_pages_is_valid() -> None:
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
