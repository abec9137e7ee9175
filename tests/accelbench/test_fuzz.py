"""Fuzz tests: any command line, suite or stored file gives a documented exit status and no traceback.

The command line runs in this process, so an uncaught exception fails the test. Nothing is measured.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelbench.__main__ import cli, main
from accelbench.errors import Interrupted
from accelbench.execution.store import RunStore
from accelbench.workloads.data.cache import DataError
from accelbench.workloads.data.sources import File
from tests.conftest import Run
from tests.fixtures.report_records import record, training
from tests.fixtures.report_runs import make_run

CONTRACT = {0, 1, 2, 3, 130}
SOME = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
KINDS = 3
"""Number of records in the corrupted run."""
NOT_HERE = {"doctor", "gate"}
"""Commands that take seconds without arguments."""


@pytest.fixture(scope="module")
def nothing_measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Replace measurements, process starts and downloads; all other code runs."""

    def no_network(file: File, *asked: object) -> None:
        raise DataError(f"cannot download {file.url}")

    def ended_at_once(*asked: object, **more: object) -> None:
        raise Interrupted("interrupted")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCELBENCH_DATA", str(tmp_path_factory.mktemp("data")))
        patch.setattr("accelbench.workloads.data.fetch.download", no_network)
        patch.setattr("accelbench.commands.launch.launch", lambda *asked: 0)
        patch.setattr("accelbench.pair.pairing.measure_pair", ended_at_once)
        patch.setattr("accelbench.soak.node_soak.soak_node", ended_at_once)
        patch.setattr("accelbench.session.new_run", lambda *asked: asked)
        patch.setattr("accelbench.session.complete", lambda *asked, **more: 0)
        patch.setattr("accelbench.environment.differences.same_machine", lambda *machines: True)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Working directory with two complete runs."""
    folder = tmp_path_factory.mktemp("fuzz")
    kinds = [record("matmul"), record("stream"), training("cpu", "float32", 0.01)]
    assert len(kinds) == KINDS
    make_run(folder / "whole", kinds, device="cpu")
    make_run(folder / "other", kinds, device="cpu", run_id="other")
    (folder / "suite.toml").write_text('description = "d"\n[[benchmark]]\nname = "stream"\n')
    with contextlib.chdir(folder):
        yield folder


def status_of(*words: str) -> tuple[int, str]:
    """Return the exit status of a command line and its standard error."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = main(list(words))
    return status, errors.getvalue()


def keeps_the_contract(*words: str) -> None:
    status, errors = status_of(*words)
    assert status in CONTRACT
    assert status in (0, 3) or errors.startswith("accelbench: ")
    assert all(line.startswith("accelbench: ") for line in errors.splitlines())


ODD = st.sampled_from(
    [
        *("inf", "-inf", "nan", "1e300", "1e-300", "-1", "0", "1", "1.5", "0x10", "٣", "9" * 23, "9" * 5000, "true"),
        *("", " ", "x", "x" * 300, "x" * 5000, "\udcff", "\x1b[31m", "\u202e", "a\nb", "=", "n=", "=1", "n=1", "n=1e9"),
        *(
            "n=true",
            "n=[1]",
            "n=inf",
            f"n={'9' * 30}",
            "stream.op=copy",
            "slower:5%",
            "slower:1e400%",
            "machine:",
            "--",
        ),
        *(".", "/", "..", "/dev/null", "/proc/self/mem", "whole", "whole/run.json", "whole:x", "latest", "suite.toml"),
        *(
            "stream",
            "matmul",
            "cnn-mnist",
            "quick",
            "cpu",
            "gpu",
            "tpu",
            "auto",
            "torch",
            "mirrored",
            "H200",
            "probe=1",
        ),
    ]
) | st.text(st.characters(exclude_characters="\0"), max_size=8)


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """Draw a command with some of its options and arbitrary values."""
    command: click.Command = cli
    words: list[str] = []
    while isinstance(command, click.Group):
        group = click.Context(command)
        words.append(draw(st.sampled_from([name for name in command.list_commands(group) if name not in NOT_HERE])))
        found = command.get_command(group, words[-1])
        assert found is not None
        command = found
    of_it = st.lists(st.sampled_from(command.params), max_size=5) if command.params else st.just([])
    for param in draw(of_it):
        if isinstance(param, click.Option):
            words.append(param.opts[0])
        if not getattr(param, "is_flag", False):
            words.append(draw(ODD))
    return words + draw(st.lists(ODD, max_size=2))


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_measured", "folder")
@settings(SOME, max_examples=300)
@given(command_lines())
def test_any_command_line_has_a_documented_exit_status(words: list[str]) -> None:
    keeps_the_contract(*words)


TOML = st.sampled_from(
    [
        *("true", "1", "0", "-1", "1.5", "inf", "nan", "1e300", "9" * 30, "9" * 5000, "1979-05-27", "07:32:00", '""'),
        *('"x"', '"\\u0000"', "[]", "[1]", "[true]", "[[1]]", "[1, 'x']", "[inf]", "['copy']", "{}", "{ cpu = 1 }"),
        *("{ cpu = inf }", "{ abacus = 1 }", f"[{'9' * 30}]", "[" * 5000, "[" * 300 + "]" * 300, "'", "\ufeff", "\t="),
    ]
)
KEYS = ("description", "name", "all", "max_seconds", "rounds", "training_rounds", "benchmark", "speed", "a.b.c", "''")
OF_BENCHMARK = ("name", "device", "backends", "axes", "axes.op", "axes.n", "axes.impl", "axes.m")


@st.composite
def suites(draw: st.DrawFn) -> str:
    """Draw a suite file with invalid values and keys."""
    lines = ['description = "d"'] if draw(st.booleans()) else []
    lines += [f"{draw(st.sampled_from(KEYS))} = {draw(TOML)}" for _ in range(draw(st.integers(0, 2)))]
    for _ in range(draw(st.integers(0, 2))):
        lines += ["[[benchmark]]", f'name = "{draw(st.sampled_from(["stream", "matmul", "cnn-mnist", "nobody"]))}"']
        lines += [f"{draw(st.sampled_from(OF_BENCHMARK))} = {draw(TOML)}" for _ in range(draw(st.integers(0, 2)))]
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_measured")
@settings(SOME, max_examples=300)
@given(text=suites())
def test_any_suite_has_a_documented_exit_status(folder: Path, text: str) -> None:
    (folder / "odd.toml").write_text(text, encoding="utf-8")
    keeps_the_contract("run", "--suite", "odd.toml", "--device", "cpu")


VALUES = st.sampled_from(
    [
        *(None, True, 0, 1, -1, 3, 1.5, 1e300, 1e-300, 10**17, 10**30, "NaN", "Infinity", "", "x" * 5000, "\x1b[31m"),
        *("\u202e", "0001-01-01T00:00:00Z", "2026-01-01T00:00:00", [], {}, ["a"], [[]], {"a": 1}, [{"a": []}]),
    ]
)


def spots(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value of JSON data."""
    yield at
    for key in node if isinstance(node, dict) else {0, len(node) - 1} if isinstance(node, list) and node else ():
        yield from spots(node[key], (*at, key))


def put(node: Any, at: tuple[Any, ...], value: Any) -> Any:
    """Return JSON data with another value at the given path."""
    if not at:
        return value
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[at[0]] = put(copy[at[0]], at[1:], value)
    return copy


def spoiled(draw: st.DrawFn, text: str) -> bytes:
    """Return JSON with one invalid value, or its bytes with a part removed, doubled or inserted."""
    if draw(st.booleans()):
        data = json.loads(text)
        return json.dumps(put(data, draw(st.sampled_from(list(spots(data)))), draw(VALUES))).encode()
    data = text.encode()
    begin = draw(st.integers(0, len(data)))
    end = draw(st.integers(begin, min(len(data), begin + 40)))
    odd = st.sampled_from(
        [b"", b"\0", b"\xff\xfe", b"\n", b"\r", b"[" * 9999, b"9" * 5000, b"NaN", b"{}", data[begin:end] * 2]
    )
    return data[:begin] + draw(odd) + data[end:]


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, int, bytes]:
    """Draw the corrupted file of a run, its line number and its new content."""
    whole = RunStore(Path("whole"))
    if draw(st.integers(0, 3)) == 0:
        return "run.json", 0, spoiled(draw, whole.info_path.read_text(encoding="utf-8"))
    lines = whole.records_path.read_text(encoding="utf-8").splitlines()
    number = draw(st.integers(0, len(lines) - 1))
    return "records.jsonl", number, spoiled(draw, lines[number])


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_measured")
@SOME
@given(damage=damaged())
def test_any_corruption_of_a_store_loses_only_its_record(folder: Path, damage: tuple[str, int, bytes]) -> None:
    name, number, content = damage
    shutil.rmtree(folder / "odd", ignore_errors=True)
    shutil.copytree(folder / "whole", folder / "odd")
    path = folder / "odd" / name
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(
        content if name == "run.json" else b"".join([*lines[:number], content + b"\n", *lines[number + 1 :]])
    )
    read = RunStore(folder / "odd").contents().lines
    if name == "records.jsonl":
        others = [each for place, each in enumerate(RunStore(folder / "whole").contents().lines) if place != number]
        assert {str(each.point) for each in others} <= {str(each.point) for each in read}
    if name == "run.json" or len(read) == KINDS:  # without the corrupted record, the report is an ordinary one
        keeps_the_contract("report", "odd")
    keeps_the_contract("compare", "other", "odd")
    keeps_the_contract("history", ".")
    keeps_the_contract("resume", "odd")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("run", "stream", "--time-limit", "inf"),
        ("run", "stream", "--time-limit", "nan"),
        ("run", "stream", "--max-seconds", "1e300"),
        ("run", "stream", "--seed", "9" * 23),
        ("run", "stream", "--out", "x" * 5000),
        ("run", "--suite", "nested.toml"),
        ("report", "x" * 5000),
        ("tensorboard", "whole", "--port", "99999"),
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_invalid_values_are_one_line_of_a_real_process(accelbench: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "nested.toml").write_text(f"description = {'[' * 5000}")
    process = accelbench(*words)
    assert (process.returncode, process.stderr.count("\n")) == (2, 1)
    assert process.stderr.startswith("accelbench: ")
