"""Wrong use ends at once, in one line that says what to do, with status 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from accelbench.__main__ import ORDER, cli
from accelbench.errors import UserError
from accelbench.execution.plan import Choice, make_plan
from accelbench.execution.suite import load_suite, suite_names
from accelbench.profiling.devices import kinds
from tests.conftest import Run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "matmull"], "did you mean 'matmul'?"),
        (["run", "matmul", "--param", "m=3"], "no chosen benchmark has an axis 'm'"),
        (["run", "matmul", "--param", "dtype=float33"], "did you mean 'float32'?"),
        (["run", "matmul", "--param", "n=0"], "n is at least 1"),
        (["run", "matmul", "--param", "n=-1"], "n is at least 1"),
        (["run", "matmul", "--param", "n=1.5"], "n is a whole number"),
        (["run", "matmul", "--param", "n=big"], "n is a whole number"),
        (["run", "matmul", "--param", "n"], "not of the form axis=value"),
        (["run", "matmul", "--param", "n="], "gives the axis no value"),
        (["run", "nqueens", "--param", "queens=23"], "queens is at most 22"),
        (["run", "uts", "--param", "tree=T7"], "tree is one of T1, T2, T3, T5, T1L, T3L, T1XL"),
        (["run", "flowshop", "--param", "instance=121"], "instance is one of 2, 3, 4,"),
        (["run", "flowshop", "--param", "instance=none"], "instance is a whole number"),
        (["run", "--suite", "quik"], "no suite is called 'quik'"),
        (["run", "--suite", "sitito2021-small"], "msu2021-small"),
        (["run", "--suite", "missing.toml"], "cannot read the suite missing.toml"),
        (["run", "launch", "--device", "cpu"], "launch does not run on cpu"),
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
        (["report", "latest"], "there is no run"),
        (["compare", "a", "b"], "not a run directory"),
        (["data", "fetch", "minst"], "minst"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_use_is_one_line_and_status_2(accelbench: Run, arguments: list[str], message: str) -> None:
    process = accelbench(*arguments)
    assert process.returncode == 2
    assert message in process.stderr
    assert process.stderr.startswith("accelbench: ")
    assert process.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("description = ", "not valid TOML"),
        ("all = true", "description: Field required"),
        ('description = "d"\nspeed = 1', "speed: Extra inputs"),
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
        ('description = "d"\n[[benchmark]]\nname = "matmul"\naxes = { n = [0] }', "n is at least 1"),
        ('description = "d"\n[[benchmark]]\nname = "matmul"\naxes = { n = [] }', "n"),
        ('description = "d"', "nothing of this selection"),
    ],
)
def test_a_malformed_suite_is_one_line_and_status_2(accelbench: Run, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    process = accelbench("run", "--suite", "mine.toml", "--device", "cpu")
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
def test_every_command_explains_itself(accelbench: Run, arguments: list[str]) -> None:
    process = accelbench(*arguments, "--help")
    assert process.returncode == 0
    assert "Usage: accelbench" in process.stdout


def test_the_help_names_every_command_in_the_order_of_use_and_gives_examples(accelbench: Run) -> None:
    commands, _, examples = accelbench("--help").stdout.partition("Commands:\n")[2].partition("\n\n")
    names = [line.split()[0] for line in commands.splitlines() if line.startswith("  ") and line[2] != " "]
    assert tuple(names) == ORDER, "each command has its place"
    assert "accelbench run matmul --param n=4096" in examples


def test_each_example_of_the_help_is_a_command_line_that_is_understood(accelbench: Run) -> None:
    examples = [
        line.strip().split("   ")[0] for line in accelbench("--help").stdout.splitlines() if "  accelbench " in line
    ]
    assert len(examples) >= 5
    for example in examples:
        name, *rest = example.split()[1:]
        assert name in accelbench("--help").stdout
        if name == "run":
            planned = accelbench(name, *rest, "--dry-run", "--device", "cpu")
            assert planned.returncode == 0, planned.stderr
            assert "nothing was measured" in planned.stdout


def test_list_names_every_benchmark_and_suite(accelbench: Run) -> None:
    process = accelbench("list")
    assert process.returncode == 0
    for name in ("matmul", "stream", "nqueens", "launch", "peak-arith", "cnn-mnist", "quick", "full"):
        assert name in process.stdout


def test_list_shows_those_whose_name_holds_a_word(accelbench: Run) -> None:
    shown = accelbench("list", "nqueens", "kimm").stdout
    assert "nqueens" in shown
    assert "kimm2021-small" in shown
    assert "stream" not in shown
    nothing = accelbench("list", "nqeens")
    assert nothing.returncode == 2
    assert nothing.stderr == "accelbench: no benchmark and no suite has nqeens in its name: did you mean 'nqueens'?\n"


def test_list_is_written_as_json_for_programs(accelbench: Run) -> None:
    described = json.loads(accelbench("list", "--json").stdout)
    by_name = {benchmark["name"]: benchmark for benchmark in described["benchmarks"]}
    assert by_name["matmul"]["axes"]["cpu"]["dtype"]
    assert by_name["cnn-mnist"]["kind"] == "training"
    assert "quick" in [suite["name"] for suite in described["suites"]]


def test_list_says_what_may_be_asked_for_beyond_the_defaults(accelbench: Run) -> None:
    assert "tree is one of T1, T2, T3, T5, T1L, T3L, T1XL" in accelbench("list").stdout


def test_a_value_beyond_the_defaults_may_be_asked_for() -> None:
    points = make_plan(["flowshop"], None, "cpu", [Choice.parse("instance=2,19")], None)
    assert [point.params["instance"] for point in points] == [2, 19]


def test_a_suite_may_compare_backends_and_the_command_line_chooses_one(tmp_path: Path) -> None:
    file = tmp_path / "frameworks.toml"
    file.write_text('description = "x"\n[[benchmark]]\nname = "cnn-mnist"\nbackends = ["torch", "jax"]\n')
    suite = load_suite(str(file))

    def backends(asked: str | None) -> list[str | None]:
        return [point.backend for point in make_plan((), suite, "cpu", (), asked)]

    assert backends(None) == ["torch", "jax"]
    assert backends("tensorflow") == ["tensorflow"]


@pytest.mark.parametrize("name", suite_names())
def test_every_suite_can_be_planned_on_every_device(name: str) -> None:
    suite, planned = load_suite(name), 0
    for device in kinds():
        try:
            planned += len(make_plan((), suite, device, (), None))
        except UserError as error:
            assert f"runs on {device}" in str(error)  # noqa: PT017 - a suite need not be for every device
    assert planned


@pytest.mark.parametrize("arguments", ["--version", "--help", "list"])
def test_what_answers_at_once_imports_nothing_heavy(accelbench: Run, tmp_path: Path, arguments: str) -> None:
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
def test_a_shell_completes_what_was_begun(
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


def test_the_schema_describes_a_record(accelbench: Run) -> None:
    process = accelbench("schema")
    assert process.returncode == 0
    assert '"benchmark"' in process.stdout
    assert '"title": "Record"' in process.stdout


@pytest.mark.parametrize("printing", ["schema", "--version"])  # more and less than a buffer holds
def test_a_reader_that_stops_early_is_no_error(printing: str) -> None:
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
