"""Command `schema`: JSON Schema of the stored files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from accelbench.profiling.records.stored import Stored


@click.command()
@click.argument("what", type=click.Choice(["record", "run", "gate", "soak"]), default="record")
def command(what: str) -> None:
    """Print the JSON Schema of a line of records.jsonl, of run.json, of the answer of the gate, or of soak.json."""
    from accelbench.execution.store import RunInfo
    from accelbench.gate.answer import GateAnswer
    from accelbench.profiling.records.record import Record
    from accelbench.soak.answer import SoakAnswer

    models: dict[str, type[Stored]] = {"record": Record, "run": RunInfo, "gate": GateAnswer, "soak": SoakAnswer}
    print(json.dumps(models[what].model_json_schema(), indent=2))
