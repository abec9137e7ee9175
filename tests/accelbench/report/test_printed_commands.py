"""Commands that the report of a traced run prints, executed in the folder with the run and in the folder of the run."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import click
import pytest

from accelbench.__main__ import cli, main
from accelbench.commands import tensorboard
from accelbench.execution.store import RunStore
from accelbench.report import write_report
from tests.fixtures.report_pages import Tags, printed
from tests.fixtures.report_profiles import profile
from tests.fixtures.report_records import training, unmeasured
from tests.fixtures.report_runs import make_run

RUN_ID = "20260314-092653-cnn-mnist-a1b2"
PLACEHOLDERS = {"RUN": RUN_ID}
EXECUTED = {"run": ["--dry-run"], "tensorboard": ["--port", "0"], "contribute": []}
"""Commands that are executed, with additional options; the arguments of the others are parsed."""
QUOTED = re.compile(r"'(accelbench [^']+)'")
LINE = re.compile(r"accelbench (?:run|tensorboard) .*")


@pytest.fixture
def traced(tmp_path: Path) -> RunStore:
    """Write a traced run with a failed point to a folder outside of `runs`."""
    records = [
        training("cpu", "float32", 0.01).model_copy(update={"profile": profile()}),
        unmeasured("matmul", "failed", "wrong answer", params={"impl": "vendor", "dtype": "float64", "n": 512}),
    ]
    command = ["accelbench", "run", "cnn-mnist", "matmul", "--trace", "--out", "tb"]
    store = make_run(tmp_path / "tb", records, run_id=RUN_ID, device="cpu", suite=None, command=command)
    (tmp_path / "tb" / "traces").mkdir()
    return store


def commands_of(store: RunStore) -> list[list[str]]:
    """Return the words of each command in the run's page and terminal output."""
    page = Tags(write_report(store).read_text(encoding="utf-8")).text
    texts = (" ".join(text.split()) for text in (page, printed(store, verbose=True)))
    found = {*LINE.findall(page)}.union(*map(QUOTED.findall, texts))
    return [[PLACEHOLDERS.get(word, word) for word in shlex.split(line)] for line in sorted(found)]


@pytest.mark.slow
def test_every_printed_command_works_where_it_is_printed(
    traced: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = commands_of(traced)
    assert {"run", "tensorboard", "contribute"} <= {words[1] for words in commands}
    assert {words[2] for words in commands if words[1] == "run"} == {"cnn-mnist", "matmul"}
    monkeypatch.setattr(tensorboard, "tensorboard_command", lambda folder, port: [sys.executable, "-S", "-c", ""])
    # With and without other programs on PATH, such as make.
    for folder, path in ((tmp_path, os.environ["PATH"]), (tmp_path / "tb", str(tmp_path))):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PATH", path)
        for program, name, *words in commands:
            assert program == "accelbench"
            command = cli.get_command(click.Context(cli), name)
            assert command, name
            command.make_parser(click.Context(command)).parse_args([*words])
            if name in EXECUTED:
                assert main([name, *words, *EXECUTED[name]]) == 0, (folder, name, words)
