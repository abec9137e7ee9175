"""Tests of the command line: usage errors are one line with status 2; help, list, completion and schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from pkgutil import iter_modules

import pytest
from click.shell_completion import ShellComplete

import accelbench.commands
from accelbench.__main__ import GROUPS, ORDER, cli
from accelbench.errors import UserError
from accelbench.execution.plan import Choice, make_plan
from accelbench.execution.suite import load_suite, suite_names
from accelbench.profiling.devices import kinds
from tests.conftest import Run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "matmull"], "did you mean 'matmul'?"),
        (["run", "matmul", "--param", "m=3"], "axis 'm'"),
        (["run", "matmul", "--param", "dtype=float33"], "did you mean 'float32'?"),
        (["run", "matmul", "--param", "dtype=fp32"], "did you mean 'float32'?"),
        (["run", "--device", "cuda"], "did you mean 'gpu'?"),
        (["run", "matmul", "--param", "n=0"], "n=0"),
        (["run", "matmul", "--param", "n=-1"], "n=-1"),
        (["run", "matmul", "--param", "n=1.5"], "n=1.5"),
        (["run", "matmul", "--param", "n=big"], "n=big"),
        (["run", "matmul", "--param", "n"], "--param 'n'"),
        (["run", "matmul", "--param", "n="], "--param 'n='"),
        (["run", "nqueens", "--param", "queens=23"], "at most 22"),
        (["run", "uts", "--param", "tree=T7"], "T1, T2, T3, T5, T1L, T3L, T1XL"),
        (["run", "flowshop", "--param", "instance=121"], "2, 3, 4,"),
        (["run", "flowshop", "--param", "instance=none"], "instance=none"),
        (["run", "--suite", "quik"], "'quik'"),
        (["run", "--suite", "sitito2021-small"], "msu2021-small"),
        (["run", "--suite", "missing.toml"], "missing.toml"),
        (["run", "launch", "--device", "cpu"], "launch"),
        (["run", "--device", "abacus"], "abacus"),
        (["run", "--backend", "theano"], "theano"),
        (["run", "--seed", "-1"], "seed"),
        (["run", "matmul", "--rounds", "0"], "rounds"),
        (["run", "matmul", "--rounds", "-1"], "rounds"),
        (["run", "matmul", "--rounds", "x"], "rounds"),
        (["run", "matmul", "--rounds", "100"], "rounds"),
        (["measure"], "measure"),
        (["resume", "nothing"], "not a run directory"),
        (["report", "nothing"], "not a run directory"),
        (["report", "latest"], "no run"),
        (["compare", "a", "b"], "not a run directory"),
        (["data", "fetch", "minst"], "minst"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_usage_error_is_one_line_and_status_2(in_process: Run, arguments: list[str], message: str) -> None:
    process = in_process(*arguments)
    assert process.returncode == 2
    assert message in process.stderr
    assert process.stderr.startswith("accelbench: ")
    assert process.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("description = ", "not valid TOML"),
        ("all = true", "description is missing"),
        ('description = "d"\n[[benchmark]]\nname = "matmul"\naxis = {n = [512]}', "did you mean 'axes'?"),
        ('description = "d"\n[[benchmark]]\nname = "matmul"\naxes = {n = "512"}', 'n = ["512"]'),
        ('description = "d"\n[[benchmark]]\naxes = {}', "benchmark 1: name is missing"),
        ('description = "d"\nspeed = 1', "unknown key speed"),
        ('description = "d"\nmax_seconds = -1', "max_seconds"),
        ('description = "d"\nmax_seconds = { gpu = 0 }', "max_seconds"),
        ('description = "d"\nmax_seconds = { cloud = 1 }', "max_seconds"),
        ('description = "d"\nrounds = 0', "rounds"),
        ('description = "d"\nrounds = 2.5', "rounds"),
        ('description = "d"\nrounds = true', "rounds"),
        ('description = "d"\nrounds = { gpu = 0 }', "rounds"),
        ('description = "d"\ntraining_rounds = -1', "training_rounds"),
        ('description = "d"\n[[benchmark]]\nname = "matmull"', "did you mean 'matmul'?"),
        ('description = "d"\n[[benchmark]]\nname = "matmul"\naxes = { m = [1] }', "no axis 'm'"),
        ('description = "d"\n[[benchmark]]\nname = "matmul"\naxes = { n = [0] }', "n=0"),
        ('description = "d"\n[[benchmark]]\nname = "matmul"\naxes = { n = [] }', "n"),
        ('description = "d"', "accelbench list"),
    ],
)
def test_a_malformed_suite_is_one_line_and_status_2(in_process: Run, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    process = in_process("run", "--suite", "mine.toml", "--device", "cpu")
    assert process.returncode == 2
    assert message in process.stderr
    assert process.stderr.count("\n") == 1


def test_a_binary_suite_file_is_one_line(accelbench: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe\x00")
    process = accelbench("run", "--suite", "mine.toml")
    assert (process.returncode, "not UTF-8" in process.stderr) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["run"],
        ["resume"],
        ["report"],
        ["pack"],
        ["gpu-day"],
        ["reproduce"],
        ["compare"],
        ["pair"],
        ["doctor"],
        ["peaks"],
        ["data"],
        ["data", "fetch"],
        ["list"],
        ["schema"],
    ],
    ids=lambda a: " ".join(a),
)
def test_every_command_has_help(in_process: Run, arguments: list[str]) -> None:
    process = in_process(*arguments, "--help")
    assert process.returncode == 0
    assert "Usage: accelbench" in process.stdout


def test_the_help_lists_every_command_in_order_and_examples(in_process: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = in_process("--help").stdout
    listed = text.partition("\nMeasure:\n")[2].splitlines()
    names = [line.split()[0] for line in listed if re.match(r"  [a-z]", line)]
    assert tuple(names[: len(ORDER)]) == ORDER
    commands = {found.name.replace("_", "-") for found in iter_modules(accelbench.commands.__path__)}
    assert commands == set(ORDER), "each command has a group"
    assert max(len(text) for group in GROUPS.values() for text in group.values()) <= 55
    assert max(map(len, text.partition("Examples:")[0].splitlines())) <= 80
    assert "accelbench run matmul --param n=4096" in text


def test_each_example_of_the_help_is_valid(in_process: Run) -> None:
    text = in_process("--help").stdout
    examples = [line.strip().split("   ")[0] for line in text.splitlines() if "  accelbench " in line]
    assert len(examples) >= 5
    for example in examples:
        name, *rest = example.split()[1:]
        assert name in ORDER
        if name == "run":
            planned = in_process(name, *rest, "--dry-run", "--device", "cpu")
            assert planned.returncode == 0, planned.stderr
            assert "estimate" in planned.stdout


def test_list_shows_every_benchmark_and_suite(in_process: Run) -> None:
    process = in_process("list")
    assert process.returncode == 0
    for name in ("matmul", "stream", "nqueens", "launch", "peak-arith", "cnn-mnist", "quick", "full"):
        assert name in process.stdout


def test_list_filters_by_words(in_process: Run) -> None:
    shown = in_process("list", "nqueens", "kimm").stdout
    assert "nqueens" in shown
    assert "kimm2021-small" in shown
    assert "stream" not in shown
    nothing = in_process("list", "nqeens")
    assert nothing.returncode == 2
    assert "did you mean 'nqueens'?" in nothing.stderr
    assert nothing.stderr.count("\n") == 1


def test_list_as_json(accelbench: Run) -> None:
    described = json.loads(accelbench("list", "--json").stdout)
    by_name = {benchmark["name"]: benchmark for benchmark in described["benchmarks"]}
    assert by_name["matmul"]["axes"]["cpu"]["dtype"]
    assert by_name["cnn-mnist"]["kind"] == "training"
    assert "quick" in [suite["name"] for suite in described["suites"]]


def test_list_shows_all_choices_of_an_axis(in_process: Run) -> None:
    assert "tree: T1, T2, T3, T5, T1L, T3L, T1XL" in in_process("list", "uts").stdout


def test_values_other_than_the_defaults_can_be_requested() -> None:
    points = make_plan(["flowshop"], None, "cpu", [Choice.parse("instance=2,19")], None)
    assert [point.params["instance"] for point in points] == [2, 19]


def test_the_backend_option_overrides_the_backends_of_a_suite(tmp_path: Path) -> None:
    file = tmp_path / "frameworks.toml"
    file.write_text('description = "x"\n[[benchmark]]\nname = "cnn-mnist"\nbackends = ["torch", "jax"]\n')
    suite = load_suite(str(file))

    def backends(requested: str | None) -> list[str | None]:
        return [point.backend for point in make_plan((), suite, "cpu", (), requested)]

    assert backends(None) == ["torch", "jax"]
    assert backends("tensorflow") == ["tensorflow"]


@pytest.mark.parametrize("name", suite_names())
def test_every_suite_can_be_planned(name: str) -> None:
    suite, planned = load_suite(name), 0
    for device in kinds():
        try:
            planned += len(make_plan((), suite, device, (), None))
        except UserError as error:
            assert device in str(error)  # noqa: PT017 - not every suite supports every device
    assert planned


@pytest.mark.parametrize("arguments", ["--version", "--help", "list"])
def test_quick_commands_import_no_heavy_packages(accelbench: Run, tmp_path: Path, arguments: str) -> None:
    frameworks = ("tensorflow", "keras", "jax", "torch", "cupy", "numba", "numpy", "pandas", "matplotlib", "scipy")
    for name in (*frameworks, "rich", "requests", "jinja2"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is imported')")
    process = accelbench(arguments, PYTHONPATH=str(tmp_path))
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    ("words", "begun", "completed"),
    [
        ([], "rep", ["report", "reproduce"]),
        (["run"], "matm", ["matmul"]),
        (["run", "--suite"], "kimm2021-s", ["kimm2021-small", "kimm2021-strategies", "kimm2021-strategies-small"]),
        (["run", "--backend"], "t", ["tensorflow", "torch"]),
        (["report"], "", ["latest", "runs/A"]),
        (["reproduce"], "w", ["wang2019"]),
        (["reproduce", "wang2019"], "runs", ["runs/A"]),
        (["compare", "runs/A"], "la", ["latest"]),
    ],
)
def test_shell_completion(
    words: list[str],
    begun: str,
    completed: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "A").mkdir(parents=True)
    (tmp_path / "runs" / "A" / "run.json").touch()
    (tmp_path / "accelbench.toml").write_text("[run]\nrounds = 3\n")
    shell = ShellComplete(cli, {}, "accelbench", "_ACCELBENCH_COMPLETE")
    assert [item.value for item in shell.get_completions(words, begun)] == completed
    assert capsys.readouterr().err == ""


def test_schema_of_a_record(accelbench: Run) -> None:
    process = accelbench("schema")
    assert process.returncode == 0
    assert '"benchmark"' in process.stdout
    assert '"title": "Record"' in process.stdout


@pytest.mark.parametrize("printing", ["schema", "--version"])  # larger and smaller than a buffer
def test_a_closed_pipe_is_no_error_message(printing: str) -> None:
    import subprocess

    from tests.conftest import command, environment

    pipe = subprocess.Popen(
        command(printing),
        env=environment(PYTHONUNBUFFERED=None),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert pipe.stdout is not None
    assert pipe.stderr is not None
    pipe.stdout.close()
    assert pipe.stderr.read() == b""
    assert pipe.wait() == 1
